//! The reconciler that patches objects to comply with placement policies, and reports objects that do not comply.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::api::{GetParams, Patch, PatchParams};
use kube::runtime::events::EventType;
use parking_lot::Mutex;
use regorus::Value as Rego;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::causes::{Causes, Step, hold_message};
use super::evaluate::{Evaluation, evaluate, reference};
use super::key::{Key, Object};
use super::metrics::RemediationMetrics;
use super::passes::Passes;
use super::recent_patches::RecentPatches;
use super::settings::{Mode, ObjectMode, Settings};
use super::violations::{ViolationReason, Violations};
use crate::placement_policy::compliance::{Change, Compliance};
use crate::placement_policy::evaluation::ContentHash;
use crate::placement_policy::placed_kinds::{COMPONENT, is_placed};
use crate::rego_loading::{Loaded, RegoMetrics};
use policy_sync_api::annotations::REMEDIATE;
use policy_sync_api::names::{GroupResource, ObjectKey};
use policy_sync_hub::clock::Clock;
use policy_sync_hub::reconcile::{
    Capability, Events, Expectations, LastWrite, Leadership, Queue, ReconcileError, RequestError, Requests,
    Slot, of_kind,
};
use policy_sync_rego::snapshot::RegoQueryError;
use policy_sync_sync::desired::covered::ControllerScope;

/// The time slice in which a pass evaluates objects. Other evaluations may run between two slices.
const BATCH_DURATION: Duration = Duration::from_millis(100);
/// The maximum number of concurrent patches.
pub(super) const MAX_CONCURRENT_PATCHES: usize = 8;
/// The delay before a retry after an evaluation ran out of time, because the machine may have been busy.
const TIMEOUT_RETRY_DELAY: Duration = Duration::from_secs(60);

/// The delay before a retry when the external engine is unreachable.
pub(super) const UNREACHABLE_RETRY_DELAY: Duration = Duration::from_secs(5);

/// The reason of the Event about a patch.
const CHANGED: &str = "PlacementChanged";

/// Patches or reports objects that do not comply.
pub(super) struct Remediator {
    pub(super) loaded: Loaded,
    pub(super) settings: Settings,
    pub(super) covered: watch::Receiver<Option<ControllerScope>>,
    pub(super) requests: Requests,
    pub(super) leadership: Leadership,
    pub(super) events: Events,
    pub(super) queue: Arc<Queue<Key>>,
    pub(super) written: Expectations<Key, LastWrite>,
    pub(super) passes: Mutex<Passes>,
    /// Recent patches whose cause is a change of the object or of a placement policy.
    pub(super) recent_patches: RecentPatches,
    /// Recent patches that the hub has rejected or undone.
    pub(super) rejected_patches: RecentPatches,
    pub(super) causes: Arc<Mutex<Causes>>,
    pub(super) violations: Arc<Violations>,
    pub(super) metrics: RemediationMetrics,
    pub(super) rego_metrics: RegoMetrics,
    /// Allows one evaluation at a time, so that the other cores are free for reviews.
    pub(super) evaluation_slot: Semaphore,
    pub(super) patch_slots: Semaphore,
    pub(super) clock: Clock,
    pub(super) manager: String,
    pub(super) stop: CancellationToken,
}

/// The results of evaluating a batch of objects.
#[derive(Default)]
pub(super) struct EvaluationBatch {
    pub(super) results: Vec<((ObjectKey, Rego), Evaluation)>,
    /// The number of the latest change of placement policies or documents before the evaluation.
    pub(super) at: u64,
    /// Objects that were not evaluated yet.
    pub(super) left: Vec<(ObjectKey, Rego)>,
}

/// A step of remediation failed. It is retried after a backoff.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action}")]
pub(super) struct RemediationError {
    pub(super) action: String,
    pub(super) source: RequestError,
}

impl ReconcileError for RemediationError {
    fn category(&self) -> &'static str {
        self.source.category()
    }

    fn is_expected(&self) -> bool {
        self.source.is_expected() || is_conflict(&self.source)
    }
}

