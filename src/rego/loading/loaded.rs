//! What is loaded, for whoever asks: what is in force, and how that fares.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use regorus::Value;
use tokio::sync::watch;

use super::following::{self, Basis, Follower, Moved, Seen};
use super::gating;
use super::index::Index;
use super::key::CarrierKey;
use super::kinds::documents;
use super::metrics::RegoMetrics;
use super::plan;
use super::plan::reading;
use super::pushing;
use super::settings::Settings;
use super::verdict::{Verdict, Verdicts};
use super::view::{KindState, View};
use crate::announce::announce;
use crate::api::moment::Moment;
use crate::api::names::{ControllerName, GroupResource, GroupVersionResource, ObjectKey};
use crate::clock::Clock;
use crate::hub::{Changes, Mirror};
use crate::rego::asked::{ADMISSION, PLACEMENT, Packages};
use crate::rego::bundle::Bundle;
use crate::rego::confined::{Check, CheckError, Checked};
use crate::rego::engine::{Engine, Evaluator};
use crate::rego::external::External;
use crate::rego::fault::Fault;
use crate::rego::module::{ModuleId, Text};
use crate::rego::settle::{Awaited, Judge, Outcome};
use crate::rego::snapshot::Snapshot;

/// How many questions may wait for an engine elsewhere at once.
const AT_ONCE: usize = 64;

/// What is loaded. Clones are the same.
#[derive(Clone, Debug)]
pub struct Loaded(pub(super) Arc<Shared>);

pub(super) struct Shared {
    pub(super) mirror: Arc<Mirror<Index>>,
    pub(super) settings: Settings,
    pub(super) clock: Clock,
    pub(super) found: Mutex<Found>,
    pub(super) check: Check,
    snapshot: watch::Sender<Arc<Snapshot>>,
    in_use: watch::Sender<Option<InUse>>,
    pub(super) registered: watch::Sender<Registered>,
    /// What each room keeps.
    pub(super) kept: watch::Sender<BTreeMap<&'static str, Kept>>,
    /// Who is told what changes, each with the room whose kinds it is told of.
    followers: RwLock<Vec<(&'static str, Follower)>>,
}

/// What somebody keeps, beside what modules read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Kept {
    /// Kinds whose objects are watched.
    pub kinds: BTreeSet<GroupResource>,
    /// Kinds of which only is found out how they are read.
    pub named: BTreeSet<GroupResource>,
}

impl Kept {
    /// All that anybody keeps.
    pub(super) fn of_all(kept: &BTreeMap<&'static str, Self>) -> Self {
        let mut all = Self::default();
        for of_one in kept.values() {
            all.kinds.extend(of_one.kinds.iter().cloned());
            all.named.extend(of_one.named.iter().cloned());
        }
        all
    }
}

/// Which policies there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InUse {
    /// Whether any says where objects go, be it one that cannot be asked.
    pub placement: bool,
    /// Of which kinds policies deny objects, where any does, be it one that cannot be asked.
    pub admission: Option<Gated>,
    /// Whether any object carries something, be it of no use.
    pub carriers: bool,
}

impl InUse {
    /// Whether there is a policy that webhooks ask for `what`.
    fn asks(&self, what: &str) -> bool {
        match what {
            PLACEMENT => self.placement,
            ADMISSION => self.admission.is_some(),
            _ => false,
        }
    }
}

/// The kinds whose objects policies may deny.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gated {
    /// Those that they name.
    pub kinds: BTreeSet<GroupResource>,
    /// Whether one names none: then these are all.
    pub any: bool,
    /// One that they name, and of which nobody knows yet what it is.
    pub awaited: Option<String>,
    /// Whether all policies could be read: others may name what they did.
    pub is_whole: bool,
}

/// What is wrong with how a package is registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unregistered {
    /// Why.
    pub why: String,
    /// Whether the API server asks it all the same, as it was told before.
    pub is_asked: bool,
}

impl Unregistered {
    /// Nobody has registered it yet, or it is not known.
    #[must_use]
    pub fn yet() -> Self {
        Self { why: "it is not registered yet".to_owned(), is_asked: false }
    }
}

/// Whether the API server asks what is in force, and who evaluates has it; and what was found since it was loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Registered {
    /// Of each package that somebody registers what is wrong with that, if anything.
    pub packages: BTreeMap<&'static str, Option<Unregistered>>,
    /// What keeps OPA from having what is in force, if anything.
    pub unfilled: Option<String>,
    /// Since when any of that is so.
    pub since: Moment,
    /// Modules that want to mend an object otherwise than older ones do, and how.
    pub conflicts: BTreeMap<ModuleId, String>,
}

