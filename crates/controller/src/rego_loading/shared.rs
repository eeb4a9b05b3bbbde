//! The shared state of the loader: verdicts, the published snapshot, and reports for the status of carriers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use regorus::Value;
use tokio::sync::{mpsc, watch};

use super::followers::{self, ChangeCause, DocumentEvent, Follower, PlacementInputs, RelevantChange};
use super::index::Index;
use super::plan;
use super::plan::reading;
use super::review_metadata::{self, RegoUsage};
use super::settings::Settings;
use super::shares::NamespacedKind;
use super::slow::SlowModule;
use super::verdict::Verdicts;
use super::view::View;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::GroupResource;
use policy_sync_hub::clock::Clock;
use policy_sync_hub::tasks::send_if_changed;
use policy_sync_mirror::{Changes, Mirror};
use policy_sync_rego::bundle::Bundle;
use policy_sync_rego::confined::{CheckError, CheckFn, CheckResult, Lane};
use policy_sync_rego::culprits::ExceededQuery;
use policy_sync_rego::engine::Engine;
use policy_sync_rego::fault::Fault;
use policy_sync_rego::module::{ModuleId, Text};
use policy_sync_rego::queries::{ADMISSION, PLACEMENT, QueriedPackages};
use policy_sync_rego::secrets::SecretReads;
use policy_sync_rego::selection::{BundleChecker, LoadOutcome, PendingDependency};
use policy_sync_rego::snapshot::Snapshot;

/// A problem with the webhook registration of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookProblem {
    /// The reason of the problem.
    pub why: String,
    /// Whether an earlier registration still works.
    pub is_still_registered: bool,
}

impl WebhookProblem {
    /// The webhooks are not registered yet, or their state is unknown.
    #[must_use]
    pub fn not_registered() -> Self {
        Self { why: "it is not registered yet".to_owned(), is_still_registered: false }
    }
}

/// The shared state of the loader.
pub(super) struct Shared {
    pub(super) mirror: Arc<Mirror<Index>>,
    pub(super) settings: Settings,
    pub(super) clock: Clock,
    pub(super) results: Mutex<LoadResults>,
    pub(super) check: CheckFn,
    /// Queries that exceeded a limit. The receiver is taken when the loader starts.
    pub(super) exceeded: (mpsc::Sender<ExceededQuery>, Mutex<Option<mpsc::Receiver<ExceededQuery>>>),
    pub(super) snapshot: watch::Sender<Arc<Snapshot>>,
    pub(super) rego_usage: watch::Sender<Option<RegoUsage>>,
    pub(super) registered: watch::Sender<ServingState>,
    /// The kinds that each component keeps.
    pub(super) kept: watch::Sender<BTreeMap<&'static str, ComponentKinds>>,
    /// Callbacks for changes, each with the component that keeps the kinds.
    pub(super) followers: RwLock<Vec<(&'static str, Follower)>>,
}

/// The kinds that a component keeps in memory, in addition to those that modules read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ComponentKinds {
    /// Kinds whose objects are watched.
    pub kinds: BTreeSet<GroupResource>,
    /// Kinds for which only the served version is looked up.
    pub named: BTreeSet<GroupResource>,
}

impl ComponentKinds {
    /// The union of the kinds of all components.
    pub(super) fn of_all(kept: &BTreeMap<&'static str, Self>) -> Self {
        let mut all = Self::default();
        for of_one in kept.values() {
            all.kinds.extend(of_one.kinds.iter().cloned());
            all.named.extend(of_one.named.iter().cloned());
        }
        all
    }
}

