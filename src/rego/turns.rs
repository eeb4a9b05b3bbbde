//! Turns of evaluations: bounded in number, and shared fairly by tenants.
//!
//! `schedule` decides which is next. A tenant is a namespace, or the user of a request that has none.

mod costs;
mod schedule;

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;

pub use schedule::Requester;
use schedule::{Schedule, Ticket, WAITING};

/// Hands out turns. Clones share them.
#[derive(Clone, Debug)]
pub struct Turns(Arc<Mutex<Schedule<oneshot::Sender<Turn>>>>);

/// A turn; the next begins once it is dropped.
#[derive(Debug)]
pub struct Turn {
    turns: Turns,
    /// `None` once it has ended.
    ticket: Option<Ticket>,
    /// Whether the evaluation ran out of time, once that is known.
    ran_out: Option<bool>,
}

impl Turns {
    /// Turns of `at_once` evaluations, and of two more that are not known to be long.
    #[must_use]
    pub fn new(at_once: usize) -> Self {
        Self(Arc::new(Mutex::new(Schedule::new(at_once))))
    }

    /// Waits for a turn; `None` where too many wait, and this tenant has its share of them.
    pub async fn take(&self, requester: Requester) -> Option<Turn> {
        let (waiter, waits) = oneshot::channel();
        {
            let mut schedule = self.0.lock();
            if schedule.waiting() >= WAITING {
                // Requests that have timed out are still there.
                schedule.retain(|waiter| !waiter.is_closed());
            }
            schedule.push(requester, waiter).ok()?;
        }
        self.begin();
        waits.await.ok()
    }

    /// Has every evaluation begin that may.
    fn begin(&self) {
        loop {
            let (waiter, turn) = {
                let mut schedule = self.0.lock();
                let Some((ticket, waiter)) = schedule.pop(Instant::now()) else { return };
                (waiter, Turn { turns: self.clone(), ticket: Some(ticket), ran_out: None })
            };
            if let Err(mut unused) = waiter.send(turn) {
                // The request timed out. The turn is ended here, because its drop would call this method.
                unused.end();
            }
        }
    }
}

impl Turn {
    /// Ends it, and notes whether the evaluation ran out of time.
    pub fn ended(mut self, ran_out: bool) {
        self.ran_out = Some(ran_out);
    }

    /// Ends it, and returns whether it had not ended before.
    fn end(&mut self) -> bool {
        let ticket = self.ticket.take();
        if let Some(ticket) = &ticket {
            self.turns.0.lock().end(ticket, self.ran_out, Instant::now());
        }
        ticket.is_some()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.end() {
            self.turns.begin();
        }
    }
}

#[cfg(test)]
mod tests;