impl Capability for Remediator {
    type Key = Key;
    type Error = RemediationError;

    fn all_keys(&self) -> BTreeSet<Key> {
        BTreeSet::from([Key::Kinds])
    }

    fn leadership_changed(&self) {
        *self.passes.lock() = Passes::new(self.clock.now());
        self.loaded.keep(COMPONENT, BTreeSet::new(), BTreeSet::new());
        self.violations.retain(|_| false);
        self.causes.lock().retain(|_| false);
    }

    async fn reconcile(&self, key: &Key, _slot: Slot) -> Result<(), RemediationError> {
        match key {
            Key::Kinds => self.keep(),
            Key::InputsChanged => {
                self.passes.lock().inputs_changed(self.clock.now());
                self.keep();
                self.queue.enqueue([Key::All]);
            }
            Key::All => self.queue.enqueue(self.kinds().into_iter().map(Key::Kind)),
            Key::Kind(kind) => self.pass(key, kind).await,
            Key::Traces(kind) => return self.check_traces(key, kind).await,
            Key::Namespace(namespace) => self.queue_namespace(namespace),
            Key::Object(object) => {
                let done = self.remediate(key, object).await;
                self.schedule_trace_check(&object.kind);
                return done;
            }
        }
        Ok(())
    }
}

impl Remediator {
    /// Updates the set of kinds kept in memory.
    fn keep(&self) {
        let (Some(covered), Some(rego_usage)) =
            (self.covered.borrow().clone(), self.loaded.rego_usage().borrow().clone())
        else {
            return;
        };
        if !self.leadership.leads() {
            return;
        }
        let (new, may_have_traces) = {
            let mut passes = self.passes.lock();
            let new = passes.keep(&covered, rego_usage.placement);
            let may_have_traces = passes.kinds_that_may_have_traces();
            self.loaded.keep(COMPONENT, passes.kept().clone(), may_have_traces.clone());
            self.violations.retain(|object| passes.kept().contains(&object.kind));
            (new, may_have_traces)
        };
        // New kinds are queued here. A kind that placement policies read is already listed, so no event would queue it.
        self.queue.enqueue(new.into_iter().map(Key::Kind));
        for kind in may_have_traces {
            self.schedule_trace_check(&kind);
        }
    }

    fn kinds(&self) -> BTreeSet<GroupResource> {
        let mut kinds = self.passes.lock().kept().clone();
        kinds.remove(&GroupResource::namespaces());
        kinds
    }

    fn queue_namespace(&self, namespace: &str) {
        for kind in self.kinds() {
            // A kind that is not listed yet gets a pass once it is listed.
            let Ok(objects) = self.loaded.objects(&kind) else { continue };
            let keys = objects.into_iter().map(|(key, _)| key).filter(|key| &*key.namespace == namespace);
            self.queue.enqueue(keys.map(|key| Key::Object(Object { kind: kind.clone(), key })));
        }
    }

    /// Whether placement policies apply to `object` of `kind` in the Namespace `space`. Returns false if that is
    /// unknown.
    pub(super) fn is_placed(&self, kind: &GroupResource, object: &Rego, space: Option<&Rego>) -> bool {
        let (Some(space), Some(covered)) = (space, &*self.covered.borrow()) else { return false };
        is_placed(covered, &self.settings.exemptions, kind, object, space)
    }

