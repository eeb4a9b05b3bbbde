//! The effect of a step on a state.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use policy_sync_controller::stored_topology::config_map::{
    ConfigMapAction, apply_request, create_request, next,
};
use policy_sync_controller::stored_topology::{
    Desired, PendingStatuses, StatusKey, StatusWriteKey, route_status_request,
};

use super::hub::serve;
use super::mirrors::{NOW, config_map, http_routes, own_sources, stored_source};
use super::state::{Build, InFlight, Job, Phase, Stage, State};
use super::step::{Step, Topology};
use crate::hub::{Hub, object};
use crate::state::RemainingEvents;
use crate::step::RequestOutcome;

/// The object's version after a request, or a status code; 0 without a response.
type Answer = Result<u64, u16>;

impl Topology<'_> {
    /// The state after a start of the process.
    pub(super) fn booted(&mut self, mut hub: Arc<Hub>, remaining: RemainingEvents) -> State {
        Arc::make_mut(&mut hub).events.clear();
        let (sync, mut sources) = self.mirrors.boot_sync(&hub, &self.world.kinds);
        let own = self.mirrors.boot_own(&hub);
        sources.extend(own_sources());
        State {
            feeds: sources.into_iter().map(|source| (source, VecDeque::new())).collect(),
            hub,
            sync,
            own,
            pending: PendingStatuses::default(),
            build: Build { queued: true, phase: Phase::Idle, written: 0, recent: false, waits: false },
            queued_writes: BTreeSet::new(),
            jobs: BTreeMap::new(),
            again: BTreeSet::new(),
            late: Vec::new(),
            remaining,
            writes: BTreeMap::new(),
            refused: false,
        }
    }

    pub(super) fn apply_step(&mut self, state: &mut State, step: &Step) {
        match step {
            Step::User(actor) => {
                let change = &self.world.actors[*actor][state.remaining.done[*actor]];
                state.remaining.done[*actor] += 1;
                change.make(Arc::make_mut(&mut state.hub), &mut self.contents);
            }
            Step::DeliverEvent(source) => {
                let Some(event) = state.feeds.get_mut(source).and_then(VecDeque::pop_front) else { return };
                let affected = if own_sources().contains(source) {
                    let delivered =
                        self.mirrors.report_to_topology(&state.own, source, event, &mut state.pending);
                    state.own = delivered.0;
                    delivered.1
                } else {
                    self.mirrors.report_event_to_sync(&mut state.sync, source, event)
                };
                state.build.queued |= affected;
            }
            Step::Relist(source) => {
                state.remaining.faults -= 1;
                state.feeds.insert(source.clone(), VecDeque::new());
                let affected = if own_sources().contains(source) {
                    let delivered = self.mirrors.list_own(&state.own, &state.hub, source, &mut state.pending);
                    state.own = delivered.0;
                    delivered.1
                } else {
                    self.mirrors.list_sync(&mut state.sync, &state.hub, source)
                };
                state.build.queued |= affected;
            }
            Step::Begin => {
                state.build.queued = false;
                state.pending.begin_build();
                state.build.phase = Phase::Started(state.sync.clone(), state.own.clone());
            }
            Step::ReadConfigMap => {
                if let Phase::Started(sync, own) = state.build.phase.clone() {
                    state.build.phase = Phase::ConfigMapRead(sync, own, state.own.clone());
                }
            }
            Step::GraphBuilt => self.built(state),
            Step::Store(outcome) => self.store(state, *outcome),
            Step::Take(turn) => self.take_turn(state, turn),
            Step::Read(turn) => read(state, turn),
            Step::Decide(turn) => self.decide(state, turn),
            Step::Send(turn, outcome) => self.send(state, turn, *outcome),
            Step::Late(index) => {
                let request = state.late.remove(*index);
                let _ = serve(Arc::make_mut(&mut state.hub), &mut self.contents, &request);
            }
            Step::Time => {
                let build = &mut state.build;
                build.queued |= std::mem::take(&mut build.waits);
                build.recent = false;
            }
            Step::Crash => {
                let mut remaining = state.remaining.clone();
                remaining.crashes -= 1;
                let booted = self.booted(state.hub.clone(), remaining);
                // Requests in flight may still arrive.
                let on_their_way = std::mem::take(&mut state.late);
                *state = State { late: on_their_way, writes: std::mem::take(&mut state.writes), ..booted };
            }
        }
        deliver_events(state);
    }

    fn built(&mut self, state: &mut State) {
        let Phase::ConfigMapRead(sync, own, later) = std::mem::replace(&mut state.build.phase, Phase::Idle)
        else {
            return;
        };
        let outcome = self.mirrors.outcome(&sync, &own);
        let replaced = state.pending.replace(outcome.statuses.clone(), &outcome.versions);
        replaced.writes_to_queue.into_iter().for_each(|turn| queue(state, turn));
        state.build.queued |= replaced.rebuild;
        let (text, digest) = (&outcome.text, outcome.digest);
        state.pending.expect_text(digest, &text.detail.to_string());
        let (stored, key) = (later.stored(), config_map());
        let since = state.build.recent.then_some(Duration::ZERO);
        let controller = &self.mirrors.name;
        let request = match next(stored.as_ref(), text, digest, since) {
            ConfigMapAction::Nothing | ConfigMapAction::Foreign(_) => return,
            ConfigMapAction::Wait(_) => {
                state.build.waits = true;
                return;
            }
            ConfigMapAction::Create => create_request(controller, &key, text),
            ConfigMapAction::Apply(uid) => apply_request(controller, &key, uid, text),
        };
        state.build.phase = Phase::InFlight(Arc::new(request.unwrap()));
    }

    fn store(&mut self, state: &mut State, outcome: RequestOutcome) {
        let Phase::InFlight(request) = std::mem::replace(&mut state.build.phase, Phase::Idle) else { return };
        match self.execute(state, "ConfigMap topology", &request, outcome) {
            Ok(version) => {
                state.build.written = version;
                state.build.recent = true;
            }
            Err(_) => state.build.queued = true,
        }
    }

    fn take_turn(&mut self, state: &mut State, turn: &StatusWriteKey) {
        state.queued_writes.remove(turn);
        let Some(write) = state.pending.next(&turn.key) else { return };
        let stage = match (&turn.key, &write.status.desired) {
            (StatusKey::Gateway(key), Desired::Gateway { uid, generation, conditions }) => {
                let gateway = state.own.mirror.read().view(NOW).gateway(key).cloned();
                let Some(gateway) = gateway.filter(|gateway| gateway.has_uid(uid)) else {
                    state.pending.remove_deleted(&turn.key, &write);
                    return;
                };
                let what = (&*conditions.texts, *generation);
                let request = gateway.request(&self.mirrors.name, key, what, NOW);
                Stage::InFlight(Arc::new(request.unwrap()))
            }
            _ => Stage::Unread,
        };
        state.jobs.insert(turn.clone(), Job { write, stage });
    }

    fn decide(&mut self, state: &mut State, turn: &StatusWriteKey) {
        let Some(Job { write, stage: Stage::Read(found) }) = state.jobs.get(turn).cloned() else { return };
        let Some(entry) = found else {
            state.pending.remove_deleted(&turn.key, &write);
            return finish(state, turn);
        };
        let mut found = object(&entry.content.json);
        found.metadata.resource_version = entry.version.to_string();
        let request = route_status_request(&self.mirrors.name, &http_routes(), &found, &write.status, NOW);
        match request.unwrap() {
            None => {
                let again = state.pending.settle(&turn.key, &write, entry.version);
                again.into_iter().for_each(|turn| queue(state, turn));
                finish(state, turn);
            }
            Some(request) => {
                let stage = Stage::InFlight(Arc::new(request));
                state.jobs.insert(turn.clone(), Job { write, stage });
            }
        }
    }

    fn send(&mut self, state: &mut State, turn: &StatusWriteKey, outcome: RequestOutcome) {
        let Some(Job { write, stage: Stage::InFlight(request) }) = state.jobs.get(turn).cloned() else {
            return;
        };
        match self.execute(state, &turn.key.to_string(), &request, outcome) {
            Ok(version) => state.pending.wrote(&turn.key, &write, version),
            Err(404) => state.pending.remove_deleted(&turn.key, &write),
            Err(_) => queue(state, turn.clone()),
        }
        finish(state, turn);
    }

    fn execute(
        &mut self,
        state: &mut State,
        object: &str,
        request: &InFlight,
        outcome: RequestOutcome,
    ) -> Answer {
        if outcome != RequestOutcome::Done {
            state.remaining.faults -= 1;
        }
        *state.writes.entry(object.to_owned()).or_default() += 1;
        if outcome == RequestOutcome::Late {
            state.late.push(request.clone());
        }
        if matches!(outcome, RequestOutcome::Lost | RequestOutcome::Late) {
            return Err(0);
        }
        let hub = Arc::make_mut(&mut state.hub);
        let answer = serve(hub, &mut self.contents, request);
        state.refused = answer.is_err();
        match outcome {
            RequestOutcome::Twice => serve(hub, &mut self.contents, request),
            RequestOutcome::ResponseLost => Err(0),
            _ => answer,
        }
    }
}

fn read(state: &mut State, turn: &StatusWriteKey) {
    let StatusKey::Route(_, key) = &turn.key else { return };
    let Some(write) = state.pending.next(&turn.key) else { return finish(state, turn) };
    let found = state.hub.objects.get(&(own_sources()[1].clone(), key.clone())).cloned();
    state.jobs.insert(turn.clone(), Job { write, stage: Stage::Read(found) });
}

fn queue(state: &mut State, turn: StatusWriteKey) {
    if state.jobs.contains_key(&turn) {
        state.again.insert(turn);
    } else {
        state.queued_writes.insert(turn);
    }
}

fn finish(state: &mut State, turn: &StatusWriteKey) {
    state.jobs.remove(turn);
    if state.again.remove(turn) {
        state.queued_writes.insert(turn.clone());
    }
}

/// Delivers new events to the feeds of their sources. Both mirrors receive the events of Gateways.
fn deliver_events(state: &mut State) {
    if state.hub.events.is_empty() {
        return;
    }
    for (source, event) in std::mem::take(&mut Arc::make_mut(&mut state.hub).events) {
        for (watched, events) in &mut state.feeds {
            if stored_source(watched) == source {
                events.push_back(event.clone());
            }
        }
    }
}
