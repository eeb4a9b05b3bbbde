//! A queue of keys: each is there once, none is worked on twice at a time, and each has its own backoff. Namespaces take
//! turns.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{Key, Priority};
use crate::telemetry::metrics::Metrics;
use policy_sync_api::in_turn::InTurn;
use policy_sync_api::shrink::{give_back, is_roomy};

/// The first wait after a failure; it doubles with each further one.
const FIRST_BACKOFF: Duration = Duration::from_millis(50);
/// The longest wait.
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);
/// So much of a wait is left out at most.
const JITTER: f64 = 0.25;

/// A de-duplicating queue.
#[derive(Debug)]
pub struct Queue<K> {
    state: Mutex<State<K>>,
    changed: Notify,
    /// Told where nothing is to be worked on any more.
    emptied: Notify,
    window: Duration,
}

#[derive(Debug)]
struct State<K> {
    first: VecDeque<K>,
    ready: InTurn<K>,
    /// Those that wait, and since when.
    queued: HashMap<K, Instant>,
    active: HashSet<K>,
    /// Keys that were added while they were worked on, and when.
    again: HashMap<K, Instant>,
    timers: BTreeSet<(Instant, K)>,
    due: HashMap<K, Instant>,
    /// How often each has failed, and when it is to be tried again.
    failures: HashMap<K, (u32, Instant)>,
    metrics: Metrics,
}

impl<K> State<K> {
    fn empty(metrics: Metrics) -> Self {
        Self {
            first: VecDeque::new(),
            ready: InTurn::default(),
            queued: HashMap::new(),
            active: HashSet::new(),
            again: HashMap::new(),
            timers: BTreeSet::new(),
            due: HashMap::new(),
            failures: HashMap::new(),
            metrics,
        }
    }
}

impl<K: Key> State<K> {
    /// Adds a key to be worked on, unless it waits already.
    fn add(&mut self, key: K) {
        if self.queued.contains_key(&key) || self.again.contains_key(&key) {
            return;
        }
        let now = Instant::now();
        self.metrics.added(key.category());
        if self.active.contains(&key) {
            self.again.insert(key, now);
        } else {
            self.push(key, now);
        }
    }

    /// Whether nothing is worked on, or to be as soon as possible.
    fn is_idle(&self) -> bool {
        self.queued.is_empty() && self.active.is_empty()
    }

    fn push(&mut self, key: K, added: Instant) {
        self.metrics.waits(key.category());
        self.queued.insert(key.clone(), added);
        match key.priority() {
            Priority::First => self.first.push_back(key),
            Priority::InTurn(namespace) => self.ready.push(namespace, key),
        }
    }

    fn take(&mut self) -> Option<K> {
        let key = self.first.pop_front().or_else(|| self.ready.pop())?;
        if let Some(added) = self.queued.remove(&key) {
            self.metrics.taken(key.category(), added);
        }
        self.active.insert(key.clone());
        Some(key)
    }

    fn schedule(&mut self, key: K, at: Instant) {
        match self.due.get(&key) {
            Some(due) if *due <= at => return,
            Some(due) => {
                self.timers.remove(&(*due, key.clone()));
            }
            None => {}
        }
        self.due.insert(key.clone(), at);
        self.timers.insert((at, key));
    }

    /// The same, unless it is to be worked on as soon as possible anyway.
    fn delay(&mut self, key: K, at: Instant) {
        if !self.queued.contains_key(&key) {
            self.schedule(key, at);
        }
    }

    /// Adds a key to be worked on as soon as possible, whenever it was due.
    fn put(&mut self, key: K) {
        if let Some(due) = self.due.remove(&key) {
            self.timers.remove(&(due, key.clone()));
        }
        self.add(key);
    }

    /// A burst of keys leaves no room behind.
    fn give_back(&mut self) {
        give_back(&mut self.due);
        give_back(&mut self.failures);
        give_back(&mut self.queued);
        give_back(&mut self.again);
        self.ready.give_back();
        let first = &mut self.first;
        if is_roomy(first.len(), first.capacity()) {
            first.shrink_to(2 * first.len());
        }
    }

    fn mature(&mut self, now: Instant) {
        while self.timers.first().is_some_and(|(due, _)| *due <= now) {
            if let Some((_, key)) = self.timers.pop_first() {
                self.due.remove(&key);
                self.add(key);
            }
        }
    }
}