/// What this process has found out.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) verdicts: Arc<Verdicts>,
    /// The modules that are in force, without data.
    pub(super) engine: Engine,
    /// Kinds that are not watched because they have so many objects, each since when.
    pub(super) too_large: BTreeMap<GroupResource, (usize, Moment)>,
    /// The objects that were published last, by plural: a kind that is listed anew has these meanwhile.
    pub(super) known: BTreeMap<String, Value>,
    /// Whether there are nearly too many objects.
    pub(super) is_near: bool,
    /// Kinds of which an object has changed since what is known was published.
    changed: BTreeSet<GroupResource>,
    /// What placement is asked by.
    basis: Basis,
    /// Whether who follows placement is still to be told, once OPA has what is published.
    owed: bool,
    /// What OPA refuses of what is in order.
    pub(super) unfit: Unfit,
}

/// What OPA refuses of the texts that are there. It refuses none by itself: once any other is there, it is tried again.
#[derive(Clone, Debug, Default)]
pub(super) struct Unfit {
    texts: Vec<Text>,
    faults: BTreeMap<ModuleId, (Arc<str>, Vec<Fault>)>,
}

impl Unfit {
    /// Notes which texts are there.
    pub(super) fn among(&mut self, texts: Vec<Text>) {
        if self.texts != texts {
            *self = Self { texts, faults: BTreeMap::new() };
        }
    }

    /// What it refuses of `bundle`.
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

impl Loaded {
    /// Nothing yet.
    ///
    /// # Errors
    ///
    /// Where no engine can be made.
    pub(super) fn new(
        controller: ControllerName,
        settings: Settings,
        clock: Clock,
        check: Check,
    ) -> Result<Self, Fault> {
        let engine = settings.evaluator.engine(&Default::default())?;
        let nothing = Snapshot::new(engine.clone(), BTreeMap::new());
        let (snapshot, _) = watch::channel(Arc::new(nothing.starting("nothing is listed".to_owned())));
        let found = Found {
            verdicts: Arc::new(Verdicts { packages: settings.packages.clone(), ..Verdicts::default() }),
            engine,
            too_large: BTreeMap::new(),
            known: BTreeMap::new(),
            is_near: false,
            changed: BTreeSet::new(),
            basis: Basis::default(),
            owed: false,
            unfit: Unfit::default(),
        };
        let mirror = Arc::new(Mirror::new(controller));
        let (in_use, registered) = (watch::channel(None).0, watch::channel(Default::default()).0);
        let (found, kept) = (Mutex::new(found), watch::channel(BTreeMap::new()).0);
        Ok(Self(Arc::new(Shared {
            mirror,
            settings,
            clock,
            found,
            check,
            snapshot,
            in_use,
            registered,
            kept,
            followers: RwLock::default(),
        })))
    }

    /// Has `follower` told what changes, from now on, of the kinds that the room `by` keeps. It must not wait.
    pub(crate) fn follow(&self, by: &'static str, follower: impl Fn(Moved) + Send + Sync + 'static) {
        self.0.followers.write().push((by, Arc::new(follower)));
    }

    /// Keeps the objects of these kinds, and of no others, for the room `by`, beside those that modules read, and finds out how those
    /// that are `named` are read.
    pub fn keep(&self, by: &'static str, kinds: BTreeSet<GroupResource>, named: BTreeSet<GroupResource>) {
        let keeps = Kept { kinds, named };
        self.0.kept.send_if_modified(|kept| {
            let differs = kept.get(by) != Some(&keeps);
            kept.insert(by, keeps);
            differs
        });
    }

