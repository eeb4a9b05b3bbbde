//! The reconciler of the periodic audit: runs it, and writes its findings as reports.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::api::{DeleteParams, ListParams, PatchParams, PostParams, Preconditions};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::audit_runner::AuditRunner;
use super::metrics::AuditMetrics;
use super::reports::{self, ByNamespace, Report};
use super::setup::Settings;
use crate::admission::audit::{Conflict, Finding, Findings};
use crate::rego_loading::Loaded;
use policy_sync_api::annotations::{CONTROLLER, REPORTED};
use policy_sync_api::names::{ControllerName, ObjectKey};
use policy_sync_api::object::Metadata;
use policy_sync_api::text::with_causes;
use policy_sync_hub::Pages;
use policy_sync_hub::clock::Clock;
use policy_sync_hub::compute_in_background;
use policy_sync_hub::reconcile::{
    Capability, Leadership, Queue, ReconcileError, RequestError, Requests, Slot, apply, of_kind,
};
use policy_sync_mirror::{self as mirror, Priority, Projection};
use policy_sync_rego::module::ModuleId;

/// Delay before an audit is retried while Rego policies or objects are not loaded.
const RETRY_DELAY: Duration = Duration::from_secs(5);
/// How long an audit waits for objects that are not loaded. After that time, it audits only the loaded objects.
const LOAD_TIMEOUT: Duration = Duration::from_secs(60);
/// How many pairs of conflicting Rego policies are reported.
const MAX_CONFLICTS: usize = 100;
/// Page size when listing reports.
const PAGE: u32 = 500;

/// A unit of work of the periodic audit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Key {
    /// Audits all objects.
    Run,
    /// Compares the findings with the reports on the hub.
    Reports,
    /// Writes the report of this namespace. An empty string means the report of cluster-scoped objects.
    Report(Arc<str>),
}

impl mirror::Key for Key {
    const CATEGORIES: &'static [&'static str] = &["audit", "audit_reports", "audit_report"];

    fn category(&self) -> &'static str {
        match self {
            Self::Run => "audit",
            Self::Reports => "audit_reports",
            Self::Report(_) => "audit_report",
        }
    }

    fn priority(&self) -> Priority {
        match self {
            Self::Run | Self::Reports => Priority::High,
            Self::Report(namespace) => Priority::Fair(namespace.clone()),
        }
    }
}

/// Runs audits and writes reports.
pub(super) struct AuditReconciler {
    pub(super) loaded: Loaded,
    pub(super) audit_runner: AuditRunner,
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

/// The state of the reports in the current leadership term.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// The last findings, until they have been compared with the reports on the hub.
    found: Option<BTreeMap<Arc<str>, Report>>,
    /// Pending report changes, by namespace.
    pending: BTreeMap<Arc<str>, ReportChange>,
    /// The resource version of each report without a pending change, by namespace. A different resource
    /// version means that another client has changed the report.
    versions: BTreeMap<Arc<str>, String>,
    /// Whether the hub serves reports; `None` until known.
    are_served: Option<bool>,
    /// Since when audits have been waiting for Rego policies or objects.
    waiting_since: Option<Instant>,
}

/// A pending change of a report. A deletion contains the uid of the report.
#[derive(Clone, Debug, PartialEq)]
enum ReportChange {
    Create(Report),
    Write(Report),
    Delete(String),
}

/// A report on the hub.
#[derive(Debug)]
struct StoredReport {
    uid: String,
    version: String,
    /// The hash of the report's content, from an annotation of the report.
    hash: String,
}

/// A failed request for reports. It is retried with backoff.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action}")]
pub(super) struct AuditError {
    action: String,
    source: RequestError,
}

impl ReconcileError for AuditError {
    fn category(&self) -> &'static str {
        self.source.category()
    }

    fn is_expected(&self) -> bool {
        self.source.is_expected()
    }
}

impl Capability for AuditReconciler {
    type Key = Key;
    type Error = AuditError;

    fn all_keys(&self) -> BTreeSet<Key> {
        BTreeSet::from([Key::Run])
    }

    fn leadership_changed(&self) {
        *self.reports.lock() = Reports::default();
        self.loaded.record_conflicts([]);
        self.metrics.forget();
    }