impl<K: Key> Queue<K> {
    /// An empty queue. Changes within `window` that affect a key that [is batched](Key::is_batched) are carried out
    /// together.
    #[must_use]
    pub fn new(window: Duration, metrics: Metrics) -> Self {
        Self {
            state: Mutex::new(State::empty(metrics)),
            changed: Notify::new(),
            emptied: Notify::new(),
            window,
        }
    }

    /// Adds keys that a change affects: to be worked on as soon as possible, or within the window.
    pub fn affect(&self, keys: impl IntoIterator<Item = K>) {
        let mut keys = keys.into_iter().peekable();
        // Most changes affect nothing.
        if keys.peek().is_none() {
            return;
        }
        let mut state = self.state.lock();
        let due = Instant::now() + self.window;
        for key in keys {
            if key.is_batched() {
                state.delay(key, due);
            } else {
                state.put(key);
            }
        }
        self.changed.notify_one();
    }

    /// Adds a key to be worked on once the window is over.
    pub fn add_later(&self, key: K) {
        self.add_after(key, self.window);
    }

    /// Adds a key to be worked on as soon as possible, whatever its backoff.
    pub fn add(&self, key: K) {
        self.state.lock().put(key);
        self.changed.notify_one();
    }

    /// Adds a key to be worked on after `delay`, or when it is due already, whichever is earlier.
    pub fn add_after(&self, key: K, delay: Duration) {
        let mut state = self.state.lock();
        state.delay(key, Instant::now() + delay);
        self.changed.notify_one();
    }

    /// Waits for a key and takes it; [`Queue::done`] gives it back.
    pub async fn next(&self) -> K {
        loop {
            let wait = {
                let mut state = self.state.lock();
                state.mature(Instant::now());
                if let Some(key) = state.take() {
                    return key;
                }
                state.timers.first().map(|(due, _)| *due)
            };
            match wait {
                Some(due) => {
                    tokio::select! {
                        () = self.changed.notified() => {}
                        () = tokio::time::sleep_until(due) => {}
                    }
                }
                None => self.changed.notified().await,
            }
        }
    }

    /// Waits until nothing is worked on, or to be as soon as possible, but not longer than `at_most`.
    pub async fn idle(&self, at_most: Duration) {
        let idle = async {
            let mut emptied = std::pin::pin!(self.emptied.notified());
            loop {
                // Before it looks, so that nothing is missed.
                emptied.as_mut().enable();
                if self.state.lock().is_idle() {
                    return;
                }
                emptied.as_mut().await;
                emptied.set(self.emptied.notified());
            }
        };
        // Whoever gives way goes on in the end.
        let _ = tokio::time::timeout(at_most, idle).await;
    }

    /// Whether `key`, which is worked on, was added meanwhile: what it was decided from has changed.
    #[must_use]
    pub fn is_added_again(&self, key: &K) -> bool {
        self.state.lock().again.contains_key(key)
    }

    /// Gives a key back that was worked on well.
    pub fn done(&self, key: &K) {
        let mut state = self.state.lock();
        state.failures.remove(key);
        self.release(&mut state, key);
    }

    /// Gives a key back that failed: it is added again after its backoff. One that was added before that was over is
    /// tried again when it would have been.
    pub fn failed(&self, key: &K) {
        let mut state = self.state.lock();
        let now = Instant::now();
        let (failures, due) = state.failures.entry(key.clone()).or_insert((0, now));
        if *due <= now {
            *due = now + backoff(key, *failures);
            *failures += 1;
        }
        let due = *due;
        state.metrics.retried(key.category());
        state.schedule(key.clone(), due);
        self.release(&mut state, key);
    }

    fn release(&self, state: &mut State<K>, key: &K) {
        state.active.remove(key);
        if let Some(added) = state.again.remove(key) {
            state.push(key.clone(), added);
        }
        state.give_back();
        self.changed.notify_one();
        if state.is_idle() {
            self.emptied.notify_waiters();
        }
    }
}

/// How long `key` waits after so many failures. What has failed at one moment does not come back at one moment: up to a
/// quarter of it is left out, by the key and the number.
fn backoff<K: Hash>(key: &K, failures: u32) -> Duration {
    let longest = FIRST_BACKOFF.saturating_mul(1 << failures.min(16)).min(LONGEST_BACKOFF);
    let mut hasher = DefaultHasher::new();
    (key, failures).hash(&mut hasher);
    let share = f64::from(u32::try_from(hasher.finish() >> 32).unwrap_or_default()) / f64::from(u32::MAX);
    longest.mul_f64(1.0 - JITTER * share)
}

#[cfg(test)]
mod tests;
