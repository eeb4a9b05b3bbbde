//! The open connections of a listener: evicts one for a new connection, and closes those past their time
//! limits.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use super::Limits;

/// The time limit of a request's head; for the first one, from the accept.
const HEAD: Duration = Duration::from_secs(10);
/// The time limit of a body. Handlers that respond with 408 have shorter limits.
const BODY: Duration = Duration::from_secs(10);
/// The time limit of idle connections. The API server closes them after 90 s; a shorter limit here would
/// close a connection just as a review is sent.
const IDLE: Duration = Duration::from_secs(100);
/// The time limit for the peer to read a complete response.
const ANSWER: Duration = Duration::from_secs(30);
/// How long a write may make no progress.
const STALLED: Duration = Duration::from_secs(10);
/// How long a request body or response is protected from eviction during its transfer. Those of an API server
/// take milliseconds.
const TRANSFER: Duration = Duration::from_secs(1);

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Accepted; no head has been read yet.
    Opening,
    /// Waiting for the next request.
    Idle,
    /// The next head has begun.
    Head,
    /// A head has been read, and its body is being read.
    Receiving,
    /// The request has been read and is being handled.
    Handling,
    /// The response is being sent.
    Sending,
    /// The response is complete, but the peer has not read all of it.
    Flushing,
}

/// An open connection.
#[derive(Debug)]
pub(super) struct Seat {
    peer: IpAddr,
    is_preferred: AtomicBool,
    state: Mutex<State>,
    has_ended: AtomicBool,
    ends: CancellationToken,
}

#[derive(Clone, Copy, Debug)]
struct State {
    phase: Phase,
    since: Instant,
    /// Since when a write has made no progress.
    stalled: Option<Instant>,
}

/// The order of eviction: connections without a credential first, then those not in a transfer, then the
/// oldest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    /// Whether the peer has sent a credential or a valid review.
    is_preferred: bool,
    /// Whether a slow transfer is in progress.
    is_in_transfer: bool,
    since: Instant,
}

impl Seat {
    fn new(peer: IpAddr, now: Instant) -> Self {
        Self {
            peer,
            is_preferred: AtomicBool::new(false),
            state: Mutex::new(State { phase: Phase::Opening, since: now, stalled: None }),
            has_ended: AtomicBool::new(false),
            ends: CancellationToken::new(),
        }
    }

    pub(super) fn peer(&self) -> IpAddr {
        self.peer
    }

    /// Protects the connection: others are evicted first.
    pub(super) fn prefer(&self) {
        self.is_preferred.store(true, Ordering::Relaxed);
    }

    pub(super) fn enter(&self, phase: Phase) {
        self.enter_at(phase, Instant::now());
    }

    fn enter_at(&self, phase: Phase, now: Instant) {
        *self.state.lock() = State { phase, since: now, stalled: None };
    }

    /// Enters `next` if the phase is `from`.
    pub(super) fn advance(&self, from: Phase, next: Phase) {
        let mut state = self.state.lock();
        if state.phase == from {
            *state = State { phase: next, since: Instant::now(), stalled: None };
        }
    }

    /// Records whether a write waits for the peer.
    pub(super) fn stalls(&self, is_stalled: bool) {
        let mut state = self.state.lock();
        match (is_stalled, state.stalled) {
            (true, None) => state.stalled = Some(Instant::now()),
            (false, Some(_)) => state.stalled = None,
            (true, Some(_)) | (false, None) => {}
        }
    }

    /// Closes the connection.
    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
        self.ends.cancel();
    }

    /// Waits until the connection is closed.
    pub(super) fn ended(&self) -> WaitForCancellationFuture<'_> {
        self.ends.cancelled()
    }

    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    fn is_overdue(&self, now: Instant) -> bool {
        let State { phase, since, stalled } = *self.state.lock();
        let limit = match phase {
            Phase::Opening | Phase::Head => Some(HEAD),
            Phase::Idle => Some(IDLE),
            Phase::Receiving => Some(BODY),
            Phase::Flushing => Some(ANSWER),
            // Handlers have their own time limits, and event streams are unlimited.
            Phase::Handling | Phase::Sending => None,
        };
        let has_passed = |since: Instant, limit| now.saturating_duration_since(since) >= limit;
        limit.is_some_and(|limit| has_passed(since, limit))
            || stalled.is_some_and(|since| has_passed(since, STALLED))
    }

    /// The rank for eviction; `None` while a request is being handled, or for a short time while it is
    /// transferred.
    fn rank(&self, now: Instant) -> Option<Rank> {
        let State { phase, since, .. } = *self.state.lock();
        let is_in_transfer = match phase {
            Phase::Opening | Phase::Idle | Phase::Head => false,
            Phase::Receiving | Phase::Sending | Phase::Flushing => true,
            Phase::Handling => return None,
        };
        if is_in_transfer && now.saturating_duration_since(since) < TRANSFER {
            return None;
        }
        let is_preferred = self.is_preferred.load(Ordering::Relaxed);
        Some(Rank { is_preferred, is_in_transfer, since })
    }
}

/// All open connections of a listener.
#[derive(Debug)]
pub(super) struct Seats {
    limits: Limits,
    open: Vec<Arc<Seat>>,
}

impl Seats {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, open: Vec::new() }
    }

    /// Registers a new connection from `peer`. May evict another connection. Returns `None` if all candidates
    /// are in the middle of a request.
    ///
    /// An address at its limit replaces one of its own connections, so that one pod does not evict
    /// connections of others. When the listener is full, the connection that has been idle longest is
    /// evicted. Attackers at many addresses hold the oldest connections, while those of an API server are new
    /// or in use.
    pub(super) fn take(&mut self, peer: IpAddr, now: Instant) -> Option<Arc<Seat>> {
        self.open.retain(|seat| !seat.has_ended());
        let own = self.open.iter().filter(|seat| seat.peer == peer).count();
        let has_room = if own >= self.limits.per_peer {
            self.evict_where(now, |seat| seat.peer == peer)
        } else {
            self.open.len() < self.limits.total || self.evict(now)
        };
        has_room.then(|| {
            let seat = Arc::new(Seat::new(peer, now));
            self.open.push(seat.clone());
            seat
        })
    }

    /// Evicts the first connection in the order of eviction. Returns whether there was one.
    pub(super) fn evict(&mut self, now: Instant) -> bool {
        self.evict_where(now, |_| true)
    }

    fn evict_where(&mut self, now: Instant, is_meant: impl Fn(&Seat) -> bool) -> bool {
        let meant = self.open.iter().enumerate().filter(|(_, seat)| is_meant(seat) && !seat.has_ended());
        let ranked = meant.filter_map(|(index, seat)| Some((seat.rank(now)?, index)));
        let Some((_, index)) = ranked.min() else { return false };
        self.open.swap_remove(index).end();
        true
    }

    /// Closes the connections past their time limits.
    pub(super) fn end_overdue(&mut self, now: Instant) {
        self.open.retain(|seat| {
            if seat.is_overdue(now) {
                seat.end();
            }
            !seat.has_ended()
        });
    }
}

#[cfg(test)]
mod tests;
