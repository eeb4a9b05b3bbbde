//! Slots for evaluations: limited in number, and shared fairly among tenants.
//!
//! `schedule` selects the next evaluation. A tenant is a namespace, or the user of a request without a namespace.

mod costs;
mod schedule;

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;

pub use schedule::Requester;
use schedule::{Schedule, Ticket, WAITING};

/// Assigns slots. Clones share them.
#[derive(Clone, Debug)]
pub struct Turns(Arc<Mutex<Schedule<oneshot::Sender<Turn>>>>);

/// A slot for one evaluation. Dropping it lets the next evaluation begin.
#[derive(Debug)]
pub struct Turn {
    turns: Turns,
    /// `None` after the end of the evaluation.
    ticket: Option<Ticket>,
    /// Whether the evaluation ran out of time, if known.
    ran_out: Option<bool>,
}

impl Turns {
    /// Creates `at_once` slots, and two more for evaluations that are not known to be long.
    #[must_use]
    pub fn new(at_once: usize) -> Self {
        Self(Arc::new(Mutex::new(Schedule::new(at_once))))
    }

    /// Waits for a slot. Returns `None` if too many evaluations wait and the tenant has its share of the queue.
    pub async fn take(&self, requester: Requester) -> Option<Turn> {
        let (waiter, waits) = oneshot::channel();
        {
            let mut schedule = self.0.lock();
            if schedule.waiting() >= WAITING {
                // Remove the waiters of requests that have timed out.
                schedule.retain(|waiter| !waiter.is_closed());
            }
            schedule.push(requester, waiter).ok()?;
        }
        self.begin();
        waits.await.ok()
    }

    /// Starts all evaluations that may begin.
    fn begin(&self) {
        loop {
            let (waiter, turn) = {
                let mut schedule = self.0.lock();
                let Some((ticket, waiter)) = schedule.pop(Instant::now()) else { return };
                (waiter, Turn { turns: self.clone(), ticket: Some(ticket), ran_out: None })
            };
            if let Err(mut unused) = waiter.send(turn) {
                // The request timed out. End the turn here: its drop would call this method again.
                unused.end();
            }
        }
    }
}

impl Turn {
    /// Ends the evaluation and records whether it ran out of time.
    pub fn ended(mut self, ran_out: bool) {
        self.ran_out = Some(ran_out);
    }

    /// Ends the evaluation. Returns whether it was still running.
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
