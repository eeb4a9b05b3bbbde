//! A state of the whole system: the hub, outstanding watch events, and the stored topology's controller.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use http::Request;
use policy_sync_controller::stored_topology::{PendingStatuses, PendingWrite, StatusWriteKey};
use policy_sync_mirror::Source;

use super::mirrors::TopologyMirror;
use crate::controller::{MirrorState, id_of};
use crate::hub::{Entry, Event, Hub};
use crate::state::RemainingEvents;

/// A request in flight.
pub(super) type InFlight = Arc<Request<Vec<u8>>>;

/// The phase of the key that builds and stores the graph.
#[derive(Clone)]
pub(super) enum Phase {
    Idle,
    /// A graph is to be built from these states of both mirrors.
    Started(Arc<MirrorState>, Arc<TopologyMirror>),
    /// Like `Started`, after the ConfigMap was read from a later state of the topology's mirror.
    ConfigMapRead(Arc<MirrorState>, Arc<TopologyMirror>, Arc<TopologyMirror>),
    /// The request for the ConfigMap is in flight.
    InFlight(InFlight),
}

/// The key that builds and stores the graph.
#[derive(Clone)]
pub(super) struct Build {
    pub(super) queued: bool,
    pub(super) phase: Phase,
    /// The version of the ConfigMap after the last write.
    pub(super) written: u64,
    /// The ConfigMap was written recently, so the next write has to wait.
    pub(super) recent: bool,
    /// The key waits until it may write again.
    pub(super) waits: bool,
}

/// A status that is being written.
#[derive(Clone)]
pub(super) struct Job {
    pub(super) write: PendingWrite,
    pub(super) stage: Stage,
}

/// The stage of a status write.
#[derive(Clone)]
pub(super) enum Stage {
    /// The route has not been read.
    Unread,
    /// The route as read; `None` if the route was gone.
    Read(Option<Entry>),
    /// The request for the status is in flight.
    InFlight(InFlight),
}

#[derive(Clone)]
pub(super) struct State {
    pub(super) hub: Arc<Hub>,
    pub(super) feeds: BTreeMap<Source, VecDeque<Event>>,
    pub(super) sync: Arc<MirrorState>,
    pub(super) own: Arc<TopologyMirror>,
    pub(super) pending: PendingStatuses,
    pub(super) build: Build,
    pub(super) queued_writes: BTreeSet<StatusWriteKey>,
    pub(super) jobs: BTreeMap<StatusWriteKey, Job>,
    /// Statuses that were queued again while they were written.
    pub(super) again: BTreeSet<StatusWriteKey>,
    /// Requests in flight that have timed out.
    pub(super) late: Vec<InFlight>,
    pub(super) remaining: RemainingEvents,
    /// The number of requests for each object, for rules.
    pub(super) writes: BTreeMap<String, usize>,
    /// Whether the last request was rejected; used only by a rule.
    pub(super) refused: bool,
}

impl State {
    /// A hash that is equal for states with equal futures; different states collide with a chance of one in
    /// 2^64.
    pub(super) fn id(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hub.digest.hash(&mut hasher);
        self.hub.versions.hash(&mut hasher);
        for (source, events) in &self.feeds {
            for Event { key, content, version } in events {
                (source, key, content.as_ref().map(|content| content.id), version).hash(&mut hasher);
            }
        }
        (self.sync.id, self.own.id).hash(&mut hasher);
        self.pending.hash(&mut hasher);
        let Build { queued, phase, written, recent, waits } = &self.build;
        (queued, written, recent, waits).hash(&mut hasher);
        match phase {
            Phase::Idle => 0.hash(&mut hasher),
            Phase::Started(sync, own) => (1, sync.id, own.id).hash(&mut hasher),
            Phase::ConfigMapRead(sync, own, later) => (2, sync.id, own.id, later.id).hash(&mut hasher),
            Phase::InFlight(request) => (3, id_of(request)).hash(&mut hasher),
        }
        self.queued_writes.hash(&mut hasher);
        for (turn, Job { write, stage }) in &self.jobs {
            (turn, write).hash(&mut hasher);
            match stage {
                Stage::Unread => 0.hash(&mut hasher),
                Stage::Read(found) => {
                    (1, found.as_ref().map(|entry| (entry.content.id, entry.version))).hash(&mut hasher);
                }
                Stage::InFlight(request) => (2, id_of(request)).hash(&mut hasher),
            }
        }
        self.again.hash(&mut hasher);
        self.late.iter().map(|late| id_of(late)).collect::<Vec<_>>().hash(&mut hasher);
        self.remaining.hash(&mut hasher);
        self.writes.hash(&mut hasher);
        hasher.finish()
    }
}
