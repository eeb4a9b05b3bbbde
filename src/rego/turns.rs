//! Who is evaluated when: as many at once as there are cores, the rest in turn by kind, and only so many wait.
//!
//! Kinds whose last evaluation ran out of time are taken where nobody else waits: what hangs must not have all others wait a
//! second each.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// How many may wait.
const WAITING: usize = 256;
/// How many kinds that ran out of time are remembered.
const SLOW: usize = 64;

/// Hands out turns. Clones hand out the same.
#[derive(Clone, Debug)]
pub struct Turns(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    free: usize,
    waiting: usize,
    fast: Line,
    slow: Line,
    slow_kinds: HashSet<Arc<str>>,
}

/// Those that wait, by kind.
#[derive(Debug, Default)]
struct Line {
    kinds: VecDeque<Arc<str>>,
    by_kind: HashMap<Arc<str>, VecDeque<oneshot::Sender<Turn>>>,
}

impl Line {
    fn push(&mut self, kind: Arc<str>, waiter: oneshot::Sender<Turn>) {
        let waiters = self.by_kind.entry(kind.clone()).or_default();
        if waiters.is_empty() {
            self.kinds.push_back(kind);
        }
        waiters.push_back(waiter);
    }

    fn pop(&mut self) -> Option<oneshot::Sender<Turn>> {
        let kind = self.kinds.pop_front()?;
        let waiters = self.by_kind.get_mut(&kind)?;
        let waiter = waiters.pop_front();
        if waiters.is_empty() {
            self.by_kind.remove(&kind);
        } else {
            self.kinds.push_back(kind);
        }
        waiter
    }

    /// Those that do not wait any more leave their places.
    fn leave(&mut self) -> usize {
        let mut left = 0;
        self.by_kind.retain(|_, waiters| {
            let before = waiters.len();
            waiters.retain(|waiter| !waiter.is_closed());
            left += before - waiters.len();
            !waiters.is_empty()
        });
        let by_kind = &self.by_kind;
        self.kinds.retain(|kind| by_kind.contains_key(kind));
        left
    }
}

/// A turn; the next begins once it is dropped.
#[derive(Debug)]
pub struct Turn {
    /// None where it is none.
    turns: Option<Turns>,
}

impl Turns {
    /// So many at once.
    #[must_use]
    pub fn new(at_once: usize) -> Self {
        let (fast, slow) = (Line::default(), Line::default());
        Self(Arc::new(Mutex::new(State {
            free: at_once,
            waiting: 0,
            fast,
            slow,
            slow_kinds: HashSet::new(),
        })))
    }

    /// Waits for a turn of `kind`; `None` where too many wait.
    pub async fn take(&self, kind: &str) -> Option<Turn> {
        let kind: Arc<str> = kind.into();
        let waits = {
            let mut state = self.0.lock();
            if state.free > 0 {
                state.free -= 1;
                return Some(Turn { turns: Some(self.clone()) });
            }
            if state.waiting >= WAITING {
                let left = state.fast.leave() + state.slow.leave();
                state.waiting -= left;
            }
            if state.waiting >= WAITING {
                return None;
            }
            state.waiting += 1;
            let (waiter, waits) = oneshot::channel();
            let is_slow = state.slow_kinds.contains(&kind);
            let line = if is_slow { &mut state.slow } else { &mut state.fast };
            line.push(kind, waiter);
            waits
        };
        waits.await.ok()
    }

    /// Gives the turn of `kind`, which has ended, to the next that still waits.
    fn next(&self) {
        loop {
            let (waiter, turn) = {
                let mut state = self.0.lock();
                let Some(waiter) = state.fast.pop().or_else(|| state.slow.pop()) else {
                    state.free += 1;
                    return;
                };
                state.waiting -= 1;
                (waiter, Turn { turns: Some(self.clone()) })
            };
            match waiter.send(turn) {
                Ok(()) => return,
                // Nobody waits for it any more: it is the next one's.
                Err(mut turn) => turn.turns = None,
            }
        }
    }
}

impl Turn {
    /// Ends it, and notes whether the evaluation of `kind` ran out of time.
    pub fn ended(self, kind: &str, too_long: bool) {
        let Some(turns) = &self.turns else { return };
        let mut state = turns.0.lock();
        if !too_long {
            state.slow_kinds.remove(kind);
        } else if state.slow_kinds.len() < SLOW {
            state.slow_kinds.insert(kind.into());
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(turns) = self.turns.take() {
            turns.next();
        }
    }
}

#[cfg(test)]
mod tests;
