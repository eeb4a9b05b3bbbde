//! The shared state of the loader: verdicts, the published snapshot, and reports for the status of carriers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use regorus::Value;
use tokio::sync::{mpsc, watch};

use super::following::{self, Basis, Follower, Moved, MovedBy, Seen};
use super::gating;
use super::in_use::InUse;
use super::index::Index;
use super::plan;
use super::plan::reading;
use super::settings::Settings;
use super::shares::Part;
use super::slow::Slow;
use super::verdict::Verdicts;
use super::view::View;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::GroupResource;
use policy_sync_hub::clock::Clock;
use policy_sync_hub::tasks::announce;
use policy_sync_mirror::{Changes, Mirror};
use policy_sync_rego::asked::{ADMISSION, PLACEMENT, Packages};
use policy_sync_rego::bundle::Bundle;
use policy_sync_rego::confined::{Check, CheckError, Checked, Lane};
use policy_sync_rego::culprits::Exceeded;
use policy_sync_rego::engine::Engine;
use policy_sync_rego::fault::Fault;
use policy_sync_rego::module::{ModuleId, Text};
use policy_sync_rego::secrets::SecretReads;
use policy_sync_rego::settle::{Awaited, Judge, Outcome};
use policy_sync_rego::snapshot::Snapshot;

/// A problem with the webhook registration of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unregistered {
    /// The reason.
    pub why: String,
    /// Whether an earlier registration still works.
    pub is_asked: bool,
}

impl Unregistered {
    /// Not registered yet, or unknown.
    #[must_use]
    pub fn yet() -> Self {
        Self { why: "it is not registered yet".to_owned(), is_asked: false }
    }
}

/// The shared state of the loader.
pub(super) struct Shared {
    pub(super) mirror: Arc<Mirror<Index>>,
    pub(super) settings: Settings,
    pub(super) clock: Clock,
    pub(super) found: Mutex<Found>,
    pub(super) check: Check,
    /// Queries that exceeded a limit. The receiver is taken when the loader starts.
    pub(super) exceeded: (mpsc::Sender<Exceeded>, Mutex<Option<mpsc::Receiver<Exceeded>>>),
    pub(super) snapshot: watch::Sender<Arc<Snapshot>>,
    pub(super) in_use: watch::Sender<Option<InUse>>,
    pub(super) registered: watch::Sender<Registered>,
    /// The kinds that each component keeps.
    pub(super) kept: watch::Sender<BTreeMap<&'static str, Kept>>,
    /// Callbacks for changes, each with the component whose kinds it follows.
    pub(super) followers: RwLock<Vec<(&'static str, Follower)>>,
}

/// The kinds that a component keeps, beside those that modules read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Kept {
    /// Kinds whose objects are watched.
    pub kinds: BTreeSet<GroupResource>,
    /// Kinds of which only the served version is looked up.
    pub named: BTreeSet<GroupResource>,
}

impl Kept {
    /// The union over all components.
    pub(super) fn of_all(kept: &BTreeMap<&'static str, Self>) -> Self {
        let mut all = Self::default();
        for of_one in kept.values() {
            all.kinds.extend(of_one.kinds.iter().cloned());
            all.named.extend(of_one.named.iter().cloned());
        }
        all
    }
}

/// The state after loading: webhook registration, OPA, and later findings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Registered {
    /// The problem with the registration of each package, if any.
    pub packages: BTreeMap<&'static str, Option<Unregistered>>,
    /// Why OPA is out of date, if it is.
    pub unfilled: Option<String>,
    /// The time of the last change of these.
    pub since: Moment,
    /// Modules whose patches conflict with older modules, with a message.
    pub conflicts: BTreeMap<ModuleId, String>,
    /// Modules whose evaluation takes too much time or memory.
    pub slow: BTreeMap<ModuleId, Slow>,
}

