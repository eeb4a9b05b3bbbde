//! The reconciler of the periodic audit: runs it, and writes its findings as reports.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::api::{DeleteParams, ListParams, PatchParams, PostParams, Preconditions};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::audited::Audited;
use super::key::Key;
use super::metrics::AuditMetrics;
use super::reports::{self, ByNamespace, Report};
use super::settings::Settings;
use crate::admission::audit::{Conflict, Findings, Found};
use crate::rego_loading::Loaded;
use policy_sync_api::annotations::{CONTROLLER, REPORTED};
use policy_sync_api::names::{ControllerName, ObjectKey};
use policy_sync_api::object::Metadata;
use policy_sync_api::text::with_causes;
use policy_sync_hub::Pages;
use policy_sync_hub::clock::Clock;
use policy_sync_hub::computed_aside;
use policy_sync_hub::reconcile::{
    Capability, Failure, Leadership, Queue, RequestError, Requests, Slot, apply, of_kind,
};
use policy_sync_mirror::Extent;
use policy_sync_rego::module::ModuleId;

/// Delay before an audit is retried while Rego policies or objects are not loaded.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// How long an audit waits for objects that are not loaded. After that it audits the others.
const PATIENCE: Duration = Duration::from_secs(60);
/// How many pairs of conflicting Rego policies are reported.
const CONFLICTS: usize = 100;
/// Page size when listing reports.
const PAGE: u32 = 500;

/// Runs audits and writes reports.
pub(super) struct Inspector {
    pub(super) loaded: Loaded,
    pub(super) audited: Audited,
    pub(super) settings: Settings,
    pub(super) controller: ControllerName,
    pub(super) requests: Requests,
    pub(super) leadership: Leadership,
    pub(super) queue: Arc<Queue<Key>>,
    pub(super) metrics: AuditMetrics,
    pub(super) clock: Clock,
    pub(super) reports: Mutex<Reports>,
    pub(super) stop: CancellationToken,
}

/// The reports of the current leadership term.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// The last findings, until they have been compared with the reports on the hub.
    found: Option<BTreeMap<Arc<str>, Report>>,
    /// Pending report changes, by namespace.
    due: BTreeMap<Arc<str>, Due>,
    /// The resource version of each report without a pending change, by namespace. A different resource
    /// version means that another client has changed the report.
    versions: BTreeMap<Arc<str>, String>,
    /// Whether the hub serves reports; `None` until known.
    are_served: Option<bool>,
    /// Since when audits have been waiting for Rego policies or objects.
    waits_since: Option<Instant>,
}

/// A pending change of a report. A deletion has the uid of the report.
#[derive(Clone, Debug, PartialEq)]
enum Due {
    Create(Report),
    Write(Report),
    Delete(String),
}

/// A report on the hub.
#[derive(Debug)]
struct There {
    uid: String,
    version: String,
    /// The hash of its content, from its annotation.
    says: String,
}

/// A failed request for reports. It is retried with backoff.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what}")]
pub(super) struct InspectError {
    what: String,
    source: RequestError,
}

impl Failure for InspectError {
    fn category(&self) -> &'static str {
        self.source.category()
    }

    fn is_routine(&self) -> bool {
        self.source.is_routine()
    }
}

impl Capability for Inspector {
    type Key = Key;
    type Error = InspectError;

    fn everything(&self) -> BTreeSet<Key> {
        BTreeSet::from([Key::Run])
    }

    fn leadership_changed(&self) {
        *self.reports.lock() = Reports::default();
        self.loaded.conflicting([]);
        self.metrics.forget();
    }

    async fn carry_out(&self, key: &Key, _slot: Slot) -> Result<(), InspectError> {
        match key {
            Key::Run => self.run().await,
            Key::Reports => return self.compare().await,
            Key::Report(namespace) => return self.write(namespace).await,
        }
        Ok(())
    }
}