    /// Each object of `kind`.
    ///
    /// # Errors
    ///
    /// Why they are not known.
    pub fn objects(&self, kind: &GroupResource) -> Result<Vec<(ObjectKey, Value)>, String> {
        let guard = self.0.mirror.read();
        let view = guard.view(self.0.clock.now());
        if let Some((count, _)) = self.0.found.lock().too_large.get(kind) {
            return Err(reading::too_many(&kind.to_string(), *count, self.0.settings.limit));
        }
        if plan::is_withheld(view, &self.0.settings, &kind.to_string()) {
            return Err(reading::withheld(&kind.to_string()));
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

    /// Whether it is not known yet which objects of `kind` there are, and will be.
    #[must_use]
    pub fn is_awaited(&self, kind: &GroupResource) -> bool {
        let (guard, plural) = (self.0.mirror.read(), kind.to_string());
        let view = guard.view(self.0.clock.now());
        matches!(view.kind(&plural), KindState::Awaited(None))
            && !plan::is_withheld(view, &self.0.settings, &plural)
            && !self.0.found.lock().too_large.contains_key(kind)
    }

    /// An object of `kind`, where it is known.
    #[must_use]
    pub fn object(&self, kind: &GroupResource, key: &ObjectKey) -> Option<Value> {
        let guard = self.0.mirror.read();
        Some(guard.view(self.0.clock.now()).document(kind, key)?.0.clone())
    }

    /// How `kind` is read, and the highest version that was seen of its objects.
    #[must_use]
    pub fn read_as(&self, kind: &GroupResource) -> Option<(GroupVersionResource, u64)> {
        let guard = self.0.mirror.read();
        let view = guard.view(self.0.clock.now());
        Some((view.gvr(&kind.to_string())?.clone(), view.version(&documents(kind))))
    }

    /// Which policies there are, as that changes; `None` before it is known.
    #[must_use]
    pub fn in_use(&self) -> watch::Receiver<Option<InUse>> {
        self.0.in_use.subscribe()
    }

    /// Tells what is wrong with how `package` is registered, if anything: carriers say so.
    pub fn registered(&self, package: &'static str, fault: Option<Unregistered>) {
        self.0.registered(package, fault);
    }

    /// Tells which policies, in pairs, want to mend an object otherwise, and how: of each pair the newer carrier says so.
    pub fn conflicting(&self, pairs: impl IntoIterator<Item = ([ModuleId; 2], String)>) {
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

    /// How many may be asked at once.
    #[must_use]
    pub fn at_once(&self) -> usize {
        match self.0.settings.evaluator {
            Evaluator::Embedded => std::thread::available_parallelism().map_or(1, usize::from),
            Evaluator::Opa(_) | Evaluator::External(_) => AT_ONCE,
        }
    }

    /// What is asked now.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.0.snapshot.borrow().clone()
    }

    /// What is asked, as that changes.
    #[must_use]
    pub fn snapshots(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.0.snapshots()
    }

    /// Whether everything that was there at the start was loaded, and in any case what is missing.
    #[must_use]
    pub fn health(&self) -> (bool, String) {
        let guard = self.0.mirror.read();
        let view = guard.view(self.0.clock.now());
        let mut text = String::new();
        for (source, fault) in view.failing() {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "[!]rego: {source} failing: {fault}");
        }
        for (kind, (count, _)) in &self.0.found.lock().too_large {
            let fault = reading::too_many(&kind.to_string(), *count, self.0.settings.limit);
            let _ = writeln!(text, "[!]rego: {fault}");
        }
        let verdicts = self.0.verdicts();
        let is_refused = |verdict: &&Verdict| matches!(verdict.outcome, Outcome::Refused { .. });
        let refused = verdicts.modules.values().filter(is_refused).count();
        if refused > 0 {
            let _ = writeln!(text, "[!]rego: {refused} of {} modules are refused", verdicts.modules.len());
        }
        let (is_filled, lines) = self.0.settings.evaluator.opa().map_or((true, Vec::new()), pushing::health);
        let external = self.0.settings.evaluator.external().and_then(External::fault);
        for line in lines.into_iter().chain(external) {
            let _ = writeln!(text, "[!]rego: {line}");
        }
        let starting = self.0.starting(view, &verdicts);
        let _ = match starting.or_else(|| (!is_filled).then(|| "OPA has them not".to_owned())) {
            None => writeln!(text, "[+]rego ok"),
            Some(why) => writeln!(text, "[-]rego: policies are not loaded yet: {why}"),
        };
        (verdicts.is_whole && is_filled, text)
    }

    /// Whether each source is up, by its resource.
    #[must_use]
    pub fn watches(&self) -> BTreeMap<String, bool> {
        let (guard, found) = (self.0.mirror.read(), self.0.found.lock());
        let view = guard.view(self.0.clock.now());
        let kept = Kept::of_all(&self.0.kept.borrow()).kinds;
        let wanted = plan::watches(view, &self.0.settings, &found.verdicts, &kept, &found.too_large);
        let mut watches = BTreeMap::new();
        for source in wanted.keys() {
            let is_up = view.is_listed(source) && view.failure(source).is_none();
            *watches.entry(source.label()).or_insert(true) &= is_up;
        }
        watches
    }

    /// Has `metrics` say it.
    pub fn measure(&self, metrics: &RegoMetrics) {
        let guard = self.0.mirror.read();
        metrics.measure(guard.view(self.0.clock.now()), &self.0.settings, &self.0.verdicts());
    }
}

impl Shared {
    fn registered(&self, package: &'static str, fault: Option<Unregistered>) {
        self.registered.send_if_modified(|known| {
            let before = known.packages.insert(package, fault.clone());
            // In other words it is no other fault.
            if before.as_ref().is_none_or(|before| before.is_some() != fault.is_some()) {
                known.since = self.clock.now();
            }
            before != Some(fault)
        });
    }

