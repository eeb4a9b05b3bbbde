//! Breadth-first exploration of all reachable states. A violated rule is reported with a shortest sequence of
//! steps that leads to it.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::time::{Duration, Instant};

use crate::world::World;

/// A world that has not settled after this many steps without users is assumed never to settle.
const CALM: usize = 1_000;

/// A system to explore: a world and its possible steps.
pub(crate) trait Model {
    type State: Clone;
    type Step: Clone + PartialEq;

    fn world(&self) -> &World;

    /// The initial state, with a controller that has settled.
    fn start(&mut self) -> Self::State;

    /// A hash that is equal for states with equal futures; different states collide with a chance of one in
    /// 2^64.
    fn id(state: &Self::State) -> u64;

    /// All possible steps in `state`.
    fn steps(&self, state: &Self::State) -> Vec<Self::Step>;

    /// All steps except steps of users and faults. [`Model::calm`] takes the first step.
    fn quiet(&self, state: &Self::State) -> Vec<Self::Step>;

    /// The next step without users and faults; `None` in a settled state.
    fn calm(&self, state: &Self::State) -> Option<Self::Step> {
        self.quiet(state).into_iter().next()
    }

    fn take(&mut self, state: &mut Self::State, step: &Self::Step);

    /// The state after `step`.
    fn after(&mut self, state: &Self::State, step: &Self::Step) -> Self::State {
        let mut state = state.clone();
        self.take(&mut state, step);
        state
    }

    /// Checks all rules for a step; the error describes the violation. In a `settled` state, only users have
    /// steps left.
    fn holds(
        &mut self,
        before: &Self::State,
        step: &Self::Step,
        after: &Self::State,
        settled: bool,
    ) -> Result<(), String>;

    /// Checks that a controller that starts in a settled `state` writes nothing.
    fn starts_without_a_write(&mut self, state: &Self::State) -> Result<(), String>;

    /// A description of a step for error messages.
    fn describe(&self, step: &Self::Step) -> String;

    /// The number of different mirrors so far.
    fn mirrors(&self) -> usize;
}

/// The extent of an exploration.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) states: usize,
    /// The number of settled states.
    pub(crate) settled: usize,
    /// The depth to which all orders of steps were explored.
    depth: usize,
    /// Whether all reachable states were explored.
    pub(crate) complete: bool,
    /// The number of different mirrors.
    mirrors: usize,
    took: Duration,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { states, settled, depth, complete, mirrors, took } = self;
        let beyond =
            if *complete { "no states remain" } else { "the remaining states without further changes" };
        write!(
            f,
            "{states} states, {settled} settled, {mirrors} mirrors in {:.1} s: all orders of {depth} steps, {beyond}",
            took.as_secs_f64()
        )
    }
}

struct Explorer<M: Model> {
    model: M,
    /// For each state, the predecessor and the step by which it was first reached; `None` for the initial
    /// state.
    ways: Vec<Option<(usize, M::Step)>>,
    known: HashMap<u64, usize>,
    /// For each expanded state, the successor without users and faults; a settled state maps to itself.
    calm: HashMap<u64, u64>,
    fresh: HashSet<u64>,
}

/// Explores `model` up to `limit` states. Each remaining state then takes steps without users and faults until it
/// settles.
///
/// # Panics
///
/// If a rule is violated. The message lists the steps that led there.
pub(crate) fn explore<M: Model>(model: M, limit: usize) -> Report {
    let started = Instant::now();
    let mut explorer = Explorer {
        model,
        ways: Vec::new(),
        known: HashMap::new(),
        calm: HashMap::new(),
        fresh: HashSet::new(),
    };
    let (depth, complete) = explorer.run(limit);
    let settled = explorer.calm.iter().filter(|(from, to)| from == to).count();
    let (states, mirrors) = (explorer.known.len(), explorer.model.mirrors());
    let report = Report { states, settled, depth, complete, mirrors, took: started.elapsed() };
    println!("{}: {report}", explorer.model.world().name);
    report
}

