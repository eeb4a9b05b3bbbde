//! A state of everything: the hub, what its watches have still to tell, and the capability.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use http::Request;
use policy_sync::stored_topology::{PendingStatuses, PendingWrite, Turn};
use policy_sync_mirror::Source;

use super::mirrors::Own;
use crate::controller::{Mind, id_of};
use crate::hub::{Entry, Event, Hub};
use crate::state::Left;

/// A request on its way.
pub(super) type Sending = Arc<Request<Vec<u8>>>;

/// How far the key of the graph has come.
#[derive(Clone)]
pub(super) enum Phase {
    Idle,
    /// A graph is about to be built of what both mirrors showed.
    Begun(Arc<Mind>, Arc<Own>),
    /// The same, and the ConfigMap was looked at in a later mirror.
    Looked(Arc<Mind>, Arc<Own>, Arc<Own>),
    /// The ConfigMap is written.
    Sending(Sending),
}

/// The key of the graph.
#[derive(Clone)]
pub(super) struct Build {
    pub(super) queued: bool,
    pub(super) phase: Phase,
    /// At which version the last write has left the ConfigMap.
    pub(super) written: u64,
    /// It was written a moment ago, and is not written again before some time has passed.
    pub(super) recent: bool,
    /// The key waits for that time.
    pub(super) waits: bool,
}

/// A turn that is taken.
#[derive(Clone)]
pub(super) struct Job {
    pub(super) write: PendingWrite,
    pub(super) stage: Stage,
}

/// How far it has come.
#[derive(Clone)]
pub(super) enum Stage {
    /// The route is to be read.
    Taken,
    /// It was, as it was then; `None` where it was gone.
    Read(Option<Entry>),
    /// The status is written.
    Sending(Sending),
}

#[derive(Clone)]
pub(super) struct State {
    pub(super) hub: Arc<Hub>,
    pub(super) feeds: BTreeMap<Source, VecDeque<Event>>,
    pub(super) sync: Arc<Mind>,
    pub(super) own: Arc<Own>,
    pub(super) pending: PendingStatuses,
    pub(super) build: Build,
    pub(super) turns: BTreeSet<Turn>,
    pub(super) jobs: BTreeMap<Turn, Job>,
    /// Turns that were queued while they were taken.
    pub(super) again: BTreeSet<Turn>,
    /// Requests on their way for which nobody waits any longer.
    pub(super) late: Vec<Sending>,
    pub(super) left: Left,
    /// How many requests were sent for each object, as far as rules count them.
    pub(super) writes: BTreeMap<String, usize>,
    /// Whether the last request was refused. Nothing depends on it but a rule.
    pub(super) refused: bool,
}

impl State {
    /// The same for two states that go on alike, but for a chance of one in 2^64.
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
            Phase::Begun(sync, own) => (1, sync.id, own.id).hash(&mut hasher),
            Phase::Looked(sync, own, later) => (2, sync.id, own.id, later.id).hash(&mut hasher),
            Phase::Sending(request) => (3, id_of(request)).hash(&mut hasher),
        }
        self.turns.hash(&mut hasher);
        for (turn, Job { write, stage }) in &self.jobs {
            (turn, write).hash(&mut hasher);
            match stage {
                Stage::Taken => 0.hash(&mut hasher),
                Stage::Read(found) => {
                    (1, found.as_ref().map(|entry| (entry.content.id, entry.version))).hash(&mut hasher);
                }
                Stage::Sending(request) => (2, id_of(request)).hash(&mut hasher),
            }
        }
        self.again.hash(&mut hasher);
        self.late.iter().map(|late| id_of(late)).collect::<Vec<_>>().hash(&mut hasher);
        self.left.hash(&mut hasher);
        self.writes.hash(&mut hasher);
        hasher.finish()
    }
}