    async fn reconcile(&self, key: &Key, _slot: Slot) -> Result<(), AuditError> {
        match key {
            Key::Run => self.run().await,
            Key::Reports => return self.compare().await,
            Key::Report(namespace) => return self.write(namespace).await,
        }
        Ok(())
    }
}

impl AuditReconciler {
    async fn run(&self) {
        let Some(interval) = self.settings.interval else {
            // Without a periodic audit, reports of former audits are obsolete.
            self.reports.lock().found = Some(BTreeMap::new());
            return self.queue.enqueue([Key::Reports]);
        };
        if let Some(why) = self.audit_runner.not_ready_reason() {
            debug!(why, "there is no audit yet");
            let since = *self.reports.lock().waiting_since.get_or_insert_with(Instant::now);
            if since.elapsed() < LOAD_TIMEOUT {
                return self.queue.add_after(Key::Run, RETRY_DELAY);
            }
        }
        self.reports.lock().waiting_since = None;
        let began = Instant::now();
        let (audit_runner, stop, leadership) =
            (self.audit_runner.clone(), self.stop.clone(), self.leadership.clone());
        let should_continue = move || !stop.is_cancelled() && leadership.leads();
        let collect = self.are_report_kinds_served();
        let (all, by_namespace, conflicts) =
            match compute_in_background("audit", move || find(&audit_runner, collect, should_continue)).await
            {
                Ok(Ok(found)) => found,
                Ok(Err(why)) => {
                    debug!(why, "there is no audit yet");
                    return self.queue.add_after(Key::Run, RETRY_DELAY);
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
        self.loaded.record_conflicts(conflicts.map(|(pair, text)| (pair.map(|id| ModuleId::new(&id)), text)));
        let found = by_namespace.reports(&self.settings.name, &self.controller);
        self.reports.lock().found = Some(found);
        self.queue.enqueue([Key::Reports]);
        self.queue.add_after(Key::Run, interval);
    }

    /// Whether the hub serves the report kinds, in any version.
    fn are_report_kinds_served(&self) -> bool {
        [false, true]
            .into_iter()
            .all(|of_cluster| self.loaded.gvr_and_version(&reports::kind(of_cluster)).is_some())
    }

    /// All reports on the hub that this controller wrote, by namespace; `None` if the hub does not serve reports.
    async fn stored(&self) -> Result<Option<BTreeMap<Arc<str>, StoredReport>>, AuditError> {
        let mut stored = BTreeMap::new();
        for gvr in [false, true].map(reports::resource) {
            let name = format!("metadata.name={}", self.settings.name);
            let params = ListParams::default().fields(&name).limit(PAGE);
            let mut pages = Pages::new(&gvr, "", params, Projection::Metadata);
            loop {
                let page = match self.requests.list(pages.request(), Projection::Metadata).await {
                    Ok(page) => page,
                    Err(RequestError::Rejected(status)) if status.code == 404 => return Ok(None),
                    Err(source) => {
                        return Err(AuditError { action: format!("list {}", gvr.kind), source });
                    }
                };
                let (objects, token) = page;
                stored.extend(objects.into_iter().filter_map(|object| self.ours(object.metadata)));
                if !pages.advance(token) {
                    break;
                }
            }
        }
        Ok(Some(stored))
    }

    /// The report with this `metadata`; `None` if its label names another controller.
    fn ours(&self, metadata: Metadata) -> Option<(Arc<str>, StoredReport)> {
        let namespace: Arc<str> = metadata.namespace.as_str().into();
        let owner = metadata.labels.get(CONTROLLER).map_or(self.controller.hash(), String::as_str);
        if owner != self.controller.hash() {
            warn!(%namespace, name = self.settings.name, "another controller owns the report with this name");
            return None;
        }
        let hash = metadata.annotations.get(REPORTED).cloned().unwrap_or_default();
        Some((namespace, StoredReport { uid: metadata.uid, version: metadata.resource_version, hash }))
    }

    /// Compares the last findings with the reports on the hub, and queues the differences.
    async fn compare(&self) -> Result<(), AuditError> {
        let stored = if self.are_report_kinds_served() { self.stored().await? } else { None };
        let mut reports = self.reports.lock();
        let are_served = stored.is_some();
        if reports.are_served.replace(are_served) != Some(are_served) {
            match are_served {
                true => info!("reports of audits are written"),
                false => info!("no reports of audits are written: the hub has no openreports.io/v1alpha1"),
            }
        }
        let (Some(stored), Some(found)) = (stored, reports.found.take()) else { return Ok(()) };
        let mut pending = BTreeMap::new();
        for (namespace, StoredReport { uid, .. }) in &stored {
            if !found.contains_key(namespace) {
                pending.insert(namespace.clone(), ReportChange::Delete(uid.clone()));
            }
        }
        let mut versions = BTreeMap::new();
        for (namespace, report) in found {
            let next = match stored.get(&namespace) {
                None => ReportChange::Create(report),
                Some(StoredReport { version, hash, .. }) => {
                    let known = reports.versions.get(&namespace);
                    if *hash == report.hash && known.is_none_or(|known| known == version) {
                        versions.insert(namespace, version.clone());
                        continue;
                    }
                    ReportChange::Write(report)
                }
            };
            pending.insert(namespace, next);
        }
        let keys: Vec<Key> = pending.keys().cloned().map(Key::Report).collect();
        (reports.pending, reports.versions) = (pending, versions);
        drop(reports);
        self.queue.enqueue(keys);
        Ok(())
    }

    /// Writes or deletes the report of `namespace`.
    async fn write(&self, namespace: &Arc<str>) -> Result<(), AuditError> {
        let Some(pending) = self.reports.lock().pending.get(namespace).cloned() else { return Ok(()) };
        let gvr = reports::resource(namespace.is_empty());
        let (objects, name) = (of_kind(&gvr, namespace), &*self.settings.name);
        let manager = self.controller.hub_field_manager();
        let written = match &pending {
            ReportChange::Create(report) => {
                let params = PostParams { field_manager: Some(manager), ..PostParams::default() };
                let body = report.object.to_string().into_bytes();
                self.requests.write(objects.create(&params, body)).await
            }
            // Apply creates the report again if it was deleted in the meantime.
            ReportChange::Write(report) => {
                let params = PatchParams::apply(&manager).force();
                let request =
                    apply::body(&report.object).and_then(|body| objects.patch(name, &params, &body));
                self.requests.write(request).await
            }
            ReportChange::Delete(uid) => {
                let preconditions = Preconditions { uid: Some(uid.clone()), resource_version: None };
                let params = DeleteParams::default().preconditions(preconditions);
                self.requests.write(objects.delete(name, &params)).await
            }
        };
        let version = match written {
            Ok(written) => {
                Some(written.resource_version).filter(|_| !matches!(pending, ReportChange::Delete(_)))
            }
            Err(RequestError::Rejected(status)) if status.code == 404 => None,
            // The namespace may be terminating or over quota. The next audit tries again.
            Err(RequestError::Rejected(status)) if matches!(status.code, 400..=428) => {
                let key = ObjectKey::new(namespace, name);
                warn!(report = %key, error = status.message, "the hub rejected a report");
                None
            }
            Err(source) => {
                let action = format!("write the report {}", ObjectKey::new(namespace, name));
                return Err(AuditError { action, source });
            }
        };
        let mut reports = self.reports.lock();
        // The pending change stays if another audit has replaced it in the meantime.
        if reports.pending.get(namespace) == Some(&pending) {
            reports.pending.remove(namespace);
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
type AuditRun = (Findings, ByNamespace, BTreeMap<[String; 2], String>);

fn find(
    audit_runner: &AuditRunner,
    collect: bool,
    should_continue: impl Fn() -> bool,
) -> Result<AuditRun, String> {
    let (mut all, mut by_namespace) = (Findings::default(), ByNamespace::default());
    let mut conflicts = BTreeMap::new();
    let mut add = |found: Finding| match found {
        Finding::Violation(violation) => {
            all.count_one(&violation.enforcement);
            if collect {
                by_namespace.add(violation);
            }
        }
        // One example object for each pair of Rego policies is enough.
        Finding::Conflict(Conflict { policies, text }) if conflicts.len() < MAX_CONFLICTS => {
            conflicts.entry(policies).or_insert(text);
        }
        Finding::Conflict(_) => {}
    };
    audit_runner.find(&mut add, should_continue)?;
    Ok((all, by_namespace, conflicts))
}
