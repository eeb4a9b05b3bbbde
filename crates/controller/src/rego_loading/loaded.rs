//! The public handle to the loaded Rego policies and the replicated objects.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use regorus::Value;
use tokio::sync::{mpsc, watch};

use super::followers::{ChangeCause, DocumentEvent, PlacementInputs};
use super::index::Index;
use super::key::CarrierKey;
use super::kinds::documents;
use super::metrics::RegoMetrics;
use super::plan;
use super::plan::reading;
use super::review_metadata::RegoUsage;
use super::settings::Settings;
use super::shared::{ComponentKinds, LoadResults, RejectedByOpa, Shared, WebhookProblem};
use super::slow;
use super::verdict::{Verdict, Verdicts};
use super::view::KindState;
use policy_sync_api::names::{ControllerName, GroupResource, GroupVersionResource, ObjectKey};
use policy_sync_hub::clock::Clock;
use policy_sync_mirror::Mirror;
use policy_sync_rego::confined::CheckFn;
use policy_sync_rego::engine::Evaluator;
use policy_sync_rego::external::External;
use policy_sync_rego::fault::Fault;
use policy_sync_rego::module::ModuleId;
use policy_sync_rego::opa::Opa;
use policy_sync_rego::secrets::withheld;
use policy_sync_rego::selection::LoadOutcome;
use policy_sync_rego::snapshot::Snapshot;

/// The maximum number of concurrent evaluations in an external engine.
const MAX_CONCURRENT_EVALUATIONS: usize = 64;

/// The loaded Rego policies and the replicated objects. Clones share one state.
#[derive(Clone, Debug)]
pub struct Loaded(pub(super) Arc<Shared>);

impl Loaded {
    /// An empty state.
    ///
    /// # Errors
    ///
    /// If no engine can be created.
    pub(super) fn new(
        controller: ControllerName,
        settings: Settings,
        clock: Clock,
        check: CheckFn,
    ) -> Result<Self, Fault> {
        let engine = settings.evaluator.engine(&Default::default())?;
        let nothing = Snapshot::new(engine.clone(), BTreeMap::new());
        let (snapshot, _) = watch::channel(Arc::new(nothing.starting("nothing is listed yet".to_owned())));
        let results = LoadResults {
            verdicts: Arc::new(Verdicts { packages: settings.packages.clone(), ..Verdicts::default() }),
            engine,
            read: Default::default(),
            too_large: BTreeMap::new(),
            retried: clock.now(),
            left_out: BTreeMap::new(),
            newly_left_out: BTreeSet::new(),
            relisted: BTreeMap::new(),
            known: BTreeMap::new(),
            is_near_limit: false,
            changed: BTreeSet::new(),
            placement_inputs: PlacementInputs::default(),
            documents: ChangeCause::default(),
            pending_change: None,
            rejected_by_opa: RejectedByOpa::default(),
        };
        let mirror = Arc::new(Mirror::with_index(Index::new(controller, settings.bytes, settings.limit)));
        let (rego_usage, registered) = (watch::channel(None).0, watch::channel(Default::default()).0);
        let (exceeded, receiver) = mpsc::channel(1);
        let exceeded = (exceeded, Mutex::new(Some(receiver)));
        let (results, kept) = (Mutex::new(results), watch::channel(BTreeMap::new()).0);
        Ok(Self(Arc::new(Shared {
            mirror,
            settings,
            clock,
            results,
            check,
            exceeded,
            snapshot,
            rego_usage,
            registered,
            kept,
            followers: RwLock::default(),
        })))
    }

    /// Starts to call `follower` for changes of the kinds that the component `by` keeps. `follower` must not block.
    pub(crate) fn follow(&self, by: &'static str, follower: impl Fn(DocumentEvent) + Send + Sync + 'static) {
        self.0.followers.write().push((by, Arc::new(follower)));
    }

    /// Replaces the set of kinds that are kept for the component `by`, in addition to those that modules read. Also
    /// looks up the served versions of the `named` kinds.
    pub fn keep(&self, by: &'static str, kinds: BTreeSet<GroupResource>, named: BTreeSet<GroupResource>) {
        let keeps = ComponentKinds { kinds, named };
        self.0.kept.send_if_modified(|kept| {
            let differs = kept.get(by) != Some(&keeps);
            kept.insert(by, keeps);
            differs
        });
    }