impl Inspector {
    async fn run(&self) {
        let Some(interval) = self.settings.interval else {
            // Without a periodic audit, reports of former audits are obsolete.
            self.reports.lock().found = Some(BTreeMap::new());
            return self.queue.affect([Key::Reports]);
        };
        if let Some(why) = self.audited.missing() {
            debug!(why, "there is no audit yet");
            let since = *self.reports.lock().waits_since.get_or_insert_with(Instant::now);
            if since.elapsed() < PATIENCE {
                return self.queue.add_after(Key::Run, LOOK_AGAIN);
            }
        }
        self.reports.lock().waits_since = None;
        let began = Instant::now();
        let (audited, stop, leadership) = (self.audited.clone(), self.stop.clone(), self.leadership.clone());
        let goes_on = move || !stop.is_cancelled() && leadership.leads();
        let collect = self.are_known();
        let (all, by_namespace, conflicts) =
            match computed_aside("audit", move || find(&audited, collect, goes_on)).await {
                Ok(Ok(found)) => found,
                Ok(Err(why)) => {
                    debug!(why, "there is no audit yet");
                    return self.queue.add_after(Key::Run, LOOK_AGAIN);
                }
                Err(error) => {
                    warn!(error = with_causes(&error), "an audit failed");
                    return self.queue.add_after(Key::Run, interval);
                }
            };
        if !self.leadership.leads() {
            return;
        }
        let took = began.elapsed();
        self.metrics.found(&all, took, self.clock.now());
        debug!(violations = all.count(), took = took.as_secs_f64(), "audited existing objects");
        let conflicts = conflicts.into_iter();
        self.loaded.conflicting(conflicts.map(|(pair, text)| (pair.map(|id| ModuleId::new(&id)), text)));
        let found = by_namespace.reports(&self.settings.name, &self.controller);
        self.reports.lock().found = Some(found);
        self.queue.affect([Key::Reports]);
        self.queue.add_after(Key::Run, interval);
    }

    /// Whether the hub serves the report kinds, in any version.
    fn are_known(&self) -> bool {
        [false, true].into_iter().all(|of_cluster| self.loaded.read_as(&reports::kind(of_cluster)).is_some())
    }

    /// All reports with our name on the hub, by namespace; `None` if the hub does not serve reports.
    async fn there(&self) -> Result<Option<BTreeMap<Arc<str>, There>>, InspectError> {
        let mut there = BTreeMap::new();
        for gvr in [false, true].map(reports::resource) {
            let name = format!("metadata.name={}", self.settings.name);
            let params = ListParams::default().fields(&name).limit(PAGE);
            let mut pages = Pages::new(&gvr, "", params, Extent::Metadata);
            loop {
                let page = match self.requests.list(pages.request(), Extent::Metadata).await {
                    Ok(page) => page,
                    Err(RequestError::Refused(status)) if status.code == 404 => return Ok(None),
                    Err(source) => {
                        return Err(InspectError { what: format!("list {}", gvr.kind), source });
                    }
                };
                let (objects, token) = page;
                there.extend(objects.into_iter().filter_map(|object| self.ours(object.metadata)));
                if !pages.turn(token) {
                    break;
                }
            }
        }
        Ok(Some(there))
    }

    /// The report, unless its label names another controller.
    fn ours(&self, metadata: Metadata) -> Option<(Arc<str>, There)> {
        let namespace: Arc<str> = metadata.namespace.as_str().into();
        let owner = metadata.labels.get(CONTROLLER).map_or(self.controller.hash(), String::as_str);
        if owner != self.controller.hash() {
            warn!(%namespace, name = self.settings.name, "another controller owns the report with this name");
            return None;
        }
        let says = metadata.annotations.get(REPORTED).cloned().unwrap_or_default();
        Some((namespace, There { uid: metadata.uid, version: metadata.resource_version, says }))
    }

