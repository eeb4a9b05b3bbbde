//! The controller's memory (a mirror after some sequence of events) and its decision for each key.
//!
//! Results are memoized: the same event changes equal mirrors in the same way. So most steps of the exploration
//! are look-ups.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use http::Request;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, ControllerName, GroupResource, GroupVersionResource, ObjectKey};
use policy_sync_controller::sync::write::decide::{self, Decision};
use policy_sync_controller::sync::write::{OwnWrites, conflicting_clusters, objects, works};
use policy_sync_mirror::{Source, SourceEvent, WatchedSources};
use policy_sync_sync::delete_guard::Precondition;
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

use crate::facts::{self, OriginOnCluster};
use crate::fingerprint::fingerprint;
use crate::hub::{Entry, Objects};

/// The name of the controller.
pub(crate) const CONTROLLER: &str = "kuadrant.io/policy-sync";

/// A change that a watch reports to the mirror.
#[derive(Clone, Debug)]
pub(crate) enum MirrorEvent {
    ListStarted(Source),
    Object(Source, ObjectKey, Entry),
    Deleted(Source, ObjectKey, u64),
    ListEnded(Source, u64),
    Resolved(GroupVersionResource, &'static str),
    SourceRemoved(Source),
}

/// The sources of a mirror. While a source is listed, its value has the keys that the list has brought so far. After
/// the list, its value is `None`.
pub(crate) type Listings = BTreeMap<Source, Option<BTreeSet<ObjectKey>>>;

/// A mirror. All states with equal mirrors share this value.
pub(crate) struct MirrorState {
    pub(crate) id: usize,
    /// A hash of all that affects decisions, except times.
    pub(crate) shape: u64,
    /// For each Placement and each class, the time from which decisions no longer depend on time.
    pub(crate) settles: BTreeMap<ObjectKey, Moment>,
    pub(crate) mirror: Mirror,
    /// The objects in the versions that the watches have last reported to the mirror.
    pub(crate) shown: Objects,
    listing: Listings,
    wanted: OnceLock<BTreeSet<OriginOnCluster>>,
}

impl MirrorState {
    /// The Gateways, policies and resources that should have works, each with its cluster, according to the reported
    /// objects.
    pub(crate) fn wanted(&self) -> &BTreeSet<OriginOnCluster> {
        self.wanted.get_or_init(|| facts::wanted(&self.shown))
    }

    /// Whether the parameters have been listed and, if the parameters include `kind`, whether `kind` has been listed.
    pub(crate) fn has_listed(&self, kind: &GroupResource) -> bool {
        let guard = self.mirror.read();
        let view = guard.view(Moment::default());
        let of_kind = |source: &Source| role_of(source).is_none_or(|(_, found)| found == kind);
        let wanted = watches::plan(view).into_keys().filter(of_kind);
        wanted.into_iter().all(|source| view.synced(&source).is_some())
    }
}

/// A request, with the kind of change that it makes.
#[derive(Clone, Debug)]
pub(crate) struct PendingRequest {
    pub(crate) purpose: RequestPurpose,
    pub(crate) request: Arc<Request<Vec<u8>>>,
    pub(crate) id: u64,
}

#[derive(Clone, Debug)]
pub(crate) enum RequestPurpose {
    Work(WorkAction),
    /// Annotations of a policy, or labels, annotation or status of a Gateway.
    Annotations,
}

impl PendingRequest {
    fn new(purpose: RequestPurpose, request: Result<Request<Vec<u8>>, kube::core::request::Error>) -> Self {
        let request = request.unwrap();
        Self { purpose, id: id_of(&request), request: Arc::new(request) }
    }

