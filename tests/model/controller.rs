//! The controller's memory (a mirror after some sequence of events) and its decision for each key.
//!
//! Results are memoized: the same mirror after the same event is the same mirror again, so that most steps of
//! the exploration are look-ups.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use http::Request;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, ControllerName, GroupResource, GroupVersionResource, ObjectKey};
use policy_sync_controller::sync::write::decide::{self, Decision};
use policy_sync_controller::sync::write::{OwnWrites, crossed, objects, works};
use policy_sync_mirror::{Change, Source, Wanted};
use policy_sync_sync::delete_guard::Read;
use policy_sync_sync::desired::watches;
use policy_sync_sync::diff::WorkAction;
use policy_sync_sync::kinds::role_of;
use policy_sync_sync::rows::kind::{KindInfo, Resolution};
use policy_sync_sync::rows::schema::WorkSchema;
use policy_sync_sync::status::gateway::GatewayFold;
use policy_sync_sync::status::policy::Fold;
use policy_sync_sync::topology;
use policy_sync_sync::triggers::affected;
use policy_sync_sync::{Key, Keys, Mirror, Settings, found};

use crate::facts::{self, Place};
use crate::fingerprint::fingerprint;
use crate::hub::{Entry, Objects};

/// The name of the controller.
pub(crate) const CONTROLLER: &str = "kuadrant.io/policy-sync";

/// A change that a watch reports to the mirror.
#[derive(Clone, Debug)]
pub(crate) enum Told {
    Begin(Source),
    Object(Source, ObjectKey, Entry),
    Gone(Source, ObjectKey, u64),
    End(Source, u64),
    Resolved(GroupVersionResource, &'static str),
    Forget(Source),
}

/// The sources of a mirror, each with the keys that an unfinished list has brought so far.
pub(crate) type Listings = BTreeMap<Source, Option<BTreeSet<ObjectKey>>>;

/// A mirror, shared by all states with an equal one.
pub(crate) struct Mind {
    pub(crate) id: usize,
    /// A hash of all that affects decisions, except times.
    pub(crate) shape: u64,
    /// The time from which each Placement counts as settled.
    pub(crate) settles: BTreeMap<ObjectKey, Moment>,
    pub(crate) mirror: Mirror,
    /// The objects reported to the mirror, as of the report.
    pub(crate) shown: Objects,
    /// The sources, each with the keys that an unfinished list has brought so far.
    listing: Listings,
    wanted: OnceLock<BTreeSet<Place>>,
}

impl Mind {
    /// The correct places of Gateways, policies and resources according to the reported objects.
    pub(crate) fn wanted(&self) -> &BTreeSet<Place> {
        self.wanted.get_or_init(|| facts::wanted(&self.shown))
    }

    /// Whether the parameters and, if these include it, `kind` have been listed.
    pub(crate) fn has_heard_of(&self, kind: &GroupResource) -> bool {
        let guard = self.mirror.read();
        let view = guard.view(Moment::default());
        let of_kind = |source: &Source| role_of(source).is_none_or(|(_, found)| found == kind);
        let wanted = watches::plan(view).into_keys().filter(of_kind);
        wanted.into_iter().all(|source| view.synced(&source).is_some())
    }
}

/// A request and its purpose.
#[derive(Clone, Debug)]
pub(crate) struct Sending {
    pub(crate) what: What,
    pub(crate) request: Arc<Request<Vec<u8>>>,
    pub(crate) id: u64,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    Work(WorkAction),
    /// Annotations of a policy, or labels, annotation or status of a Gateway.
    Annotations,
}

impl Sending {
    fn new(what: What, request: Result<Request<Vec<u8>>, kube::core::request::Error>) -> Self {
        let request = request.unwrap();
        Self { what, id: id_of(&request), request: Arc::new(request) }
    }

    pub(crate) fn work(&self) -> Option<&WorkAction> {
        match &self.what {
            What::Work(action) => Some(action),
            What::Annotations => None,
        }
    }
}

/// A hash that identifies the request.
pub(crate) fn id_of(request: &Request<Vec<u8>>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (request.method(), request.uri(), request.body()).hash(&mut hasher);
    hasher.finish()
}

/// The decision for a key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Decided {
    pub(crate) writes: Vec<Sending>,
    pub(crate) deletes: Vec<Sending>,
    pub(crate) reads: BTreeSet<Read>,
    pub(crate) recheck: Option<Moment>,
    /// The key waits for the watch to show its own last write.
    pub(crate) waits: bool,
    /// A Gateway's key must be queued because its work may now be created.
    pub(crate) comes: bool,
    pub(crate) own: OwnWrites,
}

