//! Who may write: one process, the leader, and only while its Lease cannot be another's yet.
//!
//! ```text
//!            renewed       renewed again, from here on    the others may take the Lease
//! leader        │── writes ──────────────▶│ writes no more ──▶│
//!               0         1/3            2/3            3/3 of the Lease's duration
//! follower      │── watches, plans nothing ──────────────────▶│ takes it, plans everything
//! ```
//!
//! A leader counts from before it sent a renewal, a follower from when it saw the renewal, each by a clock of its
//! own that never runs backwards: no two clocks are compared. What was sent in the last moment before the leader
//! stops has a third of the duration to arrive. A process that was stopped and wakes late finds its term over
//! before it sends anything; what was under way even then is refused by the uid and generation that it carries.
//!
//! Why no ready-made crate: kube-lease-manager sleeps until the Lease that it has last seen expires, so that a
//! released one is taken too late; it renews, releases and takes over without a resource version, so that two
//! processes can both succeed; and it tells its user whether it leads, but not until when. The others that there
//! are need an older kube.

mod elector;
mod record;
#[cfg(test)]
mod tests;

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

pub use elector::{Elector, ElectorOptions};

/// Longer than any process runs, and short enough to be added to any moment.
const FOR_EVER: Duration = Duration::from_secs(60 * 60 * 24 * 365 * 30);

/// What everybody who asks is told of the term.
#[derive(Clone, Copy, Debug, Default)]
struct Term {
    /// Counts the terms of this process. One that has lapsed, however shortly, is followed by another.
    number: u64,
    /// Until when it may write; `None` while another may lead.
    until: Option<Instant>,
}

/// A change of leadership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeadershipChange {
    /// A term has begun: what was planned before may be out of date.
    Gained,
    /// It has ended.
    Lost,
}

/// Whether this process leads.
#[derive(Clone, Debug)]
pub struct Leadership {
    term: watch::Receiver<Term>,
    /// The number of the term that [`Leadership::changed`] has last told of.
    last: Option<u64>,
}

impl Leadership {
    /// The leadership of a process that has no rival.
    #[must_use]
    pub fn always() -> Self {
        Self::lasting(Instant::now() + FOR_EVER)
    }

    /// The leadership of a process that only looks.
    #[must_use]
    pub fn never() -> Self {
        let (_, term) = watch::channel(Term::default());
        Self { term, last: None }
    }

    /// One term, which ends at `until`.
    pub(super) fn lasting(until: Instant) -> Self {
        let (_, term) = watch::channel(Term { number: 1, until: Some(until) });
        Self { term, last: None }
    }

    /// Until when it may write, `None` where it may not.
    #[must_use]
    pub fn until(&self) -> Option<Instant> {
        self.term.borrow().until.filter(|until| Instant::now() < *until)
    }

    /// Whether it leads.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.until().is_some()
    }

    /// Waits for the next change that was not told yet. Cancelling it loses none.
    pub(super) async fn changed(&mut self) -> LeadershipChange {
        let running = |term: &Term| term.until.map(|_| term.number);
        let last = self.last;
        let changed = self.term.wait_for(|term| running(term) != last).await.map(|term| running(&term));
        let Ok(now) = changed else {
            // Nobody decides any more: it stays as it is.
            return std::future::pending().await;
        };
        self.last = now;
        if now.is_some() { LeadershipChange::Gained } else { LeadershipChange::Lost }
    }
}

/// The side of [`Leadership`] that decides.
#[derive(Debug)]
struct Terms(watch::Sender<Term>);

impl Terms {
    fn new() -> (Self, Leadership) {
        let (sender, term) = watch::channel(Term::default());
        (Self(sender), Leadership { term, last: None })
    }

    /// Allows writes until `until`, in a new term where the present one is over. Who asked in between was told so,
    /// and may have left something undone.
    fn extend(&self, until: Instant) {
        self.0.send_modify(|term| {
            if term.until.is_none_or(|before| before <= Instant::now()) {
                term.number += 1;
            }
            term.until = Some(until);
        });
    }

    /// Ends the term.
    fn end(&self) {
        self.0.send_if_modified(|term| term.until.take().is_some());
    }

    /// Ends the term where its time is over, and returns whether it did.
    fn lapse(&self) -> bool {
        self.0.send_if_modified(|term| term.until.take_if(|until| *until <= Instant::now()).is_some())
    }

    fn running(&self) -> bool {
        self.0.borrow().until.is_some()
    }
}