    /// All objects of `kind`.
    ///
    /// # Errors
    ///
    /// A message, if the objects are not known.
    pub fn objects(&self, kind: &GroupResource) -> Result<Vec<(ObjectKey, Value)>, String> {
        let guard = self.0.mirror.read();
        let view = guard.view(self.0.clock.now());
        if let Some((count, _)) = self.0.results.lock().too_large.get(kind) {
            return Err(reading::too_many(&kind.to_string(), *count, self.0.settings.limit));
        }
        if plan::is_withheld(view, &self.0.settings, &kind.to_string()) {
            return Err(withheld(&kind.to_string()));
        }
        let unlisted = || format!("{kind} are not listed");
        match view.kind(&kind.to_string()) {
            KindState::Listed(_) => {
                Ok(view.documents_of(kind).map(|(key, object)| (key.clone(), object.clone())).collect())
            }
            KindState::Nowhere => Ok(Vec::new()),
            KindState::Awaited(None) => Err(unlisted()),
            KindState::Awaited(Some(why)) | KindState::Forbidden(why) => {
                Err(format!("{}: {why}", unlisted()))
            }
        }
    }

    /// For each group of left-out objects: the kind, the namespace and a message. Objects are left out if their
    /// namespace exceeds its share of a limit.
    #[must_use]
    pub fn left_out(&self) -> Vec<(GroupResource, Arc<str>, String)> {
        let guard = self.0.mirror.read();
        let view = guard.view(self.0.clock.now());
        let parts = view.left_out();
        let messages = parts.filter_map(|(part, _)| {
            Some((part.kind.clone(), part.namespace.clone(), plan::left_out::note(part, view)?))
        });
        messages.collect()
    }

    /// Whether the objects of `kind` are not listed yet, and no known problem prevents the list.
    #[must_use]
    pub fn is_awaited(&self, kind: &GroupResource) -> bool {
        let (guard, plural) = (self.0.mirror.read(), kind.to_string());
        let view = guard.view(self.0.clock.now());
        matches!(view.kind(&plural), KindState::Awaited(None))
            && !plan::is_withheld(view, &self.0.settings, &plural)
            && !self.0.results.lock().too_large.contains_key(kind)
    }

    /// One object of `kind`.
    #[must_use]
    pub fn object(&self, kind: &GroupResource, key: &ObjectKey) -> Option<Value> {
        let guard = self.0.mirror.read();
        guard.view(self.0.clock.now()).document(kind, key)?.object().cloned()
    }

    /// The resource and API version of `kind`, and the highest `resourceVersion` that the watch of `kind` has
    /// delivered.
    #[must_use]
    pub fn gvr_and_version(&self, kind: &GroupResource) -> Option<(GroupVersionResource, u64)> {
        let guard = self.0.mirror.read();
        let view = guard.view(self.0.clock.now());
        Some((view.gvr(&kind.to_string())?.clone(), view.version(&documents(kind))))
    }

    /// A summary of the existing Rego policies; `None` until loaded.
    #[must_use]
    pub fn rego_usage(&self) -> watch::Receiver<Option<RegoUsage>> {
        self.0.rego_usage.subscribe()
    }

    /// Records a problem with the registration of the webhooks that serve `package`. The status of carriers reports the
    /// problem. `None` if there is no problem.
    pub fn registered(&self, package: &'static str, fault: Option<WebhookProblem>) {
        self.0.registered(package, fault);
    }

    /// Records pairs of Rego policies with conflicting patches. The status of the newer Rego policy of each pair
    /// reports the conflict.
    pub fn record_conflicts(&self, pairs: impl IntoIterator<Item = ([ModuleId; 2], String)>) {
        let mut conflicts = BTreeMap::new();
        {
            let guard = self.0.mirror.read();
            let view = guard.view(self.0.clock.now());
            let age = |id: &ModuleId| {
                let carrier = CarrierKey::of(id).and_then(|key| view.carrier(&key));
                (carrier.map(|carrier| carrier.created), id.clone())
            };
            for ([one, other], text) in pairs {
                let newer = if age(&one) < age(&other) { other } else { one };
                conflicts.entry(newer).or_insert(text);
            }
        }
        self.0.registered.send_if_modified(|known| {
            let differs = known.conflicts != conflicts;
            known.conflicts = conflicts;
            differs
        });
    }

