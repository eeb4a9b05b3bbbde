//! The mirror of the sync, and the mirror of the stored topology.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ControllerName, GroupVersionResource, ObjectKey};
use policy_sync_controller::stored_topology::{
    Index, PendingStatuses, StoredConfigMap, TopologyBuild, TopologySnapshot, is_affected, kinds,
};
use policy_sync_mirror::plurals::{self, ResolvedPlural};
use policy_sync_mirror::{Source, SourceEvent};
use policy_sync_sync::kinds::{needed, role_of};
use policy_sync_topology::rows::RouteKind;

use crate::controller::{CONTROLLER, Controller, MirrorEvent, MirrorState};
use crate::hub::{Entry, Event, Hub, Objects};
use crate::step::START;
use crate::world::SHOP;

/// The time, which is constant because nothing in these worlds depends on time.
pub(super) const NOW: Moment = START;

/// The key of the ConfigMap.
pub(super) fn config_map() -> ObjectKey {
    ObjectKey::new(SHOP, "topology")
}

/// The sources that the topology's mirror watches in these worlds.
pub(super) fn own_sources() -> [Source; 3] {
    [kinds::GATEWAYS.all(), kinds::source(RouteKind::Http), kinds::config_map(&config_map())]
}

/// A state of the topology's mirror.
pub(super) struct TopologyMirror {
    /// A hash of the objects and versions that this mirror shows.
    pub(super) id: u64,
    pub(super) mirror: policy_sync_mirror::Mirror<Index>,
    shown: Objects,
    versions: BTreeMap<Source, u64>,
}

impl TopologyMirror {
    fn new(
        mirror: policy_sync_mirror::Mirror<Index>,
        shown: Objects,
        versions: BTreeMap<Source, u64>,
    ) -> Arc<Self> {
        let mut hasher = DefaultHasher::new();
        for (place, entry) in &shown {
            (place, entry.content.id, entry.version).hash(&mut hasher);
        }
        versions.hash(&mut hasher);
        Arc::new(Self { id: hasher.finish(), mirror, shown, versions })
    }

    /// The ConfigMap in this mirror.
    pub(super) fn stored(&self) -> Option<StoredConfigMap> {
        self.mirror.read().view(NOW).stored(&config_map()).cloned()
    }

    /// The latest version of the ConfigMap that this mirror has seen.
    pub(super) fn config_map_version(&self) -> u64 {
        self.versions[&kinds::config_map(&config_map())]
    }
}

/// All mirrors, and the memoized outcomes of their graphs.
pub(super) struct Mirrors {
    pub(super) name: ControllerName,
    pub(super) sync: Controller,
    outcomes: HashMap<(usize, u64), Arc<TopologyBuild>>,
    own: BTreeSet<u64>,
}