    /// Evaluates `objects` for up to [`BATCH_DURATION`], with `hidden` documents left out of `data`.
    pub(super) async fn evaluate(
        &self,
        objects: Vec<(ObjectKey, Rego)>,
        hidden: Vec<(GroupResource, ObjectKey)>,
    ) -> EvaluationBatch {
        let _turn = self.evaluation_slot.acquire().await;
        let at = self.causes.lock().latest();
        let (snapshot, metrics, stop) =
            (self.loaded.snapshot(), self.rego_metrics.clone(), self.stop.clone());
        let evaluating = move || {
            let (began, mut objects, mut results) = (Instant::now(), objects.into_iter(), Vec::new());
            while began.elapsed() < BATCH_DURATION && !stop.is_cancelled() {
                let Some(object) = objects.next() else { break };
                let evaluation_start = Instant::now();
                let evaluation = evaluate(&snapshot, &object.1, &hidden);
                let reason = evaluation.compliance.as_ref().err().map(RegoQueryError::reason);
                metrics.record_evaluation("placement", evaluation_start.elapsed(), reason);
                results.push((object, evaluation));
            }
            EvaluationBatch { results, at, left: objects.collect() }
        };
        // The task catches panics, and it is cancelled only when the process ends.
        tokio::task::spawn_blocking(evaluating).await.unwrap_or_default()
    }

