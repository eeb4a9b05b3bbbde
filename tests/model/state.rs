//! A state of the whole system: the hub, outstanding watch events, and the controller.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};

use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ControllerName, ObjectKey, Origin};
use policy_sync_controller::sync::write::{OwnWrites, UndeliveredWrite};
use policy_sync_mirror::Source;
use policy_sync_sync::delete_guard::Precondition;
use policy_sync_sync::kinds::WORKS;
use policy_sync_sync::rows::cluster::Decision;
use policy_sync_sync::{Key, PLACEMENT_SETTLE_TIME, WorkKey};

use crate::controller::{CONTROLLER, MirrorState, PendingRequest};
use crate::hub::{Entry, Event, Hub};
use crate::step::STATUS_WINDOW;
use crate::world::World;

/// The list and watch of one source.
#[derive(Clone, Debug, Default)]
pub(crate) struct Feed {
    /// Events that have not been delivered.
    pub(crate) events: VecDeque<Event>,
    pub(crate) listing: ListState,
}

#[derive(Clone, Debug, Default)]
pub(crate) enum ListState {
    /// The list has not started.
    #[default]
    Unlisted,
    /// The first page was delivered; contains the remaining objects and the version of the list.
    Pages(VecDeque<(ObjectKey, Entry)>, u64),
    /// Listed and watched.
    Done,
}

/// A key that is being processed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Job {
    /// Requests in flight.
    pub(crate) in_flight: Vec<PendingRequest>,
    /// Deletes to be sent once the hub confirms their causes.
    pub(crate) unconfirmed_deletes: Vec<PendingRequest>,
    pub(crate) reads: BTreeSet<Precondition>,
    /// Completed writes. They count only once the job is done.
    pub(crate) written: Vec<(WorkKey, UndeliveredWrite)>,
    pub(crate) annotated: Option<u64>,
    pub(crate) failed: bool,
    /// The key was queued again while it was processed.
    pub(crate) again: bool,
}

/// The changes, crashes and faults that can still happen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RemainingEvents {
    /// The number of changes that each actor has made.
    pub(crate) done: Vec<usize>,
    pub(crate) crashes: u8,
    pub(crate) faults: u8,
}

impl RemainingEvents {
    /// All changes, crashes and faults of `world`.
    pub(crate) fn of(world: &World) -> Self {
        Self { done: vec![0; world.actors.len()], crashes: world.crashes, faults: world.faults }
    }

    /// The actors that have changes left.
    pub(crate) fn users(&self, world: &World) -> impl Iterator<Item = usize> {
        let actors = world.actors.iter().zip(&self.done).enumerate();
        actors.filter(|(_, (actor, done))| **done < actor.len()).map(|(index, _)| index)
    }
}

/// Counts and times that rules need; part of the state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Tally {
    /// The number of work writes for each origin.
    pub(crate) writes: BTreeMap<Origin, usize>,
    /// When a write of annotations or status was last decided for each origin.
    pub(crate) annotated: BTreeMap<Origin, Moment>,
    /// When the controller last received a change of a Placement or its decisions.
    pub(crate) placed: Moment,
}

#[derive(Clone)]
pub(crate) struct State {
    pub(crate) hub: Arc<Hub>,
    pub(crate) feeds: BTreeMap<Source, Feed>,
    pub(crate) mirror_state: Arc<MirrorState>,
    pub(crate) queue: BTreeSet<Key>,
    pub(crate) timers: BTreeMap<Key, Moment>,
    pub(crate) jobs: BTreeMap<Key, Arc<Job>>,
    pub(crate) own: BTreeMap<Key, OwnWrites>,
    /// Requests in flight that have timed out.
    pub(crate) late: Vec<PendingRequest>,
    pub(crate) now: Moment,
    pub(crate) remaining: RemainingEvents,
    pub(crate) tally: Tally,
}

