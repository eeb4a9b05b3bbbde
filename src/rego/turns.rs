//! Who is evaluated when: as many at once as there are cores, the rest in turn by kind, and only so many wait. Where they are too many,
//! the newest of the kind that has most goes: what comes in numbers keeps nobody else from waiting.
//!
//! Kinds whose last evaluation ran out of time are taken where nobody else waits: what hangs must not have all others wait a
//! second each.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::in_turn::InTurn;

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
    /// Those that wait, by kind.
    fast: InTurn<oneshot::Sender<Turn>>,
    slow: InTurn<oneshot::Sender<Turn>>,
    /// Those that ran out of time, the last one last.
    slow_kinds: VecDeque<Arc<str>>,
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
        let (fast, slow) = (InTurn::default(), InTurn::default());
        Self(Arc::new(Mutex::new(State {
            free: at_once,
            waiting: 0,
            fast,
            slow,
            slow_kinds: VecDeque::new(),
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
                // Those that do not wait any more leave their places.
                let waits = |waiter: &oneshot::Sender<Turn>| !waiter.is_closed();
                let left = state.fast.retain(waits) + state.slow.retain(waits);
                state.waiting -= left;
            }
            if state.waiting >= WAITING && !state.gives_way(&kind) {
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

    /// Gives a turn that has ended to the next that still waits.
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

impl State {
    /// Has the newest of the kind that has most wait no longer, where that has more than `kind` would have.
    fn gives_way(&mut self, kind: &str) -> bool {
        let own = self.fast.count(kind) + self.slow.count(kind);
        let (fast, slow) = (self.fast.largest(), self.slow.largest());
        let size = |largest: &Option<(Arc<str>, usize)>| largest.as_ref().map_or(0, |(_, size)| *size);
        let (line, largest) =
            if size(&slow) >= size(&fast) { (&mut self.slow, slow) } else { (&mut self.fast, fast) };
        let Some((most, _)) = largest.filter(|(_, size)| *size > own + 1) else { return false };
        // Whoever waits for it is told by its end.
        let goes = line.pop_newest(&most).is_some();
        self.waiting -= usize::from(goes);
        goes
    }
}

impl Turn {
    /// Ends it, and notes whether the evaluation of `kind` ran out of time.
    pub fn ended(self, kind: &str, too_long: bool) {
        let Some(turns) = &self.turns else { return };
        let mut state = turns.0.lock();
        state.slow_kinds.retain(|slow| &**slow != kind);
        if too_long {
            // Who never comes back makes room.
            if state.slow_kinds.len() >= SLOW {
                state.slow_kinds.pop_front();
            }
            state.slow_kinds.push_back(kind.into());
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