/// The problems found after the modules were loaded: with webhook registration, with OPA, and with conflicting or slow
/// modules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ServingState {
    /// The problem with the webhook registration of each package; `None` if the webhooks are registered.
    pub packages: BTreeMap<&'static str, Option<WebhookProblem>>,
    /// Why OPA is out of date; `None` if it is up to date.
    pub opa_problem: Option<String>,
    /// The last time at which a problem in `packages` or `opa_problem` appeared or disappeared.
    pub since: Moment,
    /// Modules whose patches conflict with older modules, with a message.
    pub conflicts: BTreeMap<ModuleId, String>,
    /// Modules whose evaluation takes too much time or memory.
    pub slow: BTreeMap<ModuleId, SlowModule>,
}

/// The results of loading in this process.
#[derive(Debug)]
pub(super) struct LoadResults {
    pub(super) verdicts: Arc<Verdicts>,
    /// The modules in force, without data.
    pub(super) engine: Engine,
    /// The modules parsed last, in force or pending.
    pub(super) read: Bundle,
    /// Kinds not watched because they have too many objects. Each has the number of objects, and the time since which
    /// it is not watched.
    pub(super) too_large: BTreeMap<GroupResource, (usize, Moment)>,
    /// When the texts that together exceeded the size limit were last checked again.
    pub(super) retried: Moment,
    /// The parts (documents of one kind in one namespace) that are left out, with the time of their last check.
    pub(super) left_out: BTreeMap<NamespacedKind, Moment>,
    /// Left-out parts that are not reported yet.
    pub(super) newly_left_out: BTreeSet<NamespacedKind>,
    /// Kinds that are listed again because their left-out documents now fit the limits. The value of a kind is true
    /// once its watch has stopped.
    pub(super) relisted: BTreeMap<GroupResource, bool>,
    /// The objects published last, by plural. They are used while a kind is listed again.
    pub(super) known: BTreeMap<String, Value>,
    /// Whether the number of objects is close to the limit.
    pub(super) is_near_limit: bool,
    /// Kinds with changed objects since the last publication.
    pub(super) changed: BTreeSet<GroupResource>,
    /// The objects that have changed since the last publication.
    pub(super) documents: ChangeCause,
    /// The inputs of placement policies at the last publication.
    pub(super) placement_inputs: PlacementInputs,
    /// The change of placement inputs that followers learn of once OPA has the published data.
    pub(super) pending_change: Option<ChangeCause>,
    /// Modules that OPA rejects although the check accepted them.
    pub(super) rejected_by_opa: RejectedByOpa,
}

/// Modules that OPA rejects. When the set of texts changes, this record is cleared, and all modules are sent to OPA
/// again.
#[derive(Clone, Debug, Default)]
pub(super) struct RejectedByOpa {
    texts: Vec<Text>,
    faults: BTreeMap<ModuleId, (Arc<str>, Vec<Fault>)>,
}

impl RejectedByOpa {
    /// Sets the current texts.
    pub(super) fn set_texts(&mut self, texts: Vec<Text>) {
        if self.texts != texts {
            *self = Self { texts, faults: BTreeMap::new() };
        }
    }

