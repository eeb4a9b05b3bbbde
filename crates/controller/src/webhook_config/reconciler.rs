//! The reconciler of webhook configurations and their certificate.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use json_patch::Patch;
use kube::api::{Patch as Body, PatchParams};
use kube::core::request;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tracing::{info, warn};

use super::certificate::{self, IssueError, Renewal, certificate_time, certificates, issue, renewal};
use super::entries::{self, Plan};
use super::index::View;
use super::key::Key;
use super::kinds::{ConfigurationKind, SECRETS, secret, secret_key};
use super::rows::CertificateSecret;
use super::settings::Authority;
use super::shared::Shared;
use crate::rego_loading::{AdmissionKinds, Loaded, WebhookProblem};
use policy_sync_api::names::ObjectKey;
use policy_sync_api::text::with_causes;
use policy_sync_hub::reconcile::{
    Capability, Expectations, LastWrite, Queue, ReconcileError, RequestError, Requests, Slot, WriteThrottle,
    apply, of_kind,
};
use policy_sync_rego::queries::{ADMISSION, PLACEMENT};

/// How often the certificate is checked for renewal.
const RENEWAL_CHECK_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// Writes the webhook configurations and the certificate.
pub(super) struct WebhookConfigReconciler {
    pub(super) shared: Arc<Shared>,
    pub(super) loaded: Loaded,
    pub(super) requests: Requests,
    pub(super) queue: Arc<Queue<Key>>,
    pub(super) written: Expectations<Key, LastWrite>,
    pub(super) repeats: WriteThrottle<Key, Plan>,
    /// The configurations planned in this leadership term.
    pub(super) planned: Mutex<BTreeSet<ConfigurationKind>>,
}

/// A failed update. It is retried with backoff.
#[derive(Debug, thiserror::Error)]
pub(super) enum WebhookConfigError {
    #[error(transparent)]
    Make(#[from] IssueError),
    #[error("cannot write {object}")]
    Write { object: String, source: RequestError },
    #[error("cannot query the API server's time")]
    Time(#[source] RequestError),
}

impl ReconcileError for WebhookConfigError {
    fn category(&self) -> &'static str {
        match self {
            Self::Make(_) => "certificate",
            Self::Write { source, .. } | Self::Time(source) => source.category(),
        }
    }

    fn is_expected(&self) -> bool {
        matches!(self, Self::Write { source, .. } | Self::Time(source) if source.is_expected())
    }
}

impl Capability for WebhookConfigReconciler {
    type Key = Key;
    type Error = WebhookConfigError;

    fn all_keys(&self) -> BTreeSet<Key> {
        Key::all()
    }

    /// Problems and plans are valid only for one leadership term.
    fn leadership_changed(&self) {
        self.shared.faults.lock().clear();
        self.planned.lock().clear();
        let has_placement_entry = self.shared.has_entry(ConfigurationKind::Mutating, "placement-");
        for (package, is_still_registered) in
            [(PLACEMENT, has_placement_entry), (ADMISSION, self.has_admission_entries())]
        {
            // If the webhooks are registered already, no problem is reported until the next plan.
            self.loaded.registered(package, (!is_still_registered).then(WebhookProblem::not_registered));
        }
    }

    /// Each process serves webhooks; only the leader writes.
    fn runs_on_followers(&self, key: &Key) -> bool {
        *key == Key::Served
    }

    async fn reconcile(&self, key: &Key, _slot: Slot) -> Result<(), WebhookConfigError> {
        let done = match key {
            Key::Served => {
                self.serve();
                return Ok(());
            }
            Key::Certificate => self.renew(key).await,
            Key::Entries(kind) => self.update_entries(key, *kind).await,
        };
        if let Err(error) = &done
            && !error.is_expected()
        {
            self.note(key, Some(with_causes(error)));
        }
        done
    }
}

impl WebhookConfigReconciler {
    /// Serves the certificate from the Secret.
    fn serve(&self) {
        let kept = {
            let guard = self.shared.mirror.read();
            guard.view(self.shared.clock.now()).secret(&self.shared.settings).ok().flatten().cloned()
        };
        // If the Secret has no certificate, the last certificate stays in use.
        let Some(kept) = kept.filter(|kept| !kept.certificate.is_empty()) else { return };
        match self.shared.certificates.serve(certificate::pair(&kept)) {
            Ok(false) => {}
            Ok(true) => {
                info!("serving webhooks with another certificate");
                self.queue.enqueue(ConfigurationKind::ALL.map(Key::Entries));
            }
            Err(error) => {
                warn!(error = with_causes(&error), "still serving webhooks with the previous certificate")
            }
        }
    }