impl Decided {
    fn of(decision: Decision, own: OwnWrites) -> Self {
        let reads = decision.deletes.iter().flat_map(|delete| delete.reads.iter().cloned()).collect();
        let deletes = decision.deletes.into_iter().map(|delete| delete.action).collect();
        let sending = |actions: Vec<WorkAction>| {
            let sending =
                |action| Sending::new(What::Work(WorkAction::clone(&action)), works::request(&action));
            actions.into_iter().map(sending).collect()
        };
        Self {
            writes: sending(decision.writes),
            deletes: sending(deletes),
            reads,
            recheck: decision.recheck,
            waits: false,
            comes: false,
            own,
        }
    }
}

/// The result of reporting a change to a mirror.
#[derive(Clone)]
pub(crate) struct Heard {
    pub(crate) mind: Arc<Mind>,
    /// The affected keys.
    pub(crate) keys: Keys,
    /// Whether the change can affect the topology.
    pub(crate) bears: bool,
}

/// The inputs of a decision: mind, key, its own writes, time, and clusters with crossing writes of other
/// keys.
type Question = (usize, Key, OwnWrites, Moment, BTreeSet<ClusterName>);

/// Memoizes all minds of the exploration, and their decisions.
pub(crate) struct Controller {
    pub(crate) name: ControllerName,
    settings: Settings,
    minds: HashMap<u64, Arc<Mind>>,
    told: HashMap<(usize, u64), Heard>,
    decided: HashMap<Question, Arc<Decided>>,
    wanted: HashMap<usize, Arc<Wanted>>,
}

impl Controller {
    pub(crate) fn new() -> Self {
        Self {
            name: ControllerName::new(CONTROLLER),
            settings: Settings::default(),
            minds: HashMap::new(),
            told: HashMap::new(),
            decided: HashMap::new(),
            wanted: HashMap::new(),
        }
    }

    /// An empty mirror.
    pub(crate) fn newborn(&mut self) -> Arc<Mind> {
        let mirror = Mirror::new(self.name.clone());
        mirror.change(found::work_schema(WorkSchema::FULL), Moment::default());
        self.known(mirror, Objects::new(), Listings::new())
    }

    /// The mirror after `mind` receives a change, and the affected keys.
    pub(crate) fn tell(&mut self, mind: &Arc<Mind>, told: &Told, now: Moment) -> Heard {
        let memo = (mind.id, hash(told, now));
        if let Some(known) = self.told.get(&memo) {
            return known.clone();
        }
        let mirror = mind.mirror.clone();
        let (mut shown, mut listing) = (mind.shown.clone(), mind.listing.clone());
        let changes = match told.clone() {
            Told::Begin(source) => {
                mirror.begin_resync(&source);
                listing.insert(source, Some(BTreeSet::new()));
                None
            }
            Told::Object(source, key, entry) => {
                let (version, row) = (entry.version, entry.content.row(&source, &self.name));
                if let Some(Some(brought)) = listing.get_mut(&source) {
                    brought.insert(key.clone());
                }
                shown.insert((source.clone(), key.clone()), entry);
                Some(mirror.change(Change::Applied { source, key, version, row }, now))
            }
            Told::Gone(source, key, version) => {
                shown.remove(&(source.clone(), key.clone()));
                Some(mirror.change(Change::Deleted { source, key, version }, now))
            }
            Told::End(source, version) => {
                let brought = listing.insert(source.clone(), None).flatten().unwrap_or_default();
                shown.retain(|(of, key), _| *of != source || brought.contains(key));
                Some(mirror.end_resync(&source, version, now))
            }
            Told::Resolved(gvr, kind) => {
                let info = KindInfo::named(kind);
                Some(mirror.change(found::resolved(&gvr, Resolution::Resolved(info)), now))
            }
            Told::Forget(source) => {
                shown.retain(|(of, _), _| *of != source);
                listing.remove(&source);
                Some(mirror.forget(&source, now))
            }
        };
        let keys = changes.as_ref().map(affected).unwrap_or_default();
        let bears = changes.as_ref().is_some_and(|changes| {
            changes.iter().any(|changed| topology::affects_topology(changes.view(), changed))
        });
        drop(changes);
        let heard = Heard { mind: self.known(mirror, shown, listing), keys, bears };
        self.told.insert(memo, heard.clone());
        heard
    }

