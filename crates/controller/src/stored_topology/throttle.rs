//! A rate limiter that also waits until another queue is idle.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use policy_sync_hub::reconcile::Queue;
use policy_sync_mirror::Key;

/// The maximum time for which one turn waits until the other queue is idle.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// Grants turns one at a time. A turn is the permission for one write.
#[derive(Debug)]
pub(super) struct Throttle {
    interval: Duration,
    state: Mutex<ThrottleState>,
}

#[derive(Debug)]
struct ThrottleState {
    next: Instant,
    /// How long the next turn may wait until the other queue is idle.
    wait_budget: Duration,
}

impl Throttle {
    /// Allows at most `per_second` turns in a second.
    pub(super) fn new(per_second: u32) -> Self {
        let state = ThrottleState { next: Instant::now(), wait_budget: MAX_WAIT };
        Self { interval: Duration::from_secs(1) / per_second, state: Mutex::new(state) }
    }

    /// Waits for a turn, and until the queue `others` is idle. If that queue is never idle, turns continue at half the
    /// rate: each turn adds its own interval to the time for which later turns may wait.
    pub(super) async fn turn<K: Key>(&self, others: &Queue<K>) {
        let mut state = self.state.lock().await;
        let at = state.next.max(Instant::now());
        tokio::time::sleep_until(at).await;
        let began = Instant::now();
        others.idle(state.wait_budget).await;
        let waited = began.elapsed();
        state.wait_budget = (state.wait_budget.saturating_sub(waited) + self.interval).min(MAX_WAIT);
        state.next = at + waited + self.interval;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::key::Key as TopologyKey;
    use super::*;
    use policy_sync_hub::telemetry::metrics::Metrics;

    fn others() -> Queue<TopologyKey> {
        Queue::new(Duration::ZERO, Metrics::new().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn unused_turns_are_not_saved_up() {
        let (throttle, others) = (Throttle::new(20), others());
        let begin = Instant::now();
        tokio::time::sleep(Duration::from_secs(5)).await;
        futures::future::join_all((0..21).map(|_| throttle.turn(&others))).await;
        assert_eq!(begin.elapsed(), Duration::from_secs(6));
    }

    #[tokio::test(start_paused = true)]
    async fn turns_wait_while_others_are_briefly_busy() {
        let (throttle, others) = (Throttle::new(20), Arc::new(others()));
        others.add(TopologyKey);
        let key = others.next().await;
        let begin = Instant::now();
        let working = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            others.done(&key);
        };
        tokio::join!(working, throttle.turn(&others));
        assert_eq!(begin.elapsed(), Duration::from_millis(300));
        futures::future::join_all((0..20).map(|_| throttle.turn(&others))).await;
        assert_eq!(begin.elapsed(), Duration::from_millis(1300));
    }

    #[tokio::test(start_paused = true)]
    async fn permanently_busy_others_halve_the_rate() {
        let (throttle, others) = (Throttle::new(20), others());
        others.add(TopologyKey);
        let begin = Instant::now();
        futures::future::join_all((0..200).map(|_| throttle.turn(&others))).await;
        let took = begin.elapsed();
        assert!((Duration::from_secs(19)..=Duration::from_secs(21)).contains(&took), "{took:?}");
    }
}
