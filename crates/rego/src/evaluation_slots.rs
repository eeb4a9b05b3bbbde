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
use schedule::{MAX_WAITING, Schedule, Ticket};

/// Assigns slots to evaluations. Clones share the slots.
#[derive(Clone, Debug)]
pub struct EvaluationSlots(Arc<Mutex<Schedule<oneshot::Sender<EvaluationSlot>>>>);

/// A slot for one evaluation. Dropping it lets the next evaluation begin.
#[derive(Debug)]
pub struct EvaluationSlot {
    evaluation_slots: EvaluationSlots,
    /// The ticket of the evaluation; `None` after the evaluation has ended.
    ticket: Option<Ticket>,
    /// Whether the evaluation ran out of time, if known.
    timed_out: Option<bool>,
}

impl EvaluationSlots {
    /// Creates `max_concurrent` slots, and two more for evaluations that are not known to be long.
    #[must_use]
    pub fn new(max_concurrent: usize) -> Self {
        Self(Arc::new(Mutex::new(Schedule::new(max_concurrent))))
    }

    /// Waits for a slot. Returns `None` if too many evaluations wait and the tenant already has its share of the queue.
    pub async fn acquire(&self, requester: Requester) -> Option<EvaluationSlot> {
        let (waiter, waits) = oneshot::channel();
        {
            let mut schedule = self.0.lock();
            if schedule.waiting() >= MAX_WAITING {
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
            let (waiter, slot) = {
                let mut schedule = self.0.lock();
                let Some((ticket, waiter)) = schedule.pop(Instant::now()) else { return };
                (
                    waiter,
                    EvaluationSlot { evaluation_slots: self.clone(), ticket: Some(ticket), timed_out: None },
                )
            };
            if let Err(mut unused) = waiter.send(slot) {
                // The request timed out. End the slot here: dropping it would call this method again.
                unused.end();
            }
        }
    }
}

impl EvaluationSlot {
    /// Ends the evaluation and records whether it ran out of time.
    pub fn finish(mut self, timed_out: bool) {
        self.timed_out = Some(timed_out);
    }

    /// Ends the evaluation. Returns whether it was still running.
    fn end(&mut self) -> bool {
        let ticket = self.ticket.take();
        if let Some(ticket) = &ticket {
            self.evaluation_slots.0.lock().end(ticket, self.timed_out, Instant::now());
        }
        ticket.is_some()
    }
}

impl Drop for EvaluationSlot {
    fn drop(&mut self) {
        if self.end() {
            self.evaluation_slots.begin();
        }
    }
}

#[cfg(test)]
mod tests;