    fn known(&mut self, mirror: Mirror, shown: Objects, listing: Listings) -> Arc<Mind> {
        let (shape, exact, settles) = fingerprint(&mirror, &shown, &listing);
        let id = self.minds.len();
        self.minds
            .entry(exact)
            .or_insert_with(|| {
                Arc::new(Mind { id, shape, settles, mirror, shown, listing, wanted: OnceLock::new() })
            })
            .clone()
    }

    /// The decision of `mind` for `key`; `all` has the writes of every key that are not yet visible.
    pub(crate) fn decide(
        &mut self,
        mind: &Mind,
        key: &Key,
        own: &OwnWrites,
        all: &BTreeMap<Key, OwnWrites>,
        now: Moment,
    ) -> Arc<Decided> {
        // Once every Placement has settled, the time no longer matters.
        let now = now.min(mind.settles.values().copied().max().unwrap_or_default());
        let guard = mind.mirror.read();
        let view = guard.view(now);
        let crossed = match key {
            Key::Works(origin) => {
                all.iter().flat_map(|(other, own)| crossed(view, origin, other, own)).collect()
            }
            _ => BTreeSet::new(),
        };
        let memo = (mind.id, key.clone(), own.clone(), now, crossed.clone());
        if let Some(decided) = self.decided.get(&memo) {
            return decided.clone();
        }
        let mut own = own.clone();
        let decided = match key {
            Key::Works(origin) => {
                let decision = decide::works(view, &self.settings, &mut own, origin, || crossed);
                Decided::of(decision, own)
            }
            Key::Access(cluster) => {
                let decision = decide::access(view, &mut own, cluster);
                Decided::of(decision, own)
            }
            Key::Fold(origin) if origin.as_gateway().is_some() => {
                let key = origin.object();
                let plan = decide::gateway(view, &self.settings, &mut own, key);
                let mut decided = Decided { waits: plan.is_none(), own, ..Decided::default() };
                let GatewayFold { uid, metadata, status, parting, recheck, comes, .. } =
                    plan.unwrap_or_default();
                decided.comes = comes;
                decided.recheck = recheck;
                let manager = self.name.hub_field_manager();
                let metadata = metadata.map(|metadata| objects::labelling(&manager, key, &uid, &metadata));
                let status = status.map(|status| objects::telling(&manager, key, &uid, &status));
                let parting = parting.map(|conditions| objects::parting(&manager, key, &uid, &conditions));
                let first = metadata.or(status).or(parting);
                decided.writes.extend(first.map(|request| Sending::new(What::Annotations, request)));
                decided
            }
            Key::Fold(origin) => {
                let fold = decide::fold(view, &self.settings, &mut own, origin);
                let comes = fold.as_ref().is_some_and(|plan| plan.comes);
                let mut decided = Decided { waits: fold.is_none(), comes, own, ..Decided::default() };
                if let Some(Fold::Write { gvr, kind, uid, annotations }) = fold.map(|plan| plan.fold) {
                    let manager = self.name.hub_field_manager();
                    let request = objects::annotating(&manager, (&gvr, &kind), origin, &uid, &annotations);
                    decided.writes.push(Sending::new(What::Annotations, request));
                }
                decided
            }
            Key::Watches | Key::Class(_) => Decided::default(),
        };
        let decided = Arc::new(decided);
        self.decided.insert(memo, decided.clone());
        decided
    }

    /// The sources that `mind` needs to watch.
    pub(crate) fn wanted(&mut self, mind: &Mind) -> Arc<Wanted> {
        let plan = || Arc::new(watches::plan(mind.mirror.read().view(Moment::default())));
        self.wanted.entry(mind.id).or_insert_with(plan).clone()
    }

    /// The number of different mirrors so far.
    pub(crate) fn mirrors(&self) -> usize {
        self.minds.len()
    }
}

fn hash(told: &Told, now: Moment) -> u64 {
    let mut hasher = DefaultHasher::new();
    now.hash(&mut hasher);
    std::mem::discriminant(told).hash(&mut hasher);
    match told {
        Told::Begin(source) | Told::Forget(source) => source.hash(&mut hasher),
        Told::Object(source, key, entry) => (source, key, entry.content.id, entry.version).hash(&mut hasher),
        Told::Gone(source, key, version) => (source, key, version).hash(&mut hasher),
        Told::End(source, version) => (source, version).hash(&mut hasher),
        Told::Resolved(gvr, _) => gvr.hash(&mut hasher),
    }
    hasher.finish()
}