impl State {
    /// A hash that is equal for states with equal futures; different states collide with a chance of one in
    /// 2^64.
    pub(crate) fn id(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hub.digest.hash(&mut hasher);
        let works_count = !self.own.is_empty();
        for (source, feed) in &self.feeds {
            // Idle feeds do not affect later steps.
            if feed.events.is_empty() && matches!(feed.listing, ListState::Done) {
                continue;
            }
            source.hash(&mut hasher);
            for event in &feed.events {
                (&event.key, event.content.as_ref().map(|content| content.id)).hash(&mut hasher);
                if *source != WORKS.all() || works_count {
                    event.version.hash(&mut hasher);
                }
            }
            match &feed.listing {
                ListState::Unlisted => 0.hash(&mut hasher),
                ListState::Pages(pages, version) => {
                    for (key, entry) in pages {
                        (key, entry.content.id).hash(&mut hasher);
                    }
                    version.hash(&mut hasher);
                }
                ListState::Done => 1.hash(&mut hasher),
            }
        }
        // Times matter only relative to the current time, and past times do not matter.
        let until = |moment: &Moment| moment.since(self.now);
        self.mirror_state.shape.hash(&mut hasher);
        for (placement, settles) in &self.mirror_state.settles {
            (placement, until(settles)).hash(&mut hasher);
        }
        self.queue.hash(&mut hasher);
        for (key, due) in &self.timers {
            (key, until(due)).hash(&mut hasher);
        }
        for (key, job) in &self.jobs {
            key.hash(&mut hasher);
            for in_flight in [&job.in_flight, &job.unconfirmed_deletes] {
                in_flight.iter().map(|send| send.id).collect::<Vec<_>>().hash(&mut hasher);
            }
            if !job.unconfirmed_deletes.is_empty() {
                job.reads.hash(&mut hasher);
            }
            (job.annotated, job.failed, job.again).hash(&mut hasher);
            let written: BTreeMap<_, _> = job.written.iter().map(|(work, written)| (work, written)).collect();
            written.hash(&mut hasher);
        }
        self.own.hash(&mut hasher);
        self.late.iter().map(|late| late.id).collect::<Vec<_>>().hash(&mut hasher);
        self.remaining.hash(&mut hasher);
        self.tally.writes.hash(&mut hasher);
        for (origin, moment) in &self.tally.annotated {
            (origin, until(&moment.after(STATUS_WINDOW))).hash(&mut hasher);
        }
        until(&self.tally.placed.after(PLACEMENT_SETTLE_TIME)).hash(&mut hasher);
        hasher.finish()
    }
}

/// Whether all preconditions in `reads` are true on the hub.
pub(crate) fn confirms(hub: &Hub, reads: &BTreeSet<Precondition>) -> bool {
    static CONTROLLER_NAME: LazyLock<ControllerName> = LazyLock::new(|| ControllerName::new(CONTROLLER));
    let row = |source: &Source, entry: &Entry| entry.content.row(source, &CONTROLLER_NAME);
    reads.iter().all(|read| match read {
        Precondition::Object(source, _, key, expected) => {
            let found = hub.objects.get(&(source.clone(), key.clone()));
            found.is_some_and(|entry| row(source, entry).deletion_hash() == Some(*expected))
        }
        Precondition::Absent(gvr, key) => {
            !hub.objects.keys().any(|(source, found)| found == key && is_of(source, &gvr.kind.resource))
        }
        Precondition::Decisions(placement, expected) => {
            let mut clusters = BTreeSet::new();
            for ((source, key), entry) in &hub.objects {
                if let Some(decision) = row(source, entry).get::<Decision>()
                    && key.namespace == placement.namespace
                    && decision.placement.as_deref() == Some(&*placement.name)
                {
                    clusters.extend(decision.clusters.clone());
                }
            }
            Precondition::decisions_hash(&clusters) == *expected
        }
        // These worlds never delete namespaces or clusters.
        Precondition::Namespace(_) | Precondition::ClusterTerminating(_) => true,
    })
}

fn is_of(source: &Source, resource: &str) -> bool {
    match source.resource() {
        Some(kind) => &*kind.resource == resource,
        None => source.name() == resource,
    }
}
