//! The possible steps in a state, and the rules for them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use policy_sync_api::object::HubObject;
use policy_sync_controller::stored_topology::StatusWriteKey;
use policy_sync_mirror::Source;
use policy_sync_testenv::memory::check_topology;
use serde_json::Value;

use super::mirrors::Mirrors;
use super::state::{Build, Phase, Stage, State};
use crate::controller::CONTROLLER;
use crate::explore::Model;
use crate::hub::{Contents, Hub, object};
use crate::state::RemainingEvents;
use crate::step::RequestOutcome;
use crate::world::World;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// An actor makes its next change.
    User(usize),
    /// A watch delivers its next event.
    DeliverEvent(Source),
    /// A watch breaks: its events are lost, and its objects are listed again.
    Relist(Source),
    /// The build of a graph begins with a snapshot of both mirrors.
    Begin,
    /// The ConfigMap is read from the mirror.
    ReadConfigMap,
    /// The graph is complete.
    GraphBuilt,
    /// The ConfigMap is written.
    Store(RequestOutcome),
    /// A worker takes the key of a status.
    Take(StatusWriteKey),
    /// The route is read.
    Read(StatusWriteKey),
    /// The status write is decided from the route as read.
    Decide(StatusWriteKey),
    /// The status is written.
    Send(StatusWriteKey, RequestOutcome),
    /// A request that has timed out arrives.
    Late(usize),
    /// The interval between writes of the ConfigMap ends.
    Time,
    /// The process crashes and restarts.
    Crash,
}

impl Step {
    fn is_write(&self) -> bool {
        matches!(self, Self::Store(_) | Self::Send(..))
    }
}

/// The model of the stored topology: the world and the memoized mirrors and contents.
pub(super) struct Topology<'w> {
    pub(super) world: &'w World,
    pub(super) mirrors: Mirrors,
    pub(super) contents: Contents,
    /// The maximum number of writes for each object without faults.
    max_writes: BTreeMap<&'static str, usize>,
    /// Digests of hubs that were verified to be correct.
    verified: BTreeSet<u64>,
}

impl<'w> Topology<'w> {
    pub(super) fn new(world: &'w World, max_writes: BTreeMap<&'static str, usize>) -> Self {
        let (mirrors, contents) = (Mirrors::new(), Contents::default());
        Self { world, mirrors, contents, max_writes, verified: BTreeSet::new() }
    }

    /// The controller does not change the status entries and conditions of other writers.
    fn keeps_foreign_entries(before: &State, step: &Step, after: &State) -> Result<(), String> {
        let written = matches!(step, Step::Store(_) | Step::Send(..) | Step::Late(_));
        if written && theirs(&before.hub) != theirs(&after.hub) {
            return Err(format!(
                "entries of other controllers are {:?}, expected {:?}",
                theirs(&after.hub),
                theirs(&before.hub)
            ));
        }
        Ok(())
    }

    /// Each write changes its object, or is rejected.
    fn writes_only_changes(before: &State, step: &Step, after: &State) -> Result<(), String> {
        if step.is_write() && before.hub.digest == after.hub.digest && !after.refused {
            return Err("a write changes nothing".to_owned());
        }
        Ok(())
    }

    fn settled_state_matches_hub(&mut self, state: &State) -> Result<(), String> {
        if state.pending.waiting() > 0 {
            return Err(format!("{} statuses are never written", state.pending.waiting()));
        }
        if self.verified.insert(state.hub.digest) {
            let objects: Vec<HubObject> =
                state.hub.objects.values().map(|entry| object(&entry.content.json)).collect();
            check_topology(&objects, CONTROLLER, |_| true, true)
                .map_err(|error| format!("settled, but {error:#}"))?;
        }
        Ok(())
    }
}

/// The status entries and conditions of other writers, in all statuses.
fn theirs(hub: &Hub) -> Vec<Value> {
    let objects = hub.objects.values().map(|entry| &entry.content.json);
    let entries = objects.clone().flat_map(|json| json["status"]["parents"].as_array().into_iter().flatten());
    let conditions = objects.flat_map(|json| json["status"]["conditions"].as_array().into_iter().flatten());
    let not_affected = |condition: &&Value| {
        !condition["type"].as_str().unwrap_or_default().starts_with("policysync.kuadrant.io/")
    };
    let others = entries.filter(|entry| entry["controllerName"] != CONTROLLER);
    others.chain(conditions.filter(not_affected)).cloned().collect()
}

