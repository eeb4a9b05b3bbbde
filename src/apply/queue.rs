//! A queue of keys: each is there once, none is worked on twice at a time, and each has its own backoff.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::mirror::Key;
use crate::telemetry::metrics::Metrics;

/// The first wait after a failure; it doubles with each further one.
const FIRST_BACKOFF: Duration = Duration::from_millis(50);
/// The longest wait.
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);
/// For how long folds give way while works are written: what spokes get goes before what is told of them. Then they take
/// turns with other works.
const FOLDS_GIVE_WAY: Duration = Duration::from_secs(2);

/// A de-duplicating queue.
#[derive(Debug)]
pub struct Queue {
    state: Mutex<State>,
    changed: Notify,
    metrics: Metrics,
}

#[derive(Debug, Default)]
struct State {
    /// Watches, classes and access first: what they do, many others wait for.
    urgent: VecDeque<Key>,
    works: VecDeque<Key>,
    /// Folds last, each with when it came.
    folds: VecDeque<(Instant, Key)>,
    queued: HashSet<Key>,
    active: HashSet<Key>,
    /// How many are writing works.
    writing: usize,
    /// Whether it is the turn of a work where there are works and folds.
    turn_of_works: bool,
    /// Keys that were added while they were worked on.
    again: HashSet<Key>,
    timers: BTreeSet<(Instant, Key)>,
    due: HashMap<Key, Instant>,
    /// How often each has failed, and when it is to be tried again.
    failures: HashMap<Key, (u32, Instant)>,
}

impl State {
    fn push(&mut self, key: Key) -> bool {
        if self.active.contains(&key) {
            return self.again.insert(key);
        }
        if !self.queued.insert(key.clone()) {
            return false;
        }
        match key {
            Key::Watches | Key::Class(_) | Key::Access(_) => self.urgent.push_back(key),
            Key::Works(_) => self.works.push_back(key),
            Key::Fold(_) => self.folds.push_back((Instant::now(), key)),
        }
        true
    }

    /// Takes the next key to be worked on.
    fn take(&mut self, now: Instant) -> Option<Key> {
        let folds = self.folds_are_due().is_some_and(|due| due <= now);
        let key = match self.urgent.pop_front() {
            Some(key) => key,
            None if folds && (!self.turn_of_works || self.works.is_empty()) => {
                self.turn_of_works = true;
                self.folds.pop_front()?.1
            }
            None => {
                self.turn_of_works = false;
                self.works.pop_front()?
            }
        };
        self.queued.remove(&key);
        self.active.insert(key.clone());
        Some(key)
    }

    /// From when on the next fold gives way no longer; `None` where there is no fold.
    fn folds_are_due(&self) -> Option<Instant> {
        let (since, _) = self.folds.front()?;
        Some(if self.writing > 0 { *since + FOLDS_GIVE_WAY } else { *since })
    }

    fn release(&mut self, key: &Key) {
        self.active.remove(key);
        if self.again.remove(key) {
            self.push(key.clone());
        }
    }

    /// When there may be a key that can be taken.
    fn next(&self) -> Option<Instant> {
        let timer = self.timers.first().map(|(due, _)| *due);
        timer.into_iter().chain(self.folds_are_due()).min()
    }

    fn schedule(&mut self, key: Key, at: Instant) {
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

    fn unschedule(&mut self, key: &Key) {
        if let Some(due) = self.due.remove(key) {
            self.timers.remove(&(due, key.clone()));
        }
    }

    fn mature(&mut self, now: Instant) {
        while self.timers.first().is_some_and(|(due, _)| *due <= now) {
            if let Some((_, key)) = self.timers.pop_first() {
                self.due.remove(&key);
                self.push(key);
            }
        }
    }
}

impl Queue {
    /// An empty queue.
    #[must_use]
    pub fn new(metrics: Metrics) -> Self {
        Self { state: Mutex::default(), changed: Notify::new(), metrics }
    }

    /// Adds a key to be worked on as soon as possible, whatever its backoff.
    pub fn add(&self, key: Key) {
        let mut state = self.state.lock();
        state.unschedule(&key);
        let category = key.category();
        if state.push(key) {
            self.metrics.added(category);
        }
        self.settle(&state);
    }

    /// Adds a key to be worked on after `delay`, or when it is due already, whichever is earlier.
    pub fn add_after(&self, key: Key, delay: Duration) {
        let mut state = self.state.lock();
        if !state.queued.contains(&key) {
            state.schedule(key, Instant::now() + delay);
        }
        self.settle(&state);
    }

    /// Waits for a key and takes it; [`Queue::done`] gives it back.
    pub async fn next(&self) -> Key {
        loop {
            let wait = {
                let mut state = self.state.lock();
                let now = Instant::now();
                state.mature(now);
                if let Some(key) = state.take(now) {
                    self.settle(&state);
                    return key;
                }
                state.next()
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

    /// Has folds give way for as long as what this returns is there.
    #[must_use]
    pub fn writing(&self) -> Writing<'_> {
        self.state.lock().writing += 1;
        Writing(self)
    }

    /// Gives a key back that was worked on well.
    pub fn done(&self, key: &Key) {
        let mut state = self.state.lock();
        state.failures.remove(key);
        state.release(key);
        self.settle(&state);
    }

    /// Gives a key back that failed: it is added again after its backoff. One that was added before that was over is
    /// tried again when it would have been.
    pub fn failed(&self, key: &Key) {
        let mut state = self.state.lock();
        let now = Instant::now();
        let (failures, due) = state.failures.entry(key.clone()).or_insert((0, now));
        if *due <= now {
            *due = now + FIRST_BACKOFF.saturating_mul(1 << (*failures).min(16)).min(LONGEST_BACKOFF);
            *failures += 1;
        }
        let due = *due;
        self.metrics.retried(key.category());
        state.schedule(key.clone(), due);
        state.release(key);
        self.settle(&state);
    }

    fn settle(&self, state: &State) {
        self.metrics.queue(state.active.len(), state.queued.len());
        self.changed.notify_one();
    }
}

/// Works are being written.
#[derive(Debug)]
pub struct Writing<'q>(&'q Queue);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.writing -= 1;
        self.0.settle(&state);
    }
}

#[cfg(test)]
mod tests;