    /// Notes what `changes` mean for what is published, and tells who follows it.
    pub(super) fn note(&self, changes: &Changes<'_, Index>) {
        for Seen { kind, is_object, moved } in following::seen(changes) {
            if let Some(moved) = moved {
                let kept = self.kept.borrow();
                for (by, follower) in &*self.followers.read() {
                    if kept.get(by).is_some_and(|kept| kept.kinds.contains(&kind)) {
                        follower(moved.clone());
                    }
                }
            }
            if is_object {
                self.found.lock().changed.insert(kind);
            }
        }
    }

    pub(super) fn verdicts(&self) -> Arc<Verdicts> {
        self.found.lock().verdicts.clone()
    }

    /// Why nothing can be asked yet.
    fn starting(&self, view: View<'_>, verdicts: &Verdicts) -> Option<String> {
        if verdicts.is_whole {
            return None;
        }
        let waits = verdicts.modules.values().find_map(|verdict| match &verdict.outcome {
            Outcome::Pending(awaited) => awaited.first(),
            Outcome::Loaded | Outcome::Refused { .. } => None,
        });
        let unread = view.unread(&self.settings);
        let waits = || match waits {
            Some(Awaited { what, why: None }) => format!("{what} are not listed"),
            Some(Awaited { what, why: Some(why) }) => format!("{what} are not listed: {why}"),
            None => "they are not checked".to_owned(),
        };
        Some(unread.unwrap_or_else(waits))
    }

    /// Publishes what is in force with the data of this moment.
    ///
    /// # Errors
    ///
    /// Where the engine takes no such data.
    pub(super) fn publish(&self) -> Result<(), Fault> {
        let guard = self.mirror.read();
        // Always locked after the mirror.
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
        let is_moved = basis.reads().any(|kind| changed.contains(kind)) || basis != found.basis;
        found.basis = basis;
        let snapshot = Snapshot::new(engine, denials);
        let snapshot = snapshot.asking(self.settings.packages.clone()).with_gates(gating::gates(
            view,
            &self.settings,
            &verdicts,
        ));
        let snapshot = match starting {
            None => snapshot,
            Some(why) => snapshot.starting(why),
        };
        let in_use = (!snapshot.is_starting()).then(|| InUse {
            placement: snapshot.is_asked(PLACEMENT),
            admission: snapshot.is_asked(ADMISSION).then(|| gating::gated(view, &verdicts, &snapshot)),
            // Where no text is read, none is checked.
            carriers: verdicts.elsewhere.is_none() && !(texts.is_empty() && others.is_empty()),
        });
        self.snapshot.send_replace(Arc::new(snapshot));
        for package in [PLACEMENT, ADMISSION] {
            let is_asked = |in_use: &InUse| in_use.asks(package);
            let is_first = in_use.as_ref().is_some_and(is_asked)
                && !self.in_use.borrow().as_ref().is_some_and(is_asked)
                && self.registered.borrow().packages.contains_key(package);
            if is_first {
                // Whoever registers it has not seen that yet.
                self.registered(package, Some(Unregistered::yet()));
            }
        }
        announce(&self.in_use, in_use);
        found.owed |= is_moved;
        if self.settings.evaluator.opa().is_none() && std::mem::take(&mut found.owed) {
            self.tell_moved();
        }
        Ok(())
    }

    /// What is published, as that changes.
    pub(super) fn snapshots(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshot.subscribe()
    }

    /// Whether who follows placement is to be told once OPA has what is published now.
    pub(super) fn take_owed(&self) -> bool {
        std::mem::take(&mut self.found.lock().owed)
    }

    /// Tells who follows placement that it is asked by something else.
    pub(super) fn tell_moved(&self) {
        for (_, follower) in &*self.followers.read() {
            follower(Moved::Placement);
        }
    }

    /// Notes that OPA refuses these modules of `bundle`.
    pub(super) fn refused(&self, bundle: &Bundle, faults: BTreeMap<ModuleId, Vec<Fault>>) {
        let text = |id: &ModuleId| bundle.module(id).map(|module| module.text().clone());
        let found = faults.into_iter().filter_map(|(id, faults)| Some((id.clone(), (text(&id)?, faults))));
        self.found.lock().unfit.faults.extend(found);
    }

    /// Notes what keeps OPA from having what is in force, if anything.
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
        (self.check)(texts.to_vec()).await
    }

    fn packages(&self) -> Packages {
        self.settings.packages.clone()
    }

    fn faults(&self, bundle: &Bundle) -> Vec<Fault> {
        let (guard, found) = (self.mirror.read(), self.found.lock());
        let view = guard.view(self.clock.now());
        let mut faults = reading::faults(view, &self.settings, &found.too_large, bundle);
        faults.extend(found.unfit.of(bundle));
        faults
    }

    fn awaited(&self, bundle: &Bundle) -> BTreeMap<ModuleId, Vec<Awaited>> {
        let guard = self.mirror.read();
        plan::awaited(guard.view(self.clock.now()), &self.settings, bundle)
    }
}
