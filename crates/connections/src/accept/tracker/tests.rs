use std::net::Ipv4Addr;

use super::*;

const LIMITS: Limits = Limits { total: 8, per_peer: 6 };

fn address(last: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, last).into()
}

/// A listener that gets a new connection every millisecond.
struct Listener {
    tracker: ConnectionTracker,
    now: Instant,
}

impl Listener {
    fn new() -> Self {
        Self { tracker: ConnectionTracker::new(LIMITS), now: Instant::now() }
    }

    fn advance_time(&mut self, time: Duration) {
        self.now += time;
    }

    fn connect(&mut self, peer: u8) -> Option<Arc<TrackedConnection>> {
        self.advance_time(Duration::from_millis(1));
        self.tracker.track(address(peer), self.now)
    }

    /// Opens a connection that enters this phase now.
    fn in_phase(&mut self, peer: u8, phase: Phase) -> Arc<TrackedConnection> {
        let tracked = self.connect(peer).unwrap();
        tracked.enter_at(phase, self.now);
        tracked
    }

    fn sweep(&mut self) {
        self.tracker.close_expired(self.now);
    }
}

fn ended(connections: &[Arc<TrackedConnection>]) -> Vec<usize> {
    connections
        .iter()
        .enumerate()
        .filter(|(_, tracked)| tracked.is_closed())
        .map(|(index, _)| index)
        .collect()
}

#[tokio::test(start_paused = true)]
async fn full_listener_evicts_the_connection_that_is_idle_longest() {
    let mut listener = Listener::new();
    let connections: Vec<_> = (0..8).map(|peer| listener.connect(peer).unwrap()).collect();
    connections[0].enter_at(Phase::Idle, listener.now + Duration::from_millis(1));
    listener.connect(100).unwrap();
    assert_eq!(ended(&connections), [1]);
    listener.connect(101).unwrap();
    assert_eq!(ended(&connections), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn active_request_is_not_evicted_for_an_incomplete_head() {
    let mut listener = Listener::new();
    let reviews: Vec<_> = (0..6).map(|_| listener.in_phase(1, Phase::Handling)).collect();
    let sent = [listener.in_phase(2, Phase::Receiving), listener.in_phase(3, Phase::Flushing)];
    // All connections are in the middle of a request, or were a moment ago.
    assert!(listener.connect(9).is_none());
    listener.advance_time(TRANSFER_PROTECTION);
    // A slow body does not protect its connection from eviction.
    assert!(listener.connect(9).is_some());
    assert!(ended(&reviews).is_empty());
    assert_eq!(ended(&sent), [0]);
    listener.advance_time(Duration::from_secs(3_600));
    listener.sweep();
    assert!(ended(&reviews).is_empty());
}

#[tokio::test(start_paused = true)]
async fn address_at_its_limit_replaces_its_own_connections_alone() {
    let mut listener = Listener::new();
    let idle = listener.in_phase(1, Phase::Idle);
    let own: Vec<_> = (0..6).map(|_| listener.connect(2).unwrap()).collect();
    for _ in 0..100 {
        listener.connect(2).unwrap();
    }
    assert!(!idle.is_closed());
    assert_eq!(ended(&own).len(), 6);
    // There is still room for other addresses.
    let other = listener.connect(3).unwrap();
    listener.connect(2).unwrap();
    assert!(!idle.is_closed() && !other.is_closed());
}

#[tokio::test(start_paused = true)]
async fn address_whose_requests_are_all_in_hand_is_refused_and_others_are_not() {
    let mut listener = Listener::new();
    let reviews: Vec<_> = (0..6).map(|_| listener.in_phase(1, Phase::Handling)).collect();
    assert!(listener.connect(1).is_none());
    assert!(listener.connect(2).is_some() && listener.connect(3).is_some());
    assert!(ended(&reviews).is_empty());
}

#[tokio::test(start_paused = true)]
async fn peer_with_a_valid_review_is_kept_before_strangers() {
    let mut listener = Listener::new();
    let known = listener.in_phase(1, Phase::Idle);
    known.prefer();
    // A connection without a credential is evicted first, even during a slow transfer.
    listener.in_phase(2, Phase::Sending);
    listener.advance_time(TRANSFER_PROTECTION);
    for number in 0..100 {
        listener.connect(2 + number % 50).unwrap();
    }
    assert!(!known.is_closed());
}

#[tokio::test(start_paused = true)]
async fn each_phase_has_its_time() {
    let limits = [
        (Phase::Opening, HEAD_TIMEOUT),
        (Phase::Head, HEAD_TIMEOUT),
        (Phase::Idle, IDLE_TIMEOUT),
        (Phase::Receiving, BODY_TIMEOUT),
        (Phase::Flushing, FLUSH_TIMEOUT),
    ];
    for (phase, limit) in limits {
        let mut listener = Listener::new();
        let tracked = listener.in_phase(1, phase);
        listener.advance_time(limit - Duration::from_millis(1));
        listener.sweep();
        assert!(!tracked.is_closed(), "{phase:?}");
        listener.advance_time(Duration::from_millis(1));
        listener.sweep();
        assert!(tracked.is_closed(), "{phase:?}");
        assert!(listener.tracker.open.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn write_without_progress_ends_a_connection_in_any_phase() {
    for phase in [Phase::Sending, Phase::Flushing] {
        let mut listener = Listener::new();
        let (reads, writes) = (listener.in_phase(1, phase), listener.in_phase(2, phase));
        reads.set_stalled(true);
        reads.set_stalled(false);
        writes.set_stalled(true);
        listener.advance_time(STALL_TIMEOUT);
        listener.sweep();
        assert_eq!((reads.is_closed(), writes.is_closed()), (false, true), "{phase:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn eviction_without_descriptors_takes_an_idle_one() {
    let mut listener = Listener::new();
    assert!(!listener.tracker.evict(listener.now));
    let (busy, idle) = (listener.in_phase(1, Phase::Handling), listener.in_phase(1, Phase::Idle));
    assert!(listener.tracker.evict(listener.now) && idle.is_closed());
    assert!(!listener.tracker.evict(listener.now) && !busy.is_closed());
}