    /// Patches `object` to comply with placement policies, or reports why it does not comply.
    async fn remediate(&self, key: &Key, object: &Object) -> Result<(), RemediationError> {
        let Some(found) = self.loaded.object(&object.kind, &object.key) else {
            self.recent_patches.forget(object);
            self.rejected_patches.forget(object);
            self.forget(object);
            return Ok(());
        };
        let space =
            self.loaded.object(&GroupResource::namespaces(), &ObjectKey::new("", &object.key.namespace));
        let placed = self.passes.lock().kept().contains(&object.kind)
            && self.is_placed(&object.kind, &found, space.as_ref());
        let Some((gvr, seen)) = self.loaded.gvr_and_version(&object.kind).filter(|_| placed) else {
            self.forget(object);
            return Ok(());
        };
        if !self.written.with(key, |last| last.is_visible(seen)) {
            self.queue.add_after_window(key.clone());
            return Ok(());
        }
        let batch = self.evaluate(vec![(object.key.clone(), found)], Vec::new()).await;
        let at = batch.at;
        let Some(((_, found), Evaluation { compliance, content })) = batch.results.into_iter().next() else {
            return Ok(());
        };
        let change = match compliance {
            Err(
                RegoQueryError::Starting(_)
                | RegoQueryError::PolicyRejected(_)
                | RegoQueryError::DocumentsOmitted(_),
            ) => return Ok(()),
            Err(RegoQueryError::Unreachable(_)) => {
                self.queue.add_after(key.clone(), UNREACHABLE_RETRY_DELAY);
                return Ok(());
            }
            Err(RegoQueryError::Failed(failure)) => {
                if failure.exceeded_time {
                    self.queue.add_after(key.clone(), TIMEOUT_RETRY_DELAY);
                }
                self.report(object, &found, ViolationReason::Violated, failure.to_string());
                return Ok(());
            }
            Ok(Compliance::Violates(text)) => {
                self.report(object, &found, ViolationReason::Violated, text);
                return Ok(());
            }
            Ok(Compliance::Compliant) => {
                self.violations.forget(object);
                self.record_compliant(object, content, at);
                return Ok(());
            }
            Ok(Compliance::Differs(change)) => change,
        };
        let mode = self.settings.mode_of(&found, space.as_ref());
        if mode == ObjectMode::Manual {
            self.report(object, &found, ViolationReason::Manual, self.manual_message(&change));
            return Ok(());
        }
        let now = self.clock.now();
        let flapping = self.causes.lock().flapping(now);
        let (found, change) = match self.next_step(object, found, change, &flapping).await {
            (found, Step::Change(change)) => (found, change),
            (found, Step::Hold) => {
                self.report(object, &found, ViolationReason::Unsettled, hold_message(&flapping));
                if let Some(until) = flapping.values().min() {
                    self.queue.add_after(key.clone(), until.since(now));
                }
                return Ok(());
            }
        };
        let causes = content.map(|content| self.causes.lock().of(object, content)).unwrap_or_default();
        if let Some(wait) = self.rejected_patches.wait(object, now) {
            // The rejection was reported. The wait limits the rate of further attempts.
            self.queue.add_after(key.clone(), wait);
            return Ok(());
        }
        if causes.is_empty()
            && let Some(wait) = self.recent_patches.wait(object, now)
        {
            let text = format!(
                "it was changed three times within 10 minutes, and is left unchanged until these have passed: {change}"
            );
            self.report(object, &found, ViolationReason::Unsettled, text);
            self.queue.add_after(key.clone(), wait);
            return Ok(());
        }
        let failed =
            |source| RemediationError { action: format!("apply placement policies to {object}"), source };
        let _turn = self.patch_slots.acquire().await;
        let text =
            |field: &str| found["metadata"][field].as_string().map(ToString::to_string).unwrap_or_default();
        let (uid, version) = (text("uid"), text("resourceVersion"));
        let objects = of_kind(&gvr, &object.key.namespace);
        let params = PatchParams { field_manager: Some(self.manager.clone()), ..PatchParams::default() };
        let patch =
            objects.patch(&object.key.name, &params, &Patch::Merge(change.merge_patch(&uid, &version)));
        let get = objects.get(&object.key.name, &GetParams::default());
        match self.requests.write_guarded(patch, get, |live| live.resource_version != version).await {
            Ok(written) => {
                if causes.is_empty() {
                    self.recent_patches.record(object, now);
                }
                self.written.note(key, |last| last.wrote(written.version()));
                self.metrics.patched();
                if !change.is_in(&written.labels, &written.annotations) {
                    let text = format!(
                        "another client or webhook reverts the changes of placement policies: {change}"
                    );
                    self.rejected_patches.record(object, now);
                    self.report(object, &found, ViolationReason::Failed, text);
                    // The watch delivers no event because the object is unchanged, so the key is queued again here.
                    self.queue.add_after(key.clone(), TIMEOUT_RETRY_DELAY);
                    return Ok(());
                }
                self.violations.forget(object);
                let patched = serde_json::to_value(&found)
                    .ok()
                    .map(|found| ContentHash::of_patched(&found, &written.labels, &written.annotations));
                self.record_compliant(object, patched, at);
                self.moved(causes, &flapping, now);
                info!(%object, %change, "patched an object as placement policies require");
                self.events.publish(
                    reference(&found),
                    EventType::Normal,
                    CHANGED,
                    format!("changed as placement policies require{}: {change}", mode.note()),
                );
                Ok(())
            }
            // The object was deleted, and the watch will deliver the deletion.
            Err(RequestError::Rejected(status)) if status.code == 404 => Ok(()),
            Err(source) if source.is_expected() => Err(failed(source)),
            Err(source) if is_conflict(&source) => {
                self.metrics.conflict();
                Err(failed(source))
            }
            Err(source) => {
                self.metrics.failed();
                // Other errors are temporary errors of the hub and are not recorded for the object.
                if matches!(source.code(), 400..=407 | 410..=428) {
                    self.rejected_patches.record(object, now);
                    let text = format!("cannot be changed as placement policies require: {source}: {change}");
                    self.report(object, &found, ViolationReason::Failed, text);
                }
                Err(failed(source))
            }
        }
    }

    /// The message for objects whose changes a user has to apply by hand.
    fn manual_message(&self, change: &Change) -> String {
        let who = match self.settings.mode {
            Mode::Manual => "--remediate manual".to_owned(),
            Mode::Automatic => format!("annotation {REMEDIATE}"),
        };
        format!(
            "placement policies require changes, to be applied manually ({who}, policy-sync placement apply): {change}"
        )
    }

    fn report(&self, object: &Object, found: &Rego, why: ViolationReason, text: String) {
        if self.leadership.leads() && self.violations.note(object, why, &text) {
            self.events.warn(reference(found), why.event_reason(), text);
        }
    }

    /// Forgets `object`, to which placement policies do not apply.
    pub(super) fn forget(&self, object: &Object) {
        self.violations.forget(object);
        self.causes.lock().forget(object);
        self.written.note(&Key::Object(object.clone()), |last| *last = LastWrite::default());
    }
}

/// Whether another writer changed the object in the meantime.
fn is_conflict(error: &RequestError) -> bool {
    matches!(error, RequestError::Stale(_)) || error.code() == 409
}