    /// Renews the CA or the certificate, if due.
    async fn renew(&self, key: &Key) -> Result<(), WebhookConfigError> {
        let settings = &self.shared.settings;
        let Authority::Own = settings.authority else { return Ok(()) };
        let server = self.requests.server_time().await.map_err(WebhookConfigError::Time)?;
        let own = self.shared.clock.now();
        let (host, now) = (settings.url.host(), certificate_time(own, server));
        if now != own {
            warn!(
                own = own.rfc3339(),
                server = now.rfc3339(),
                "the clock of this machine is wrong: certificates use the API server's time"
            );
        }
        let (found, manager) = {
            let guard = self.shared.mirror.read();
            let view = guard.view(now);
            if !self.is_visible(key, view.version(&secret(settings))) {
                return Ok(());
            }
            let found = view.secret(settings).map(|kept| {
                let kept = kept.cloned().unwrap_or_default();
                let renewal = renewal(&kept, host, self.is_trusted(view, &kept), now);
                (kept, renewal)
            });
            (found, view.controller.hub_field_manager())
        };
        let (kept, renewal) = match found {
            Ok(found) => found,
            Err(why) => {
                // The key is queued again when the Secret becomes known.
                self.note(key, Some(why));
                return Ok(());
            }
        };
        if renewal != Renewal::Nothing {
            let next = issue(&kept, renewal, host, now)?;
            let (object, gvr) = (secret_key(settings), SECRETS.gvr());
            let request = secret_request(&manager, &object, &next);
            let written = apply::apply(&self.requests, &gvr, &object, &kept.uid, request).await;
            let written = written
                .map_err(|source| WebhookConfigError::Write { object: format!("Secret {object}"), source })?;
            self.written.note(key, |last| last.wrote(written.version()));
            info!(secret = %object, made = ?renewal, "renewed the certificate of the webhooks");
        }
        self.note(key, None);
        self.queue.add_after(key.clone(), RENEWAL_CHECK_INTERVAL);
        Ok(())
    }

    /// Whether all entries trust the signing CA.
    fn is_trusted(&self, view: View<'_>, kept: &CertificateSecret) -> bool {
        let Some(first) = certificates(&kept.authorities).into_iter().next() else { return false };
        ConfigurationKind::ALL.into_iter().all(|kind| match view.configuration(&self.shared.settings, kind) {
            Ok(stored) => {
                let mut bundles = stored.into_iter().flat_map(entries::bundles);
                bundles.all(|bundle| certificates(&bundle).contains(&first))
            }
            Err(_) => false,
        })
    }

    /// Updates the entries of a configuration.
    async fn update_entries(&self, key: &Key, kind: ConfigurationKind) -> Result<(), WebhookConfigError> {
        let (settings, inputs) = (&self.shared.settings, self.shared.inputs.borrow().clone());
        let (now, name) = (self.shared.clock.now(), &settings.name);
        let (plan, uid, manager) = {
            let guard = self.shared.mirror.read();
            let view = guard.view(now);
            if !self.is_visible(key, view.version(&kind.source(settings))) {
                return Ok(());
            }
            let (plan, uid) = match view.configuration(settings, kind) {
                Ok(Some(stored)) => {
                    let ca_bundle = self.shared.ca_bundle(view);
                    let plan = entries::plan(kind, stored, &inputs, &ca_bundle, settings, view.controller);
                    (plan, stored.uid.clone())
                }
                Ok(None) => (Plan::Wait(format!("there is no {} {name}", kind.as_str())), String::new()),
                Err(why) => (Plan::Wait(why), String::new()),
            };
            (plan, uid, view.controller.hub_field_manager())
        };
        let request = match &plan {
            Plan::Nothing => {
                self.note(key, None);
                return Ok(());
            }
            Plan::Wait(why) => {
                self.note(key, Some(why.clone()));
                return Ok(());
            }
            Plan::Apply(entries) => apply_request(&manager, kind, name, &uid, entries),
            Plan::Replace(entries) => replace_request(&manager, kind, name, &uid, entries),
            Plan::Remove(gone) => remove_request(kind, name, &uid, gone),
        };
        if let Some(wait) = self.repeats.wait(key, &plan, now) {
            let what = if self.shared.has_entry(kind, "") { "changing" } else { "removing" };
            self.note(
                key,
                Some(format!("another client keeps {what} the entry of {} {name}", kind.as_str())),
            );
            self.queue.add_after(key.clone(), wait);
            return Ok(());
        }
        let written =
            apply::apply(&self.requests, &kind.gvr(), &ConfigurationKind::key(settings), &uid, request).await;
        let written = written.map_err(|source| WebhookConfigError::Write {
            object: format!("{} {name}", kind.as_str()),
            source,
        })?;
        self.written.note(key, |last| last.wrote(written.version()));
        self.repeats.wrote(key, plan, now);
        info!(configuration = kind.as_str(), name, "changed the registered webhooks");
        Ok(())
    }

    /// Whether both configurations have an entry for admission.
    fn has_admission_entries(&self) -> bool {
        ConfigurationKind::ALL.into_iter().all(|kind| self.shared.has_entry(kind, "admit-"))
    }

    fn is_visible(&self, key: &Key, seen: u64) -> bool {
        let is_visible = self.written.with(key, |last| last.is_visible(seen));
        if !is_visible {
            self.queue.add_after_window(key.clone());
        }
        is_visible
    }