impl Model for Topology<'_> {
    type State = State;
    type Step = Step;

    fn world(&self) -> &World {
        self.world
    }

    fn start(&mut self) -> State {
        let mut hub = Hub::default();
        for (source, json) in &self.world.objects {
            hub.create(&mut self.contents, source, json.clone());
        }
        let mut state = self.booted(Arc::new(hub), RemainingEvents::of(self.world));
        while let Some(step) = self.calm(&state) {
            self.take(&mut state, &step);
        }
        State { writes: BTreeMap::new(), ..state }
    }

    fn id(state: &State) -> u64 {
        state.id()
    }

    fn steps(&self, state: &State) -> Vec<Step> {
        let mut steps = self.quiet(state);
        steps.extend(state.remaining.users(self.world).map(Step::User));
        if state.remaining.crashes > 0 {
            steps.push(Step::Crash);
        }
        if state.remaining.faults > 0 {
            if matches!(state.build.phase, Phase::InFlight(_)) {
                steps.extend(RequestOutcome::FAULTS.map(Step::Store));
            }
            for (turn, _) in state.jobs.iter().filter(|(_, job)| matches!(job.stage, Stage::InFlight(_))) {
                steps.extend(RequestOutcome::FAULTS.map(|outcome| Step::Send(turn.clone(), outcome)));
            }
            let behind = state.feeds.iter().filter(|(_, events)| !events.is_empty());
            steps.extend(behind.map(|(source, _)| Step::Relist(source.clone())));
        }
        steps
    }

    fn quiet(&self, state: &State) -> Vec<Step> {
        let ready = state.feeds.iter().filter(|(_, events)| !events.is_empty());
        let mut steps: Vec<Step> = ready.map(|(source, _)| Step::DeliverEvent(source.clone())).collect();
        let Build { queued, phase, written, waits, .. } = &state.build;
        match phase {
            // The next graph is not built before the mirror shows the last write.
            Phase::Idle if *queued && *written <= state.own.config_map_version() => steps.push(Step::Begin),
            Phase::Idle => {}
            Phase::Started(..) => steps.push(Step::ReadConfigMap),
            Phase::ConfigMapRead(..) => steps.push(Step::GraphBuilt),
            Phase::InFlight(_) => steps.push(Step::Store(RequestOutcome::Done)),
        }
        for (turn, job) in &state.jobs {
            steps.push(match job.stage {
                Stage::Unread => Step::Read(turn.clone()),
                Stage::Read(_) => Step::Decide(turn.clone()),
                Stage::InFlight(_) => Step::Send(turn.clone(), RequestOutcome::Done),
            });
        }
        let free = state.queued_writes.iter().filter(|turn| !state.jobs.contains_key(turn));
        steps.extend(free.cloned().map(Step::Take));
        steps.extend((0..state.late.len()).map(Step::Late));
        if *waits {
            steps.push(Step::Time);
        }
        steps
    }

    fn take(&mut self, state: &mut State, step: &Step) {
        self.apply_step(state, step);
    }

    fn holds(&mut self, before: &State, step: &Step, after: &State, settled: bool) -> Result<(), String> {
        Self::keeps_foreign_entries(before, step, after)?;
        if after.remaining.faults == self.world.faults && after.remaining.crashes == self.world.crashes {
            Self::writes_only_changes(before, step, after)?;
            for (object, max_writes) in &self.max_writes {
                let writes = after.writes.get(*object).copied().unwrap_or_default();
                if writes > *max_writes {
                    return Err(format!(
                        "{object} was written {writes} times, expected at most {max_writes}"
                    ));
                }
            }
        }
        if settled { self.settled_state_matches_hub(after) } else { Ok(()) }
    }

    fn starts_without_a_write(&mut self, state: &State) -> Result<(), String> {
        let mut state = self.booted(state.hub.clone(), state.remaining.clone());
        while let Some(step) = self.calm(&state) {
            if step.is_write() {
                return Err(format!("settled, but a restart takes the step {}", self.describe(&step)));
            }
            self.take(&mut state, &step);
        }
        Ok(())
    }

    fn describe(&self, step: &Step) -> String {
        match step {
            Step::User(actor) => self.world.describe_user(*actor),
            other => format!("{other:?}"),
        }
    }

    fn mirrors(&self) -> usize {
        self.mirrors.len()
    }
}