impl<M: Model> Explorer<M> {
    fn run(&mut self, limit: usize) -> (usize, bool) {
        let start = self.model.start();
        let mut depth = 0;
        let mut frontier: VecDeque<(usize, M::State)> = VecDeque::new();
        self.known.insert(M::id(&start), 0);
        self.ways.push(None);
        frontier.push_back((0, start));
        'deeper: while !frontier.is_empty() {
            for _ in 0..frontier.len() {
                if self.known.len() >= limit {
                    break 'deeper;
                }
                let Some((node, state)) = frontier.pop_front() else { break };
                self.go_on(node, &state, &mut frontier);
            }
            depth += 1;
        }
        let complete = frontier.is_empty();
        for (node, state) in &frontier {
            self.settle(*node, state);
        }
        self.all_settle();
        (depth, complete)
    }

    /// Expands `state` by all possible steps.
    fn go_on(&mut self, node: usize, state: &M::State, frontier: &mut VecDeque<(usize, M::State)>) {
        let id = M::id(state);
        let calm = self.model.calm(state);
        if calm.is_none() {
            self.calm.insert(id, id);
        }
        for step in self.model.steps(state) {
            let after = self.model.after(state, &step);
            let next = M::id(&after);
            if calm.as_ref() == Some(&step) {
                self.calm.insert(id, next);
            }
            self.check(node, state, &step, &after);
            if let Entry::Vacant(entry) = self.known.entry(next) {
                let node_of_next = *entry.insert(self.ways.len());
                self.ways.push(Some((node, step)));
                frontier.push_back((node_of_next, after));
            }
        }
    }

    /// Takes steps from `state`, which was not expanded, without users and faults until a state is settled.
    fn settle(&mut self, node: usize, state: &M::State) {
        let (mut state, mut taken) = (state.clone(), Vec::new());
        for _ in 0..CALM {
            let id = M::id(&state);
            if self.calm.contains_key(&id) {
                return;
            }
            let Some(step) = self.model.calm(&state) else {
                self.calm.insert(id, id);
                return;
            };
            let after = self.model.after(&state, &step);
            self.calm.insert(id, M::id(&after));
            taken.push(step.clone());
            if let Err(fault) = self.holds(&state, &step, &after) {
                self.fail(node, &taken, &fault);
            }
            state = after;
        }
        self.fail(node, &taken, "the state does not settle");
    }

    fn check(&mut self, node: usize, before: &M::State, step: &M::Step, after: &M::State) {
        if let Err(fault) = self.holds(before, step, after) {
            self.fail(node, std::slice::from_ref(step), &fault);
        }
    }

    fn holds(&mut self, before: &M::State, step: &M::Step, after: &M::State) -> Result<(), String> {
        let settled = self.model.calm(after).is_none();
        self.model.holds(before, step, after, settled)?;
        if settled && self.fresh.insert(M::id(after)) {
            self.model.starts_without_a_write(after)?;
        }
        Ok(())
    }

    /// Checks that every state leads to a settled state if users do nothing more.
    fn all_settle(&self) {
        let mut ends: HashSet<u64> =
            self.calm.iter().filter(|(from, to)| from == to).map(|(id, _)| *id).collect();
        for id in self.calm.keys() {
            let (mut way, mut at) = (Vec::new(), *id);
            while !ends.contains(&at) {
                way.push(at);
                if way.len() > CALM {
                    self.fail(
                        self.known.get(id).copied().unwrap_or_default(),
                        &[],
                        "the state does not settle",
                    );
                }
                at = self.calm[&at];
            }
            ends.extend(way);
        }
    }

    fn fail(&self, node: usize, then: &[M::Step], fault: &str) -> ! {
        let mut steps: Vec<&M::Step> = Vec::new();
        let mut at = node;
        while let Some((from, step)) = &self.ways[at] {
            steps.push(step);
            at = *from;
        }
        let way: Vec<String> = steps
            .into_iter()
            .rev()
            .chain(then)
            .map(|step| format!("  {}", self.model.describe(step)))
            .collect();
        panic!("{}: {fault}, after {} steps:\n{}\n", self.model.world().name, way.len(), way.join("\n"));
    }
}