impl Mirrors {
    pub(super) fn new() -> Self {
        let name = ControllerName::new(CONTROLLER);
        Self { name, sync: Controller::new(), outcomes: HashMap::new(), own: BTreeSet::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.own.len()
    }

    /// A newly started sync mirror, and the sources that it watches.
    pub(super) fn boot_sync(
        &mut self,
        hub: &Hub,
        plurals: &BTreeMap<&'static str, &'static str>,
    ) -> (Arc<MirrorState>, BTreeSet<Source>) {
        let mut mirror_state = self.sync.empty_mirror();
        let mut listed = BTreeSet::new();
        let mut wanted: Vec<Source> = needed().collect();
        loop {
            for source in wanted.drain(..) {
                self.list_sync(&mut mirror_state, hub, &source);
                listed.insert(source);
            }
            for (source, gvr) in self.sync.wanted(&mirror_state).iter() {
                if listed.contains(source) {
                    continue;
                }
                if let Some(kind) = plurals.get(&*gvr.kind.resource).filter(|_| role_of(source).is_some()) {
                    self.report_to_sync(&mut mirror_state, &MirrorEvent::Resolved(gvr.clone(), kind));
                }
                wanted.push(source.clone());
            }
            if wanted.is_empty() {
                return (mirror_state, listed);
            }
        }
    }

    /// Lists `source` again; returns whether the topology may have changed.
    pub(super) fn list_sync(
        &mut self,
        mirror_state: &mut Arc<MirrorState>,
        hub: &Hub,
        source: &Source,
    ) -> bool {
        let mut affects_topology =
            self.report_to_sync(mirror_state, &MirrorEvent::ListStarted(source.clone()));
        for (key, entry) in hub.listed(&stored_source(source)) {
            affects_topology |=
                self.report_to_sync(mirror_state, &MirrorEvent::Object(source.clone(), key, entry));
        }
        affects_topology
            | self.report_to_sync(
                mirror_state,
                &MirrorEvent::ListEnded(source.clone(), hub.version(&stored_source(source))),
            )
    }

    fn report_to_sync(&mut self, mirror_state: &mut Arc<MirrorState>, reported: &MirrorEvent) -> bool {
        let update = self.sync.report_event(mirror_state, reported, NOW);
        *mirror_state = update.mirror_state;
        update.affects_topology
    }

    /// Delivers an event to the sync's mirror; returns whether the topology may have changed.
    pub(super) fn report_event_to_sync(
        &mut self,
        mirror_state: &mut Arc<MirrorState>,
        source: &Source,
        event: Event,
    ) -> bool {
        let Event { key, content, version } = event;
        let reported = match content {
            Some(content) => MirrorEvent::Object(source.clone(), key, Entry { content, version }),
            None => MirrorEvent::Deleted(source.clone(), key, version),
        };
        self.report_to_sync(mirror_state, &reported)
    }

    /// A newly started topology mirror.
    pub(super) fn boot_own(&mut self, hub: &Hub) -> Arc<TopologyMirror> {
        let mirror = policy_sync_mirror::Mirror::new(self.name.clone());
        for plural in kinds::plurals() {
            let served = if plural.starts_with("httproutes.") {
                ResolvedPlural::Resource(http_routes())
            } else {
                ResolvedPlural::NotServed
            };
            mirror.change(plurals::resolution(&plural, served), NOW);
        }
        let mut own = TopologyMirror::new(mirror, Objects::new(), BTreeMap::new());
        for source in own_sources() {
            own = self.list_own(&own, hub, &source, &mut PendingStatuses::default()).0;
        }
        own
    }

    /// Lists `source` again; returns whether the graph has to be rebuilt.
    pub(super) fn list_own(
        &mut self,
        own: &Arc<TopologyMirror>,
        hub: &Hub,
        source: &Source,
        pending: &mut PendingStatuses,
    ) -> (Arc<TopologyMirror>, bool) {
        let mirror = own.mirror.clone();
        let (mut shown, mut versions) = (own.shown.clone(), own.versions.clone());
        mirror.begin_resync(source);
        shown.retain(|(of, _), _| of != source);
        let mut affected = false;
        for (key, entry) in hub.listed(source) {
            let (row, version) = (entry.content.row(source, &self.name), entry.version);
            shown.insert((source.clone(), key.clone()), entry);
            let change = SourceEvent::Applied { source: source.clone(), key, version, row };
            affected |= is_affected(&mirror.change(change, NOW), pending, &config_map());
        }
        versions.insert(source.clone(), hub.version(source));
        let ended = mirror.end_resync(source, hub.version(source), NOW);
        affected |= is_affected(&ended, pending, &config_map());
        drop(ended);
        (self.known(mirror, shown, versions), affected)
    }

    /// Delivers an event to the topology's mirror; returns whether the graph has to be rebuilt.
    pub(super) fn report_to_topology(
        &mut self,
        own: &Arc<TopologyMirror>,
        source: &Source,
        event: Event,
        pending: &mut PendingStatuses,
    ) -> (Arc<TopologyMirror>, bool) {
        let mirror = own.mirror.clone();
        let (mut shown, mut versions) = (own.shown.clone(), own.versions.clone());
        let (source, Event { key, content, version }) = (source.clone(), event);
        versions.insert(source.clone(), version);
        let change = match content {
            Some(content) => {
                let row = content.row(&source, &self.name);
                shown.insert((source.clone(), key.clone()), Entry { content, version });
                SourceEvent::Applied { source, key, version, row }
            }
            None => {
                shown.remove(&(source.clone(), key.clone()));
                SourceEvent::Deleted { source, key, version }
            }
        };
        let affected = is_affected(&mirror.change(change, NOW), pending, &config_map());
        (self.known(mirror, shown, versions), affected)
    }

    fn known(
        &mut self,
        mirror: policy_sync_mirror::Mirror<Index>,
        shown: Objects,
        versions: BTreeMap<Source, u64>,
    ) -> Arc<TopologyMirror> {
        let own = TopologyMirror::new(mirror, shown, versions);
        self.own.insert(own.id);
        own
    }

    /// The text and statuses of a graph built from both mirrors.
    pub(super) fn outcome(&mut self, sync: &MirrorState, own: &TopologyMirror) -> Arc<TopologyBuild> {
        let build = || {
            let (lends, knows) = (sync.mirror.read(), own.mirror.read());
            let snapshot = TopologySnapshot::take(lends.view(NOW), knows.view(NOW)).unwrap();
            Arc::new(snapshot.build(true, |_| true).unwrap())
        };
        self.outcomes.entry((sync.id, own.id)).or_insert_with(build).clone()
    }
}

/// The served version of HTTPRoutes.
pub(super) fn http_routes() -> GroupVersionResource {
    GroupVersionResource::new("gateway.networking.k8s.io", "v1", "httproutes")
}

/// The source under which the hub stores the objects that `source` watches.
pub(super) fn stored_source(source: &Source) -> Source {
    if *source == policy_sync_sync::kinds::GATEWAYS.all() { kinds::GATEWAYS.all() } else { source.clone() }
}