/// The results of this process.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) verdicts: Arc<Verdicts>,
    /// The modules in force, without data.
    pub(super) engine: Engine,
    /// The modules parsed last, in force or pending.
    pub(super) read: Bundle,
    /// Kinds not watched because they have too many objects: the count, and since when.
    pub(super) too_large: BTreeMap<GroupResource, (usize, Moment)>,
    /// When texts that exceeded the total size were last checked again.
    pub(super) retried: Moment,
    /// The parts that are left out, with the time of their last check.
    pub(super) left_out: BTreeMap<Part, Moment>,
    /// Left-out parts that are not reported yet.
    pub(super) newly_left_out: BTreeSet<Part>,
    /// Kinds that are listed again so that left-out documents return, each with whether its watch has
    /// stopped.
    pub(super) relisted: BTreeMap<GroupResource, bool>,
    /// The objects published last, by plural. They are used while a kind is listed again.
    pub(super) known: BTreeMap<String, Value>,
    /// Whether the number of objects is close to the limit.
    pub(super) is_near: bool,
    /// Kinds with changed objects since the last publication.
    pub(super) changed: BTreeSet<GroupResource>,
    /// The objects that have changed since the last publication.
    pub(super) documents: MovedBy,
    /// The inputs of placement at the last publication.
    pub(super) basis: Basis,
    /// The change that followers of placement are notified of once OPA has the published data.
    pub(super) owed: Option<MovedBy>,
    /// Modules that OPA rejects although the check accepted them.
    pub(super) unfit: Unfit,
}

/// Modules that OPA rejects, valid for one set of texts. When the set changes, they are tried again.
#[derive(Clone, Debug, Default)]
pub(super) struct Unfit {
    texts: Vec<Text>,
    faults: BTreeMap<ModuleId, (Arc<str>, Vec<Fault>)>,
}

