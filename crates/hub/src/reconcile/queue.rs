//! A work queue. It holds each key once, runs no key twice at a time, and has a backoff per key. Namespaces take turns.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::telemetry::metrics::Metrics;
use policy_sync_api::fair_queue::FairQueue;
use policy_sync_api::shrink::{is_sparse, shrink_if_sparse};
use policy_sync_mirror::{Key, Priority};

/// The backoff after the first failure; it doubles with each further failure.
const FIRST_BACKOFF: Duration = Duration::from_millis(50);
/// The longest backoff.
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);
/// The maximum share by which a backoff is shortened.
const JITTER: f64 = 0.25;

/// A queue that removes duplicates.
#[derive(Debug)]
pub struct Queue<K> {
    state: Mutex<QueueState<K>>,
    changed: Notify,
    /// Notified when no key is queued or active.
    became_idle: Notify,
    window: Duration,
}

#[derive(Debug)]
struct QueueState<K> {
    first: VecDeque<K>,
    ready: FairQueue<K>,
    /// The queued keys, each with the time at which it was added.
    queued: HashMap<K, Instant>,
    active: HashSet<K>,
    /// The active keys that were added again, each with the time at which this happened. They are queued once they are
    /// no longer active.
    re_added: HashMap<K, Instant>,
    timers: BTreeSet<(Instant, K)>,
    due: HashMap<K, Instant>,
    /// The number of failures of each key, and the time at which its retry is due.
    failures: HashMap<K, (u32, Instant)>,
    metrics: Metrics,
}

impl<K> QueueState<K> {
    fn empty(metrics: Metrics) -> Self {
        Self {
            first: VecDeque::new(),
            ready: FairQueue::default(),
            queued: HashMap::new(),
            active: HashSet::new(),
            re_added: HashMap::new(),
            timers: BTreeSet::new(),
            due: HashMap::new(),
            failures: HashMap::new(),
            metrics,
        }
    }
}

impl<K: Key> QueueState<K> {
    /// Queues a key, unless it is queued already.
    fn add(&mut self, key: K) {
        if self.queued.contains_key(&key) || self.re_added.contains_key(&key) {
            return;
        }
        let now = Instant::now();
        self.metrics.count_add(key.category());
        if self.active.contains(&key) {
            self.re_added.insert(key, now);
        } else {
            self.push(key, now);
        }
    }

    /// Whether no key is queued or active. Delayed keys do not count.
    fn is_idle(&self) -> bool {
        self.queued.is_empty() && self.active.is_empty()
    }

    fn push(&mut self, key: K, added: Instant) {
        self.metrics.enter_queue(key.category());
        self.queued.insert(key.clone(), added);
        match key.priority() {
            Priority::High => self.first.push_back(key),
            Priority::Fair(namespace) => self.ready.push(namespace, key),
        }
    }

