//! Leader election: only one process writes, and only while no other process can hold the Lease.
//!
//! ```text
//!            renewed       renewed again, from here on    the others may take the Lease
//! leader        │── writes ──────────────▶│ writes no more ──▶│
//!               0         1/3            2/3            3/3 of the Lease's duration
//! follower      │── watches, plans nothing ──────────────────▶│ takes it, plans everything
//! ```
//!
//! A leader measures the duration of the Lease from before it sends a renewal. A follower measures it from when it
//! reads the renewal. Each process uses its own monotonic clock, so no two clocks are compared. A write that was sent
//! just before the leader stops has a third of the duration to arrive. A process that was suspended detects that its
//! term is over before it sends anything. If a write was already in flight, the API server rejects it because of the
//! uid and generation that the write contains.
//!
//! Existing crates do not fit. kube-lease-manager sleeps until the Lease that it last saw expires, so it takes a
//! released Lease too late. It renews, releases and takes over without a resource version, so two processes can both
//! succeed. It reports whether the process leads, but not until when. Other crates need an older kube.

mod elector;
mod record;
#[cfg(test)]
mod tests;

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

pub use elector::{Elector, ElectorOptions};

/// A duration that is longer than any process runs, and short enough to be added to any `Instant`.
const FOREVER: Duration = Duration::from_secs(60 * 60 * 24 * 365 * 30);

/// A term of leadership, as all clones of [`Leadership`] observe it.
#[derive(Clone, Copy, Debug, Default)]
struct Term {
    /// The number of the term in this process. A renewal after the end of a term starts a new term, even if the gap is
    /// short.
    number: u64,
    /// The end of the time in which this process may write; `None` while another process may lead.
    until: Option<Instant>,
}

/// A change of leadership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeadershipChange {
    /// A term has begun. Earlier plans may be out of date.
    Gained,
    /// The term has ended.
    Lost,
}

/// Whether this process is the leader, and until when. Clones observe the same terms.
#[derive(Clone, Debug)]
pub struct Leadership {
    term: watch::Receiver<Term>,
    /// The number of the term that [`Leadership::changed`] last reported.
    last: Option<u64>,
}

impl Leadership {
    /// The leadership of a process without leader election, which always leads.
    #[must_use]
    pub fn always() -> Self {
        Self::lasting(Instant::now() + FOREVER)
    }

    /// The leadership of a read-only process, which never leads.
    #[must_use]
    pub fn never() -> Self {
        let (_, term) = watch::channel(Term::default());
        Self { term, last: None }
    }

    /// One term that ends at `until`.
    pub(super) fn lasting(until: Instant) -> Self {
        let (_, term) = watch::channel(Term { number: 1, until: Some(until) });
        Self { term, last: None }
    }

    /// When the right to write ends; `None` without that right.
    #[must_use]
    pub fn until(&self) -> Option<Instant> {
        self.term.borrow().until.filter(|until| Instant::now() < *until)
    }

    /// Whether this process may write now.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.until().is_some()
    }

    /// Waits for the next change that was not reported yet. Cancelling the wait loses no change.
    pub(super) async fn changed(&mut self) -> LeadershipChange {
        let running = |term: &Term| term.until.map(|_| term.number);
        let last = self.last;
        let changed = self.term.wait_for(|term| running(term) != last).await.map(|term| running(&term));
        let Ok(now) = changed else {
            // The elector was dropped, so no change can follow.
            return std::future::pending().await;
        };
        self.last = now;
        if now.is_some() { LeadershipChange::Gained } else { LeadershipChange::Lost }
    }
}

/// Changes the term that [`Leadership`] observes. Used by the elector.
#[derive(Debug)]
struct TermSender(watch::Sender<Term>);

impl TermSender {
    fn new() -> (Self, Leadership) {
        let (sender, term) = watch::channel(Term::default());
        (Self(sender), Leadership { term, last: None })
    }

    /// Allows writes until `until`. If the current term is over, starts a new term, because keys may have been dropped
    /// between the terms.
    fn extend(&self, until: Instant) {
        self.0.send_modify(|term| {
            if term.until.is_none_or(|before| before <= Instant::now()) {
                term.number += 1;
            }
            term.until = Some(until);
        });
    }

    /// Ends the term at once, for example because another process took the Lease.
    fn end(&self) {
        self.0.send_if_modified(|term| term.until.take().is_some());
    }

    /// Ends the term if its time is over. Returns whether the term was ended.
    fn end_if_expired(&self) -> bool {
        self.0.send_if_modified(|term| term.until.take_if(|until| *until <= Instant::now()).is_some())
    }

    fn running(&self) -> bool {
        self.0.borrow().until.is_some()
    }
}