    /// The maximum number of concurrent evaluations.
    #[must_use]
    pub fn max_concurrency(&self) -> usize {
        match self.0.settings.evaluator {
            Evaluator::Embedded => std::thread::available_parallelism().map_or(1, usize::from),
            Evaluator::Opa(_) | Evaluator::External(_) => MAX_CONCURRENT_EVALUATIONS,
        }
    }

    /// The current snapshot.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.0.snapshot.borrow().clone()
    }

    /// A receiver for snapshots.
    #[must_use]
    pub fn snapshots(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.0.snapshots()
    }

    /// Why the hub rejects lists of Rego policies; one line for each source.
    #[must_use]
    pub fn refused(&self) -> Vec<String> {
        let guard = self.0.mirror.read();
        guard.view(self.0.clock.now()).refused(&self.0.settings)
    }

    /// Whether all Rego policies that existed at the start are loaded, and a text that lists the missing ones.
    #[must_use]
    pub fn health(&self) -> (bool, String) {
        let guard = self.0.mirror.read();
        let view = guard.view(self.0.clock.now());
        let mut text = String::new();
        for (source, fault) in view.failing() {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "[!]rego: {source} failing: {fault}");
        }
        for (kind, (count, _)) in &self.0.results.lock().too_large {
            let fault = reading::too_many(&kind.to_string(), *count, self.0.settings.limit);
            let _ = writeln!(text, "[!]rego: {fault}");
        }
        let left_out: BTreeSet<_> = view.left_out().map(|(part, _)| &part.namespace).collect();
        if !left_out.is_empty() {
            let count = left_out.len();
            let _ = writeln!(
                text,
                "[!]rego: documents of {count} namespaces are left out (--replicate-bytes, --replicate-limit)"
            );
        }
        let verdicts = self.0.verdicts();
        let is_refused = |verdict: &&Verdict| matches!(verdict.outcome, LoadOutcome::Rejected { .. });
        let refused = verdicts.modules.values().filter(is_refused).count();
        if refused > 0 {
            let _ = writeln!(text, "[!]rego: {refused} of {} modules are rejected", verdicts.modules.len());
        }
        let (is_filled, lines) = self.0.settings.evaluator.opa().map_or((true, Vec::new()), Opa::health);
        let external = self.0.settings.evaluator.external().and_then(External::fault);
        for line in lines.into_iter().chain(external) {
            let _ = writeln!(text, "[!]rego: {line}");
        }
        let starting = self.0.starting(view, &verdicts);
        let _ = match starting.or_else(|| (!is_filled).then(|| "OPA does not have them".to_owned())) {
            None => writeln!(text, "[+]rego ok"),
            Some(why) => writeln!(text, "[-]rego: Rego policies are not loaded yet: {why}"),
        };
        (verdicts.is_whole && is_filled, text)
    }

    /// Whether each watch is listed and not failing, by resource.
    #[must_use]
    pub fn watches(&self) -> BTreeMap<String, bool> {
        let (guard, results) = (self.0.mirror.read(), self.0.results.lock());
        let view = guard.view(self.0.clock.now());
        let kept = ComponentKinds::of_all(&self.0.kept.borrow()).kinds;
        let wanted = plan::watches(
            view,
            &self.0.settings,
            &results.verdicts,
            &kept,
            &results.too_large,
            &results.relisted,
        );
        let mut watches = BTreeMap::new();
        for source in wanted.keys() {
            let is_up = view.is_listed(source) && view.failure(source).is_none();
            *watches.entry(source.label()).or_insert(true) &= is_up;
        }
        watches
    }

    /// Updates the gauges of `metrics`.
    pub fn measure(&self, metrics: &RegoMetrics) {
        let guard = self.0.mirror.read();
        let slow = slow::count(&self.0.registered.borrow().slow, &self.0.verdicts());
        metrics.measure(guard.view(self.0.clock.now()), &self.0.settings, &self.0.verdicts(), slow);
    }
}
