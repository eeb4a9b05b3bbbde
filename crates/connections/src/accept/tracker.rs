//! Tracks the open connections of a listener. Evicts a connection if a new one needs its place, and closes connections
//! past their time limits.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use super::Limits;

/// The time limit of a request's head. For the first request of a connection, the time starts when the connection is
/// accepted.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// The time limit of a body. Handlers have shorter limits, after which they respond with 408.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// The time limit of idle connections. The API server closes idle connections after 90 s; a shorter limit here would
/// close a connection just as a review is sent.
const IDLE_TIMEOUT: Duration = Duration::from_secs(100);
/// The time limit for the peer to read a complete response.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a write may make no progress.
const STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a request body or response is protected from eviction during its transfer. Transfers from and to an API
/// server take milliseconds.
const TRANSFER_PROTECTION: Duration = Duration::from_secs(1);

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Accepted; no head has been read yet.
    Opening,
    /// The connection waits for the next request.
    Idle,
    /// The beginning of the next head has been received.
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
pub(super) struct TrackedConnection {
    peer: IpAddr,
    is_preferred: AtomicBool,
    state: Mutex<PhaseState>,
    is_closed: AtomicBool,
    closed: CancellationToken,
}

#[derive(Clone, Copy, Debug)]
struct PhaseState {
    phase: Phase,
    since: Instant,
    /// The time since which a write has made no progress.
    stalled: Option<Instant>,
}

/// The order of eviction: connections without a credential first, then connections that are not in a transfer, then the
/// oldest connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct EvictionRank {
    /// Whether the peer has sent a credential or a valid review.
    is_preferred: bool,
    /// Whether a slow transfer is in progress.
    is_in_transfer: bool,
    since: Instant,
}

impl TrackedConnection {
    fn new(peer: IpAddr, now: Instant) -> Self {
        Self {
            peer,
            is_preferred: AtomicBool::new(false),
            state: Mutex::new(PhaseState { phase: Phase::Opening, since: now, stalled: None }),
            is_closed: AtomicBool::new(false),
            closed: CancellationToken::new(),
        }
    }

    pub(super) fn peer(&self) -> IpAddr {
        self.peer
    }

    /// Protects the connection: connections without this protection are evicted first.
    pub(super) fn prefer(&self) {
        self.is_preferred.store(true, Ordering::Relaxed);
    }

    pub(super) fn enter(&self, phase: Phase) {
        self.enter_at(phase, Instant::now());
    }

    fn enter_at(&self, phase: Phase, now: Instant) {
        *self.state.lock() = PhaseState { phase, since: now, stalled: None };
    }

    /// Enters `next` if the phase is `from`.
    pub(super) fn advance(&self, from: Phase, next: Phase) {
        let mut state = self.state.lock();
        if state.phase == from {
            *state = PhaseState { phase: next, since: Instant::now(), stalled: None };
        }
    }

    /// Records whether a write waits for the peer.
    pub(super) fn set_stalled(&self, is_stalled: bool) {
        let mut state = self.state.lock();
        match (is_stalled, state.stalled) {
            (true, None) => state.stalled = Some(Instant::now()),
            (false, Some(_)) => state.stalled = None,
            (true, Some(_)) | (false, None) => {}
        }
    }

    /// Closes the connection.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.closed.cancel();
    }

    /// Waits until the connection is closed.
    pub(super) fn wait_closed(&self) -> WaitForCancellationFuture<'_> {
        self.closed.cancelled()
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    fn is_expired(&self, now: Instant) -> bool {
        let PhaseState { phase, since, stalled } = *self.state.lock();
        let limit = match phase {
            Phase::Opening | Phase::Head => Some(HEAD_TIMEOUT),
            Phase::Idle => Some(IDLE_TIMEOUT),
            Phase::Receiving => Some(BODY_TIMEOUT),
            Phase::Flushing => Some(FLUSH_TIMEOUT),
            // Handlers have their own time limits, and event streams are unlimited.
            Phase::Handling | Phase::Sending => None,
        };
        let is_past = |since: Instant, limit| now.saturating_duration_since(since) >= limit;
        limit.is_some_and(|limit| is_past(since, limit))
            || stalled.is_some_and(|since| is_past(since, STALL_TIMEOUT))
    }

    /// The rank for eviction. `None` while a request is being handled, and for a short time at the start of a transfer.
    fn rank(&self, now: Instant) -> Option<EvictionRank> {
        let PhaseState { phase, since, .. } = *self.state.lock();
        let is_in_transfer = match phase {
            Phase::Opening | Phase::Idle | Phase::Head => false,
            Phase::Receiving | Phase::Sending | Phase::Flushing => true,
            Phase::Handling => return None,
        };
        if is_in_transfer && now.saturating_duration_since(since) < TRANSFER_PROTECTION {
            return None;
        }
        let is_preferred = self.is_preferred.load(Ordering::Relaxed);
        Some(EvictionRank { is_preferred, is_in_transfer, since })
    }
}

/// All open connections of a listener.
#[derive(Debug)]
pub(super) struct ConnectionTracker {
    limits: Limits,
    open: Vec<Arc<TrackedConnection>>,
}

impl ConnectionTracker {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, open: Vec::new() }
    }

    /// Registers a new connection from `peer`. May evict another connection. Returns `None` if all candidates
    /// are in the middle of a request.
    ///
    /// An address at its limit replaces one of its own connections, so that one pod does not evict connections of other
    /// pods. When the listener is full, a connection of any address is evicted. This does not affect an API server: its
    /// connections are new or in use, whereas attackers with many addresses hold the oldest connections.
    pub(super) fn track(&mut self, peer: IpAddr, now: Instant) -> Option<Arc<TrackedConnection>> {
        self.open.retain(|tracked| !tracked.is_closed());
        let own = self.open.iter().filter(|tracked| tracked.peer == peer).count();
        let has_room = if own >= self.limits.per_peer {
            self.evict_where(now, |tracked| tracked.peer == peer)
        } else {
            self.open.len() < self.limits.total || self.evict(now)
        };
        has_room.then(|| {
            let tracked = Arc::new(TrackedConnection::new(peer, now));
            self.open.push(tracked.clone());
            tracked
        })
    }

    /// Evicts the first connection in the order of eviction. Returns whether there was one.
    pub(super) fn evict(&mut self, now: Instant) -> bool {
        self.evict_where(now, |_| true)
    }

    fn evict_where(&mut self, now: Instant, is_candidate: impl Fn(&TrackedConnection) -> bool) -> bool {
        let candidates =
            self.open.iter().enumerate().filter(|(_, tracked)| is_candidate(tracked) && !tracked.is_closed());
        let ranked = candidates.filter_map(|(index, tracked)| Some((tracked.rank(now)?, index)));
        let Some((_, index)) = ranked.min() else { return false };
        self.open.swap_remove(index).close();
        true
    }

    /// Closes the connections past their time limits.
    pub(super) fn close_expired(&mut self, now: Instant) {
        self.open.retain(|tracked| {
            if tracked.is_expired(now) {
                tracked.close();
            }
            !tracked.is_closed()
        });
    }
}

#[cfg(test)]
mod tests;