    pub(crate) fn work(&self) -> Option<&WorkAction> {
        match &self.purpose {
            RequestPurpose::Work(action) => Some(action),
            RequestPurpose::Annotations => None,
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
pub(crate) struct KeyDecision {
    pub(crate) writes: Vec<PendingRequest>,
    pub(crate) deletes: Vec<PendingRequest>,
    pub(crate) reads: BTreeSet<Precondition>,
    pub(crate) recheck: Option<Moment>,
    /// The key waits for the watch to show the last write of the key.
    pub(crate) waits: bool,
    /// A Gateway's key must be queued because its work may now be created.
    pub(crate) replan_works: bool,
    pub(crate) own: OwnWrites,
}

impl KeyDecision {
    fn of(decision: Decision, own: OwnWrites) -> Self {
        let reads = decision.deletes.iter().flat_map(|delete| delete.reads.iter().cloned()).collect();
        let deletes = decision.deletes.into_iter().map(|delete| delete.action).collect();
        let sending = |actions: Vec<WorkAction>| {
            let sending = |action| {
                PendingRequest::new(RequestPurpose::Work(WorkAction::clone(&action)), works::request(&action))
            };
            actions.into_iter().map(sending).collect()
        };
        Self {
            writes: sending(decision.writes),
            deletes: sending(deletes),
            reads,
            recheck: decision.recheck,
            waits: false,
            replan_works: false,
            own,
        }
    }
}

/// The result of reporting a change to a mirror.
#[derive(Clone)]
pub(crate) struct MirrorUpdate {
    pub(crate) mirror_state: Arc<MirrorState>,
    /// The affected keys.
    pub(crate) keys: Keys,
    /// Whether the change can affect the topology.
    pub(crate) affects_topology: bool,
}

/// The inputs of a decision: the id of the mirror state, the key, the key's own writes, the time, and the clusters with
/// crossing writes of other keys.
type DecisionInputs = (usize, Key, OwnWrites, Moment, BTreeSet<ClusterName>);

/// Memoizes all mirror states of the exploration, and their decisions.
pub(crate) struct Controller {
    pub(crate) name: ControllerName,
    settings: Settings,
    mirror_states: HashMap<u64, Arc<MirrorState>>,
    reported: HashMap<(usize, u64), MirrorUpdate>,
    decided: HashMap<DecisionInputs, Arc<KeyDecision>>,
    wanted: HashMap<usize, Arc<WatchedSources>>,
}

impl Controller {
    pub(crate) fn new() -> Self {
        Self {
            name: ControllerName::new(CONTROLLER),
            settings: Settings::default(),
            mirror_states: HashMap::new(),
            reported: HashMap::new(),
            decided: HashMap::new(),
            wanted: HashMap::new(),
        }
    }

    /// An empty mirror.
    pub(crate) fn empty_mirror(&mut self) -> Arc<MirrorState> {
        let mirror = Mirror::new(self.name.clone());
        mirror.change(found::work_schema(WorkSchema::FULL), Moment::default());
        self.known(mirror, Objects::new(), Listings::new())
    }

    /// The mirror after `mirror_state` receives a change, and the affected keys.
    pub(crate) fn report_event(
        &mut self,
        mirror_state: &Arc<MirrorState>,
        reported: &MirrorEvent,
        now: Moment,
    ) -> MirrorUpdate {
        let memo = (mirror_state.id, hash(reported, now));
        if let Some(known) = self.reported.get(&memo) {
            return known.clone();
        }
        let mirror = mirror_state.mirror.clone();
        let (mut shown, mut listing) = (mirror_state.shown.clone(), mirror_state.listing.clone());
        let changes = match reported.clone() {
            MirrorEvent::ListStarted(source) => {
                mirror.begin_resync(&source);
                listing.insert(source, Some(BTreeSet::new()));
                None
            }
            MirrorEvent::Object(source, key, entry) => {
                let (version, row) = (entry.version, entry.content.row(&source, &self.name));
                if let Some(Some(brought)) = listing.get_mut(&source) {
                    brought.insert(key.clone());
                }
                shown.insert((source.clone(), key.clone()), entry);
                Some(mirror.change(SourceEvent::Applied { source, key, version, row }, now))
            }
            MirrorEvent::Deleted(source, key, version) => {
                shown.remove(&(source.clone(), key.clone()));
                Some(mirror.change(SourceEvent::Deleted { source, key, version }, now))
            }
            MirrorEvent::ListEnded(source, version) => {
                let brought = listing.insert(source.clone(), None).flatten().unwrap_or_default();
                shown.retain(|(of, key), _| *of != source || brought.contains(key));
                Some(mirror.end_resync(&source, version, now))
            }
            MirrorEvent::Resolved(gvr, kind) => {
                let info = KindInfo::named(kind);
                Some(mirror.change(found::resolved(&gvr, Resolution::Resolved(info)), now))
            }
            MirrorEvent::SourceRemoved(source) => {
                shown.retain(|(of, _), _| *of != source);
                listing.remove(&source);
                Some(mirror.forget(&source, now))
            }
        };
        let keys = changes.as_ref().map(affected).unwrap_or_default();
        let affects_topology = changes.as_ref().is_some_and(|changes| {
            changes.iter().any(|changed| topology::affects_topology(changes.view(), changed))
        });
        drop(changes);
        let update =
            MirrorUpdate { mirror_state: self.known(mirror, shown, listing), keys, affects_topology };
        self.reported.insert(memo, update.clone());
        update
    }

    fn known(&mut self, mirror: Mirror, shown: Objects, listing: Listings) -> Arc<MirrorState> {
        let (shape, exact, settles) = fingerprint(&mirror, &shown, &listing);
        let id = self.mirror_states.len();
        self.mirror_states
            .entry(exact)
            .or_insert_with(|| {
                Arc::new(MirrorState { id, shape, settles, mirror, shown, listing, wanted: OnceLock::new() })
            })
            .clone()
    }

    /// The decision for `key` with the state of the mirror. `all` has the writes of every key that the mirror does not
    /// show yet.
    pub(crate) fn decide(
        &mut self,
        mirror_state: &MirrorState,
        key: &Key,
        own: &OwnWrites,
        all: &BTreeMap<Key, OwnWrites>,
        now: Moment,
    ) -> Arc<KeyDecision> {
        // After the last of these times, decisions no longer depend on time.
        let now = now.min(mirror_state.settles.values().copied().max().unwrap_or_default());
        let guard = mirror_state.mirror.read();
        let view = guard.view(now);
        let conflicting_clusters = match key {
            Key::Works(origin) => {
                all.iter().flat_map(|(other, own)| conflicting_clusters(view, origin, other, own)).collect()
            }
            _ => BTreeSet::new(),
        };
        let memo = (mirror_state.id, key.clone(), own.clone(), now, conflicting_clusters.clone());
        if let Some(decided) = self.decided.get(&memo) {
            return decided.clone();
        }
        let mut own = own.clone();
        let decided = match key {
            Key::Works(origin) => {
                let decision = decide::works(view, &self.settings, &mut own, origin, || conflicting_clusters);
                KeyDecision::of(decision, own)
            }
            Key::Access(cluster) => {
                let decision = decide::access(view, &mut own, cluster);
                KeyDecision::of(decision, own)
            }
            Key::Fold(origin) if origin.as_gateway().is_some() => {
                let key = origin.object();
                let plan = decide::gateway(view, &self.settings, &mut own, key);
                let mut decided = KeyDecision { waits: plan.is_none(), own, ..KeyDecision::default() };
                let GatewayFold { uid, metadata, status, final_conditions, recheck, replan_works, .. } =
                    plan.unwrap_or_default();
                decided.replan_works = replan_works;
                decided.recheck = recheck;
                let manager = self.name.hub_field_manager();
                let metadata =
                    metadata.map(|metadata| objects::label_request(&manager, key, &uid, &metadata));
                let status =
                    status.map(|status| objects::gateway_status_request(&manager, key, &uid, &status));
                let parting = final_conditions
                    .map(|conditions| objects::clear_status_request(&manager, key, &uid, &conditions));
                let first = metadata.or(status).or(parting);
                decided
                    .writes
                    .extend(first.map(|request| PendingRequest::new(RequestPurpose::Annotations, request)));
                decided
            }
            Key::Fold(origin) => {
                let fold = decide::fold(view, &self.settings, &mut own, origin);
                let replan_works = fold.as_ref().is_some_and(|plan| plan.replan_works);
                let mut decided =
                    KeyDecision { waits: fold.is_none(), replan_works, own, ..KeyDecision::default() };
                if let Some(Fold::Write { gvr, kind, uid, annotations }) = fold.map(|plan| plan.fold) {
                    let manager = self.name.hub_field_manager();
                    let request =
                        objects::annotate_request(&manager, (&gvr, &kind), origin, &uid, &annotations);
                    decided.writes.push(PendingRequest::new(RequestPurpose::Annotations, request));
                }
                decided
            }
            Key::Watches | Key::Class(_) => KeyDecision::default(),
        };
        let decided = Arc::new(decided);
        self.decided.insert(memo, decided.clone());
        decided
    }

    /// The sources that `mirror_state` needs to watch.
    pub(crate) fn wanted(&mut self, mirror_state: &MirrorState) -> Arc<WatchedSources> {
        let plan = || Arc::new(watches::plan(mirror_state.mirror.read().view(Moment::default())));
        self.wanted.entry(mirror_state.id).or_insert_with(plan).clone()
    }

    /// The number of different mirrors so far.
    pub(crate) fn mirrors(&self) -> usize {
        self.mirror_states.len()
    }
}

fn hash(reported: &MirrorEvent, now: Moment) -> u64 {
    let mut hasher = DefaultHasher::new();
    now.hash(&mut hasher);
    std::mem::discriminant(reported).hash(&mut hasher);
    match reported {
        MirrorEvent::ListStarted(source) | MirrorEvent::SourceRemoved(source) => source.hash(&mut hasher),
        MirrorEvent::Object(source, key, entry) => {
            (source, key, entry.content.id, entry.version).hash(&mut hasher)
        }
        MirrorEvent::Deleted(source, key, version) => (source, key, version).hash(&mut hasher),
        MirrorEvent::ListEnded(source, version) => (source, version).hash(&mut hasher),
        MirrorEvent::Resolved(gvr, _) => gvr.hash(&mut hasher),
    }
    hasher.finish()
}
