//! Every state that can be reached, each once, in the order of how many steps it takes: so that what breaks a rule is
//! told by one of the shortest ways to it.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::time::{Duration, Instant};

use crate::world::World;

/// After so many steps without a user, a world has settled, or never will.
const CALM: usize = 1_000;

/// What can be explored: a world, and what can happen in it.
pub(crate) trait Model {
    type State: Clone;
    type Step: Clone + PartialEq;

    /// The world.
    fn world(&self) -> &World;

    /// The world before anything has happened, with a controller that has settled.
    fn start(&mut self) -> Self::State;

    /// The same for two states that go on alike, but for a chance of one in 2^64.
    fn id(state: &Self::State) -> u64;

    /// All that can happen in `state`.
    fn steps(&self, state: &Self::State) -> Vec<Self::Step>;

    /// What goes on by itself, in the order in which a calm world takes it.
    fn quiet(&self, state: &Self::State) -> Vec<Self::Step>;

    /// What happens next where nothing goes wrong and no user changes anything: `None` in a settled state.
    fn calm(&self, state: &Self::State) -> Option<Self::Step> {
        self.quiet(state).into_iter().next()
    }

    /// Has `step` happen.
    fn take(&mut self, state: &mut Self::State, step: &Self::Step);

    /// The state after `step`.
    fn after(&mut self, state: &Self::State, step: &Self::Step) -> Self::State {
        let mut state = state.clone();
        self.take(&mut state, step);
        state
    }

    /// What must hold, told where it does not. In a state that has `settled` nothing is left to do but what users do.
    fn holds(
        &mut self,
        before: &Self::State,
        step: &Self::Step,
        after: &Self::State,
        settled: bool,
    ) -> Result<(), String>;

    /// Whether a controller that starts in a settled `state` has nothing to write.
    fn starts_without_a_write(&mut self, state: &Self::State) -> Result<(), String>;

    /// A step in words.
    fn describe(&self, step: &Self::Step) -> String;

    /// How many different mirrors there were.
    fn mirrors(&self) -> usize;
}

/// What was explored.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) states: usize,
    /// Those in which nothing is left to do.
    pub(crate) settled: usize,
    /// The most steps that every order of events was followed for.
    depth: usize,
    /// Whether there is nothing beyond.
    pub(crate) complete: bool,
    /// How many different mirrors there were.
    mirrors: usize,
    took: Duration,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { states, settled, depth, complete, mirrors, took } = self;
        let beyond = if *complete { "and there are no more" } else { "and the rest without further changes" };
        write!(
            f,
            "{states} states, {settled} settled, {mirrors} mirrors in {:.1} s: all orders of {depth} steps, {beyond}",
            took.as_secs_f64()
        )
    }
}

struct Explorer<M: Model> {
    model: M,
    /// How each state was first reached: from which, by what. The first is where all begins.
    ways: Vec<Option<(usize, M::Step)>>,
    known: HashMap<u64, usize>,
    /// What each state that was gone on from does when nothing comes from outside; itself where it has settled.
    calm: HashMap<u64, u64>,
    fresh: HashSet<u64>,
}

/// Explores `model`, up to `limit` states; from where it stops, what goes on by itself is followed to its end.
///
/// # Panics
///
/// Where a rule does not hold, with the steps that led there.
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

    /// Follows every step from `state`.
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

    /// Follows what happens by itself from `state`, which nothing was followed from.
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
                self.tell(node, &taken, &fault);
            }
            state = after;
        }
        self.tell(node, &taken, "it does not settle");
    }

    fn check(&mut self, node: usize, before: &M::State, step: &M::Step, after: &M::State) {
        if let Err(fault) = self.holds(before, step, after) {
            self.tell(node, std::slice::from_ref(step), &fault);
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

    /// From every state the way without users ends in a settled one: no state is left that goes on for ever.
    fn all_settle(&self) {
        let mut ends: HashSet<u64> =
            self.calm.iter().filter(|(from, to)| from == to).map(|(id, _)| *id).collect();
        for id in self.calm.keys() {
            let (mut way, mut at) = (Vec::new(), *id);
            while !ends.contains(&at) {
                way.push(at);
                if way.len() > CALM {
                    self.tell(self.known.get(id).copied().unwrap_or_default(), &[], "it does not settle");
                }
                at = self.calm[&at];
            }
            ends.extend(way);
        }
    }

    fn tell(&self, node: usize, then: &[M::Step], fault: &str) -> ! {
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