    fn take(&mut self) -> Option<K> {
        let key = self.first.pop_front().or_else(|| self.ready.pop())?;
        if let Some(added) = self.queued.remove(&key) {
            self.metrics.leave_queue(key.category(), added);
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

    /// Like [`Self::schedule`], unless the key is queued already.
    fn delay(&mut self, key: K, at: Instant) {
        if !self.queued.contains_key(&key) {
            self.schedule(key, at);
        }
    }

    /// Queues a key at once and cancels its delay.
    fn put(&mut self, key: K) {
        if let Some(due) = self.due.remove(&key) {
            self.timers.remove(&(due, key.clone()));
        }
        self.add(key);
    }

    /// Releases the memory that a burst of keys has left.
    fn shrink_if_sparse(&mut self) {
        shrink_if_sparse(&mut self.due);
        shrink_if_sparse(&mut self.failures);
        shrink_if_sparse(&mut self.queued);
        shrink_if_sparse(&mut self.re_added);
        self.ready.shrink_if_sparse();
        let first = &mut self.first;
        if is_sparse(first.len(), first.capacity()) {
            first.shrink_to(2 * first.len());
        }
    }

    fn add_due(&mut self, now: Instant) {
        while self.timers.first().is_some_and(|(due, _)| *due <= now) {
            if let Some((_, key)) = self.timers.pop_first() {
                self.due.remove(&key);
                self.add(key);
            }
        }
    }
}

impl<K: Key> Queue<K> {
    /// An empty queue. Changes within `window` that affect a key that [is batched](Key::is_batched) are reconciled
    /// together.
    #[must_use]
    pub fn new(window: Duration, metrics: Metrics) -> Self {
        Self {
            state: Mutex::new(QueueState::empty(metrics)),
            changed: Notify::new(),
            became_idle: Notify::new(),
            window,
        }
    }

    /// Adds keys that a change affects: batched keys after the batching window, other keys at once.
    pub fn enqueue(&self, keys: impl IntoIterator<Item = K>) {
        let mut keys = keys.into_iter().peekable();
        // Most changes affect no key.
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

    /// Adds a key, which becomes due at the end of the batching window.
    pub fn add_after_window(&self, key: K) {
        self.add_after(key, self.window);
    }

    /// Adds a key at once, regardless of its backoff.
    pub fn add(&self, key: K) {
        self.state.lock().put(key);
        self.changed.notify_one();
    }

    /// Adds a key after `delay`, or at its present due time if that is earlier.
    pub fn add_after(&self, key: K, delay: Duration) {
        let mut state = self.state.lock();
        state.delay(key, Instant::now() + delay);
        self.changed.notify_one();
    }

    /// Waits for a key and marks it active. [`Queue::done`] or [`Queue::failed`] must follow.
    pub async fn next(&self) -> K {
        loop {
            let wait = {
                let mut state = self.state.lock();
                state.add_due(Instant::now());
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

    /// Waits until no key is queued or active, at most `limit`.
    pub async fn idle(&self, limit: Duration) {
        let idle = async {
            let mut became_idle = std::pin::pin!(self.became_idle.notified());
            loop {
                // Registers before the check, so that no notification is missed.
                became_idle.as_mut().enable();
                if self.state.lock().is_idle() {
                    return;
                }
                became_idle.as_mut().await;
                became_idle.set(self.became_idle.notified());
            }
        };
        // After the time limit, the caller continues.
        let _ = tokio::time::timeout(limit, idle).await;
    }

    /// Whether `key`, which is active, was added again. If so, the running reconciliation is based on an older state.
    #[must_use]
    pub fn is_re_added(&self, key: &K) -> bool {
        self.state.lock().re_added.contains_key(key)
    }

    /// Ends the work on a key that succeeded, and resets its backoff.
    pub fn done(&self, key: &K) {
        let mut state = self.state.lock();
        state.failures.remove(key);
        self.release(&mut state, key);
    }

    /// Ends the work on a key that failed, and schedules its retry. A further failure before that time does not extend
    /// the backoff.
    pub fn failed(&self, key: &K) {
        let mut state = self.state.lock();
        let now = Instant::now();
        let (failures, due) = state.failures.entry(key.clone()).or_insert((0, now));
        if *due <= now {
            *due = now + backoff(key, *failures);
            *failures += 1;
        }
        let due = *due;
        state.metrics.count_retry(key.category());
        state.schedule(key.clone(), due);
        self.release(&mut state, key);
    }

    fn release(&self, state: &mut QueueState<K>, key: &K) {
        state.active.remove(key);
        if let Some(added) = state.re_added.remove(key) {
            state.push(key.clone(), added);
        }
        state.shrink_if_sparse();
        self.changed.notify_one();
        if state.is_idle() {
            self.became_idle.notify_waiters();
        }
    }
}

/// The backoff of `key` after this number of failures. A hash of the key and the number shortens the backoff by up to a
/// quarter, so that keys that failed together are not retried together.
fn backoff<K: Hash>(key: &K, failures: u32) -> Duration {
    let longest = FIRST_BACKOFF.saturating_mul(1 << failures.min(16)).min(LONGEST_BACKOFF);
    let mut hasher = DefaultHasher::new();
    (key, failures).hash(&mut hasher);
    let share = f64::from(u32::try_from(hasher.finish() >> 32).unwrap_or_default()) / f64::from(u32::MAX);
    longest.mul_f64(1.0 - JITTER * share)
}

#[cfg(test)]
mod tests;