    /// Records the problem of `key`, or its end, and reports it in the status of Rego policies.
    fn note(&self, key: &Key, fault: Option<String>) {
        let is_another = self.shared.note(key, fault.clone());
        if is_another && let Some(fault) = &fault {
            warn!(what = ?key, why = fault, "webhook configurations are not up to date");
        }
        if is_another && *key == Key::Certificate {
            // Updates of entries wait for the certificate and report the certificate's problem, so they are planned
            // again.
            self.queue.enqueue(ConfigurationKind::ALL.map(Key::Entries));
        }
        if let Key::Entries(ConfigurationKind::Mutating) = key {
            let is_still_registered = self.shared.has_entry(ConfigurationKind::Mutating, "placement-");
            self.loaded.registered(PLACEMENT, fault.map(|why| WebhookProblem { why, is_still_registered }));
        }
        if let Key::Entries(kind) = key {
            // Admission needs an entry in both configurations, so both must be planned.
            let mut planned = self.planned.lock();
            planned.insert(*kind);
            if planned.len() == ConfigurationKind::ALL.len() {
                let fault = ConfigurationKind::ALL
                    .into_iter()
                    .find_map(|kind| self.shared.fault(&Key::Entries(kind)));
                let is_still_registered = self.has_admission_entries();
                let has_kinds = |admission_kinds: &AdmissionKinds| {
                    admission_kinds.any || !admission_kinds.kinds.is_empty()
                };
                let inputs = self.shared.inputs.borrow();
                let admission =
                    inputs.rego_usage.as_ref().and_then(|rego_usage| rego_usage.admission.as_ref());
                // One of the two configurations may not have its entry yet.
                let is_missing = !is_still_registered && admission.is_some_and(has_kinds);
                let fault = fault.or_else(|| is_missing.then(|| WebhookProblem::not_registered().why));
                self.loaded
                    .registered(ADMISSION, fault.map(|why| WebhookProblem { why, is_still_registered }));
            }
        }
    }
}

/// A server-side apply of the Secret.
fn secret_request(
    manager: &str,
    key: &ObjectKey,
    kept: &CertificateSecret,
) -> Result<Request<Vec<u8>>, request::Error> {
    let mut metadata = json!({"name": key.name, "namespace": key.namespace});
    if !kept.uid.is_empty() {
        metadata["uid"] = kept.uid.as_str().into();
    }
    let body = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": kept.data()});
    of_kind(&SECRETS.gvr(), &key.namespace).patch(&key.name, &forced_apply(manager), &apply::body(&body)?)
}

/// A server-side apply of `entries`.
fn apply_request(
    manager: &str,
    kind: ConfigurationKind,
    name: &str,
    uid: &str,
    entries: &[Value],
) -> Result<Request<Vec<u8>>, request::Error> {
    let gvr = kind.gvr();
    let body = json!({"apiVersion": gvr.api_version(), "kind": kind.as_str(),
        "metadata": {"name": name, "uid": uid}, "webhooks": entries});
    of_kind(&gvr, "").patch(name, &forced_apply(manager), &apply::body(&body)?)
}

/// A JSON Patch that replaces entries. A server-side apply would keep fields that other clients have added, such as a
/// match condition that is never true.
fn replace_request(
    manager: &str,
    kind: ConfigurationKind,
    name: &str,
    uid: &str,
    entries: &[(usize, Value)],
) -> Result<Request<Vec<u8>>, request::Error> {
    let edits = entries.iter().map(|(place, entry)| {
        let path = format!("/webhooks/{place}");
        let test = json!({"op": "test", "path": format!("{path}/name"), "value": entry["name"]});
        [test, json!({"op": "replace", "path": path, "value": entry})]
    });
    let params = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
    patch_request(kind, name, uid, edits.flatten().collect(), &params)
}

/// A JSON Patch that removes entries regardless of field ownership. A server-side apply would keep an injected
/// `caBundle`, which would leave an invalid entry.
fn remove_request(
    kind: ConfigurationKind,
    name: &str,
    uid: &str,
    gone: &[(usize, String)],
) -> Result<Request<Vec<u8>>, request::Error> {
    let edits = gone.iter().rev().map(|(place, entry)| {
        let path = format!("/webhooks/{place}");
        let test = json!({"op": "test", "path": format!("{path}/name"), "value": entry});
        [test, json!({"op": "remove", "path": path})]
    });
    patch_request(kind, name, uid, edits.flatten().collect(), &PatchParams::default())
}

/// A JSON Patch with these edits. It applies only to the object with this uid.
fn patch_request(
    kind: ConfigurationKind,
    name: &str,
    uid: &str,
    edits: Vec<Value>,
    params: &PatchParams,
) -> Result<Request<Vec<u8>>, request::Error> {
    let mut operations = vec![json!({"op": "test", "path": "/metadata/uid", "value": uid})];
    operations.extend(edits);
    let patch: Patch = serde_json::from_value(operations.into()).map_err(request::Error::SerializeBody)?;
    of_kind(&kind.gvr(), "").patch(name, params, &Body::<()>::Json(patch))
}

fn forced_apply(manager: &str) -> PatchParams {
    PatchParams::apply(manager).force()
}