impl Unfit {
    /// Sets the current texts.
    pub(super) fn among(&mut self, texts: Vec<Text>) {
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
    pub(super) fn registered(&self, package: &'static str, fault: Option<Unregistered>) {
        self.registered.send_if_modified(|known| {
            let before = known.packages.insert(package, fault.clone());
            // A different reason is not a new problem.
            if before.as_ref().is_none_or(|before| before.is_some() != fault.is_some()) {
                known.since = self.clock.now();
            }
            before != Some(fault)
        });
    }

    /// Records `changes` for the next publication, and notifies followers.
    pub(super) fn note(&self, changes: &Changes<'_, Index>) {
        for Seen { kind, object, moved } in following::seen(changes) {
            if let Some(moved) = moved {
                let kept = self.kept.borrow();
                for (by, follower) in &*self.followers.read() {
                    if kept.get(by).is_some_and(|kept| kept.kinds.contains(&kind)) {
                        follower(moved.clone());
                    }
                }
            }
            if let Some(key) = object {
                let mut found = self.found.lock();
                found.documents.add(&kind, &key);
                found.changed.insert(kind);
            }
        }
    }

    pub(super) fn verdicts(&self) -> Arc<Verdicts> {
        self.found.lock().verdicts.clone()
    }

    /// Why reviews are not possible yet.
    pub(super) fn starting(&self, view: View<'_>, verdicts: &Verdicts) -> Option<String> {
        if verdicts.is_whole {
            return None;
        }
        let waits = verdicts.modules.values().find_map(|verdict| match &verdict.outcome {
            Outcome::Pending(awaited) => awaited.first(),
            Outcome::Loaded | Outcome::Unchecked | Outcome::Refused { .. } => None,
        });
        let unread = view.unread(&self.settings);
        let waits = || match waits {
            Some(Awaited { what, why: None }) => format!("{what} are not listed"),
            Some(Awaited { what, why: Some(why) }) => format!("{what} are not listed: {why}"),
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
        // Lock order: the mirror first.
        let mut found = self.found.lock();
        let (view, verdicts) = (guard.view(self.clock.now()), found.verdicts.clone());
        let objects = plan::objects(view, &self.settings, &verdicts, &found.known);
        let data = plan::data(view, &self.settings, &objects);
        let carriers = view.carriers(&self.settings).filter_map(|(_, carrier)| carrier.carried.as_ref());
        let (texts, others): (Vec<_>, Vec<_>) = carriers.partition(|carried| !carried.texts.is_empty());
        let engine = found.engine.with_data(data.clone())?.with_carriers(!texts.is_empty());
        found.known = objects;
        let denials = plan::denials::denials(&verdicts, view.now);
        let starting = self.starting(view, &verdicts);
        let basis = Basis::new(view, &verdicts, starting.is_some(), denials.get(PLACEMENT), &data);
        let basis = basis.elsewhere(engine.elsewhere());
        let changed = std::mem::take(&mut found.changed);
        let documents = std::mem::take(&mut found.documents);
        let is_moved = basis.reads().any(|kind| changed.contains(kind));
        let moved_by = if basis != found.basis || (is_moved && basis.is_elsewhere()) {
            Some(MovedBy::Other)
        } else {
            is_moved.then(|| documents.of_kinds(basis.reads()))
        };
        found.basis = basis;
        let left_out = plan::left_out::parts(view, &found.left_out, &found.relisted);
        let newly = left_out.keys().filter(|part| !found.left_out.contains_key(*part)).cloned();
        let newly: Vec<Part> = newly.collect();
        found.newly_left_out.extend(newly);
        let gates = gating::gates(view, &self.settings, &verdicts);
        let incomplete = plan::left_out::incomplete(view, &self.settings, &verdicts, &gates, &left_out);
        found.left_out = left_out;
        let snapshot =
            Snapshot::new(engine, denials).without(incomplete).reporting_excess(self.exceeded.0.clone());
        let snapshot = snapshot.asking(self.settings.packages.clone()).with_gates(gates);
        let snapshot = match starting {
            None => snapshot,
            Some(why) => snapshot.starting(why),
        };
        let in_use = (!snapshot.is_starting()).then(|| InUse {
            placement: snapshot.is_asked(PLACEMENT),
            admission: snapshot.is_asked(ADMISSION).then(|| gating::gated(view, &verdicts, &snapshot)),
            // With an external engine, carriers need no check.
            carriers: verdicts.elsewhere.is_none() && !(texts.is_empty() && others.is_empty()),
        });
        self.snapshot.send_replace(Arc::new(snapshot));
        for package in [PLACEMENT, ADMISSION] {
            let is_asked = |in_use: &InUse| in_use.asks(package);
            let is_first = in_use.as_ref().is_some_and(is_asked)
                && !self.in_use.borrow().as_ref().is_some_and(is_asked)
                && self.registered.borrow().packages.contains_key(package);
            if is_first {
                // The writer of webhooks has not seen the Rego policy yet.
                self.registered(package, Some(Unregistered::yet()));
            }
        }
        announce(&self.in_use, in_use);
        if let Some(by) = moved_by {
            let owed = found.owed.take().unwrap_or_default();
            found.owed = Some(owed.and(by));
        }
        if self.settings.evaluator.opa().is_none()
            && let Some(by) = found.owed.take()
        {
            self.tell_moved(&by);
        }
        Ok(())
    }

    /// A receiver for snapshots.
    pub(super) fn snapshots(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshot.subscribe()
    }

    /// Takes the change that followers of placement are notified of once OPA has the published data.
    pub(super) fn take_owed(&self) -> Option<MovedBy> {
        self.found.lock().owed.take()
    }

    /// Notifies followers of placement.
    pub(super) fn tell_moved(&self, by: &MovedBy) {
        for (_, follower) in &*self.followers.read() {
            follower(Moved::Placement(by.clone()));
        }
    }

    /// Records that OPA rejects these modules of `bundle`.
    pub(super) fn refused(&self, bundle: &Bundle, faults: BTreeMap<ModuleId, Vec<Fault>>) {
        let text = |id: &ModuleId| bundle.module(id).map(|module| module.text().clone());
        let found = faults.into_iter().filter_map(|(id, faults)| Some((id.clone(), (text(&id)?, faults))));
        self.found.lock().unfit.faults.extend(found);
    }

    /// Records why OPA is out of date; `None` if it is up to date.
    pub(super) fn filled(&self, fault: Option<String>) {
        self.registered.send_if_modified(|known| {
            if known.unfilled.is_some() != fault.is_some() {
                known.since = self.clock.now();
            }
            let before = std::mem::replace(&mut known.unfilled, fault);
            before != known.unfilled
        });
    }
}

impl Judge for Shared {
    async fn check(&self, texts: &[Text]) -> Result<Checked, CheckError> {
        (self.check)(texts.to_vec(), Lane::Load).await
    }

    fn known(&self) -> Bundle {
        self.found.lock().read.clone()
    }

    fn packages(&self) -> Packages {
        self.settings.packages.clone()
    }

    fn faults(&self, bundle: &Bundle, secrets: &SecretReads) -> Vec<Fault> {
        let (guard, found) = (self.mirror.read(), self.found.lock());
        let view = guard.view(self.clock.now());
        let mut faults = reading::faults(view, &self.settings, &found.too_large, (bundle, secrets));
        faults.extend(found.unfit.of(bundle));
        faults
    }

    fn awaited(&self, bundle: &Bundle) -> BTreeMap<ModuleId, Vec<Awaited>> {
        let guard = self.mirror.read();
        plan::awaited(guard.view(self.clock.now()), &self.settings, bundle)
    }
}
