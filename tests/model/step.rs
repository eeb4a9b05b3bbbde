//! The possible steps in a state.
//!
//! Steps are atomic: a user's write, one watch event, one page of a list, one decision, or one request. Further
//! steps are the verification of the causes of deletes, an agent's processing of one work, and the passing of
//! time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use policy_sync_api::moment::Moment;
use policy_sync_api::names::ObjectKey;
use policy_sync_mirror::Source;
use policy_sync_sync::Key;

use crate::agent;
use crate::controller::Controller;
use crate::explore::Model;
use crate::hub::{Contents, Hub};
use crate::rules::{RULES, StateTransition};
use crate::state::{ListState, RemainingEvents, State, Tally};
use crate::world::World;

/// The initial time, which is also the time of all writes on the hub.
pub(crate) const START: Moment = Moment(1_767_225_600_000);
/// Status writes of an object are at least this far apart.
pub(crate) const STATUS_WINDOW: Duration = Duration::from_secs(1);

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestOutcome {
    Done,
    /// The request does not arrive, or is rejected.
    Lost,
    /// The request is executed, but the response is lost.
    ResponseLost,
    /// The request is executed twice, and the second response counts.
    Twice,
    /// The request times out, and arrives later.
    Late,
}

impl RequestOutcome {
    /// The possible faults.
    pub(crate) const FAULTS: [Self; 4] = [Self::Lost, Self::ResponseLost, Self::Twice, Self::Late];
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// An actor makes its next change.
    User(usize),
    /// A watch delivers its next event.
    DeliverEvent(Source),
    /// A list delivers its next page.
    Page(Source),
    /// A watch breaks, and its events are lost.
    Expire(Source),
    /// A key is decided.
    Decide(Key),
    /// A request of a key arrives.
    Send(Key, usize, RequestOutcome),
    /// A request that has timed out arrives.
    Late(usize),
    /// The causes of a key's deletes are verified on the hub.
    Check(Key),
    /// A spoke's agent processes a work.
    Agent(ObjectKey),
    /// Time advances to the next timer.
    Time,
    /// The process crashes and restarts.
    Crash,
}

/// The model of the sync: the world and the memoized controller and contents.
pub(crate) struct Sync<'w> {
    pub(crate) world: &'w World,
    pub(crate) controller: Controller,
    pub(crate) contents: Contents,
}

impl<'w> Sync<'w> {
    pub(crate) fn new(world: &'w World) -> Self {
        Self { world, controller: Controller::new(), contents: Contents::default() }
    }
}

impl Model for Sync<'_> {
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
        hub.events.clear();
        let mut state = State {
            hub: Arc::new(hub),
            feeds: BTreeMap::new(),
            mirror_state: self.controller.empty_mirror(),
            queue: BTreeSet::new(),
            timers: BTreeMap::new(),
            jobs: BTreeMap::new(),
            own: BTreeMap::new(),
            late: Vec::new(),
            now: START,
            remaining: RemainingEvents::of(self.world),
            tally: Tally::default(),
        };
        self.boot(&mut state);
        while let Some(step) = self.calm(&state) {
            self.take(&mut state, &step);
        }
        state.tally = Tally { placed: state.tally.placed, ..Tally::default() };
        state
    }

    fn starts_without_a_write(&mut self, state: &State) -> Result<(), String> {
        let mut state = state.clone();
        self.boot(&mut state);
        while let Some(step) = self.calm(&state) {
            if matches!(step, Step::Send(..) | Step::Check(_)) {
                return Err(format!("settled, but a restart takes the step {}", self.world.describe(&step)));
            }
            self.take(&mut state, &step);
        }
        Ok(())
    }

    fn steps(&self, state: &State) -> Vec<Step> {
        let mut steps = self.quiet(state);
        steps.extend(state.remaining.users(self.world).map(Step::User));
        if state.remaining.crashes > 0 {
            steps.push(Step::Crash);
        }
        if state.remaining.faults > 0 {
            for (key, job) in &state.jobs {
                let in_flight = 0..job.in_flight.len();
                steps.extend(
                    in_flight.flat_map(|i| {
                        RequestOutcome::FAULTS.map(|outcome| Step::Send(key.clone(), i, outcome))
                    }),
                );
            }
            let behind = state.feeds.iter().filter(|(_, feed)| !feed.events.is_empty());
            steps.extend(behind.map(|(source, _)| Step::Expire(source.clone())));
        }
        steps
    }

    fn id(state: &State) -> u64 {
        state.id()
    }

    fn take(&mut self, state: &mut State, step: &Step) {
        self.apply_step(state, step);
    }

    fn holds(&mut self, before: &State, step: &Step, after: &State, settled: bool) -> Result<(), String> {
        let faultless = after.remaining.faults == self.world.faults;
        let happened = StateTransition { before, step, after, faultless, settled };
        RULES.iter().chain(&self.world.rules).try_for_each(|rule| rule(&happened))
    }

    fn describe(&self, step: &Step) -> String {
        self.world.describe(step)
    }

    fn mirrors(&self) -> usize {
        self.controller.mirrors()
    }

    fn quiet(&self, state: &State) -> Vec<Step> {
        let mut steps = Vec::new();
        for (source, feed) in &state.feeds {
            match feed.listing {
                ListState::Done if feed.events.is_empty() => {}
                ListState::Done => steps.push(Step::DeliverEvent(source.clone())),
                ListState::Unlisted | ListState::Pages(..) => steps.push(Step::Page(source.clone())),
            }
        }
        for (key, job) in &state.jobs {
            steps.extend((0..job.in_flight.len()).map(|i| Step::Send(key.clone(), i, RequestOutcome::Done)));
            if !job.unconfirmed_deletes.is_empty() {
                steps.push(Step::Check(key.clone()));
            }
        }
        let free = state.queue.iter().filter(|key| !state.jobs.contains_key(key));
        steps.extend(free.cloned().map(Step::Decide));
        if self.world.agents {
            steps.extend(agent::waiting(&state.hub).map(Step::Agent));
        }
        steps.extend((0..state.late.len()).map(Step::Late));
        if !state.timers.is_empty() {
            steps.push(Step::Time);
        }
        steps
    }
}