    /// Compares the last findings with the reports on the hub, and queues the differences.
    async fn compare(&self) -> Result<(), InspectError> {
        let there = if self.are_known() { self.there().await? } else { None };
        let mut reports = self.reports.lock();
        let are_served = there.is_some();
        if reports.are_served.replace(are_served) != Some(are_served) {
            match are_served {
                true => info!("reports of audits are written"),
                false => info!("no reports of audits are written: the hub has no openreports.io/v1alpha1"),
            }
        }
        let (Some(there), Some(found)) = (there, reports.found.take()) else { return Ok(()) };
        let mut due = BTreeMap::new();
        for (namespace, There { uid, .. }) in &there {
            if !found.contains_key(namespace) {
                due.insert(namespace.clone(), Due::Delete(uid.clone()));
            }
        }
        let mut versions = BTreeMap::new();
        for (namespace, report) in found {
            let next = match there.get(&namespace) {
                None => Due::Create(report),
                Some(There { version, says, .. }) => {
                    let known = reports.versions.get(&namespace);
                    if *says == report.says && known.is_none_or(|known| known == version) {
                        versions.insert(namespace, version.clone());
                        continue;
                    }
                    Due::Write(report)
                }
            };
            due.insert(namespace, next);
        }
        let keys: Vec<Key> = due.keys().cloned().map(Key::Report).collect();
        (reports.due, reports.versions) = (due, versions);
        drop(reports);
        self.queue.affect(keys);
        Ok(())
    }

    /// Writes or deletes the report of `namespace`.
    async fn write(&self, namespace: &Arc<str>) -> Result<(), InspectError> {
        let Some(due) = self.reports.lock().due.get(namespace).cloned() else { return Ok(()) };
        let gvr = reports::resource(namespace.is_empty());
        let (objects, name) = (of_kind(&gvr, namespace), &*self.settings.name);
        let manager = self.controller.hub_field_manager();
        let written = match &due {
            Due::Create(report) => {
                let params = PostParams { field_manager: Some(manager), ..PostParams::default() };
                let body = report.object.to_string().into_bytes();
                self.requests.write(objects.create(&params, body)).await
            }
            // Apply recreates a report that was deleted in the meantime.
            Due::Write(report) => {
                let params = PatchParams::apply(&manager).force();
                let request =
                    apply::body(&report.object).and_then(|body| objects.patch(name, &params, &body));
                self.requests.write(request).await
            }
            Due::Delete(uid) => {
                let preconditions = Preconditions { uid: Some(uid.clone()), resource_version: None };
                let params = DeleteParams::default().preconditions(preconditions);
                self.requests.write(objects.delete(name, &params)).await
            }
        };
        let version = match written {
            Ok(written) => Some(written.resource_version).filter(|_| !matches!(due, Due::Delete(_))),
            Err(RequestError::Refused(status)) if status.code == 404 => None,
            // The namespace may be terminating or over quota. The next audit tries again.
            Err(RequestError::Refused(status)) if matches!(status.code, 400..=428) => {
                let key = ObjectKey::new(namespace, name);
                warn!(report = %key, error = status.message, "the hub rejected a report");
                None
            }
            Err(source) => {
                let what = format!("write the report {}", ObjectKey::new(namespace, name));
                return Err(InspectError { what, source });
            }
        };
        let mut reports = self.reports.lock();
        // Unless another audit has queued a different change in the meantime.
        if reports.due.get(namespace) == Some(&due) {
            reports.due.remove(namespace);
            match version {
                Some(version) => drop(reports.versions.insert(namespace.clone(), version)),
                None => drop(reports.versions.remove(namespace)),
            }
        }
        Ok(())
    }
}

/// The result of an audit: all counts, the violations by namespace (if collected), and the conflicts between
/// Rego policies.
type Run = (Findings, ByNamespace, BTreeMap<[String; 2], String>);

fn find(audited: &Audited, collect: bool, goes_on: impl Fn() -> bool) -> Result<Run, String> {
    let (mut all, mut by_namespace) = (Findings::default(), ByNamespace::default());
    let mut conflicts = BTreeMap::new();
    let mut add = |found: Found| match found {
        Found::Violation(violation) => {
            all.count_one(&violation.enforcement);
            if collect {
                by_namespace.add(violation);
            }
        }
        // One example object for each pair of Rego policies is enough.
        Found::Conflict(Conflict { policies, text }) if conflicts.len() < CONFLICTS => {
            conflicts.entry(policies).or_insert(text);
        }
        Found::Conflict(_) => {}
    };
    audited.find(&mut add, goes_on)?;
    Ok((all, by_namespace, conflicts))
}