    /// The faults that OPA reported for modules of `bundle`.
    fn of(&self, bundle: &Bundle) -> Vec<Fault> {
        let refused = bundle.modules().filter_map(|module| {
            let (text, faults) = self.faults.get(module.id())?;
            (module.text() == text).then_some(faults)
        });
        refused.flatten().cloned().collect()
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Shared {
    pub(super) fn registered(&self, package: &'static str, fault: Option<WebhookProblem>) {
        self.registered.send_if_modified(|known| {
            let before = known.packages.insert(package, fault.clone());
            // If only the reason of a problem changes, the time of the problem is kept.
            if before.as_ref().is_none_or(|before| before.is_some() != fault.is_some()) {
                known.since = self.clock.now();
            }
            before != Some(fault)
        });
    }

    /// Records `changes` for the next publication, and notifies followers.
    pub(super) fn note(&self, changes: &Changes<'_, Index>) {
        for RelevantChange { kind, object, event } in followers::relevant(changes) {
            if let Some(event) = event {
                let kept = self.kept.borrow();
                for (by, follower) in &*self.followers.read() {
                    if kept.get(by).is_some_and(|kept| kept.kinds.contains(&kind)) {
                        follower(event.clone());
                    }
                }
            }
            if let Some(key) = object {
                let mut results = self.results.lock();
                results.documents.add(&kind, &key);
                results.changed.insert(kind);
            }
        }
    }

    pub(super) fn verdicts(&self) -> Arc<Verdicts> {
        self.results.lock().verdicts.clone()
    }

    /// Why reviews are not possible yet.
    pub(super) fn starting(&self, view: View<'_>, verdicts: &Verdicts) -> Option<String> {
        if verdicts.is_whole {
            return None;
        }
        let waits = verdicts.modules.values().find_map(|verdict| match &verdict.outcome {
            LoadOutcome::Pending(awaited) => awaited.first(),
            LoadOutcome::Loaded | LoadOutcome::Unchecked | LoadOutcome::Rejected { .. } => None,
        });
        let unread = view.unread(&self.settings);
        let waits = || match waits {
            Some(PendingDependency { what, why: None }) => format!("{what} are not listed"),
            Some(PendingDependency { what, why: Some(why) }) => format!("{what} are not listed: {why}"),
            None => "they are not checked".to_owned(),
        };
        Some(unread.unwrap_or_else(waits))
    }

    /// Publishes the modules in force with the current data.
    ///
    /// # Errors
    ///
    /// If the engine rejects the data.
    pub(super) fn publish(&self) -> Result<(), Fault> {
        let guard = self.mirror.read();
        // Lock order: the mirror is locked before `results`.
        let mut results = self.results.lock();
        let (view, verdicts) = (guard.view(self.clock.now()), results.verdicts.clone());
        let objects = plan::objects(view, &self.settings, &verdicts, &results.known);
        let data = plan::data(view, &self.settings, &objects);
        let carriers = view.carriers(&self.settings).filter_map(|(_, carrier)| carrier.carried.as_ref());
        let (texts, others): (Vec<_>, Vec<_>) = carriers.partition(|carried| !carried.texts.is_empty());
        let engine = results.engine.with_data(data.clone())?.with_carriers(!texts.is_empty());
        results.known = objects;
        let denials = plan::denials::denials(&verdicts, view.now);
        let starting = self.starting(view, &verdicts);
        let placement_inputs =
            PlacementInputs::new(view, &verdicts, starting.is_some(), denials.get(PLACEMENT), &data);
        let placement_inputs = placement_inputs.external_engine(engine.external_endpoint());
        let changed = std::mem::take(&mut results.changed);
        let documents = std::mem::take(&mut results.documents);
        let has_changed = placement_inputs.reads().any(|kind| changed.contains(kind));
        let cause = if placement_inputs != results.placement_inputs
            || (has_changed && placement_inputs.is_external())
        {
            Some(ChangeCause::Other)
        } else {
            has_changed.then(|| documents.of_kinds(placement_inputs.reads()))
        };
        results.placement_inputs = placement_inputs;
        let left_out = plan::left_out::parts(view, &results.left_out, &results.relisted);
        let newly = left_out.keys().filter(|part| !results.left_out.contains_key(*part)).cloned();
        let newly: Vec<NamespacedKind> = newly.collect();
        results.newly_left_out.extend(newly);
        let gates = review_metadata::gates(view, &self.settings, &verdicts);
        let incomplete = plan::left_out::incomplete(view, &self.settings, &verdicts, &gates, &left_out);
        results.left_out = left_out;
        let snapshot = Snapshot::new(engine, denials)
            .with_omitted(incomplete)
            .with_excess_sender(self.exceeded.0.clone());
        let snapshot = snapshot.with_packages(self.settings.packages.clone()).with_review_inputs(gates);
        let snapshot = match starting {
            None => snapshot,
            Some(why) => snapshot.starting(why),
        };
        let rego_usage = (!snapshot.is_starting()).then(|| RegoUsage {
            placement: snapshot.has_policies_for(PLACEMENT),
            admission: snapshot
                .has_policies_for(ADMISSION)
                .then(|| review_metadata::admission_kinds(view, &verdicts, &snapshot)),
            // With an external engine, carriers are not checked.
            carriers: verdicts.external_engine.is_none() && !(texts.is_empty() && others.is_empty()),
        });
        self.snapshot.send_replace(Arc::new(snapshot));
        for package in [PLACEMENT, ADMISSION] {
            let is_asked = |rego_usage: &RegoUsage| rego_usage.has_policies_for(package);
            let is_first = rego_usage.as_ref().is_some_and(is_asked)
                && !self.rego_usage.borrow().as_ref().is_some_and(is_asked)
                && self.registered.borrow().packages.contains_key(package);
            if is_first {
                // The webhook writer has not processed the new Rego policy yet.
                self.registered(package, Some(WebhookProblem::not_registered()));
            }
        }
        send_if_changed(&self.rego_usage, rego_usage);
        if let Some(by) = cause {
            let pending_change = results.pending_change.take().unwrap_or_default();
            results.pending_change = Some(pending_change.and(by));
        }
        if self.settings.evaluator.opa().is_none()
            && let Some(by) = results.pending_change.take()
        {
            self.notify_followers(&by);
        }
        Ok(())
    }

    /// A receiver for snapshots.
    pub(super) fn snapshots(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshot.subscribe()
    }

    /// Takes the change of placement inputs that followers learn of once OPA has the published data.
    pub(super) fn take_pending_change(&self) -> Option<ChangeCause> {
        self.results.lock().pending_change.take()
    }

    /// Notifies all followers that the result of placement policies may have changed because of `by`.
    pub(super) fn notify_followers(&self, by: &ChangeCause) {
        for (_, follower) in &*self.followers.read() {
            follower(DocumentEvent::Placement(by.clone()));
        }
    }

    /// Records that OPA rejects the modules in `faults`, which are part of `bundle`.
    pub(super) fn refused(&self, bundle: &Bundle, faults: BTreeMap<ModuleId, Vec<Fault>>) {
        let text = |id: &ModuleId| bundle.module(id).map(|module| module.text().clone());
        let results = faults.into_iter().filter_map(|(id, faults)| Some((id.clone(), (text(&id)?, faults))));
        self.results.lock().rejected_by_opa.faults.extend(results);
    }

    /// Records why OPA is out of date; `None` if it is up to date.
    pub(super) fn opa_updated(&self, fault: Option<String>) {
        self.registered.send_if_modified(|known| {
            if known.opa_problem.is_some() != fault.is_some() {
                known.since = self.clock.now();
            }
            let before = std::mem::replace(&mut known.opa_problem, fault);
            before != known.opa_problem
        });
    }
}

impl BundleChecker for Shared {
    async fn check(&self, texts: &[Text]) -> Result<CheckResult, CheckError> {
        (self.check)(texts.to_vec(), Lane::Load).await
    }

    fn known(&self) -> Bundle {
        self.results.lock().read.clone()
    }

    fn packages(&self) -> QueriedPackages {
        self.settings.packages.clone()
    }

    fn faults(&self, bundle: &Bundle, secrets: &SecretReads) -> Vec<Fault> {
        let (guard, results) = (self.mirror.read(), self.results.lock());
        let view = guard.view(self.clock.now());
        let mut faults = reading::faults(view, &self.settings, &results.too_large, (bundle, secrets));
        faults.extend(results.rejected_by_opa.of(bundle));
        faults
    }

    fn pending_dependencies(&self, bundle: &Bundle) -> BTreeMap<ModuleId, Vec<PendingDependency>> {
        let guard = self.mirror.read();
        plan::awaited(guard.view(self.clock.now()), &self.settings, bundle)
    }
}
