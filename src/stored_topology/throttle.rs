//! Turns, of which so many come in a second, and which give way to others.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use policy_sync_hub::reconcile::Queue;
use policy_sync_mirror::Key;

/// For how long turns give way at a time.
const LONGEST: Duration = Duration::from_secs(1);

/// Gives turns, one after the other.
#[derive(Debug)]
pub(super) struct Throttle {
    between: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    next: Instant,
    /// For how long they may give way.
    saved: Duration,
}

impl Throttle {
    /// So many turns in a second.
    pub(super) fn new(per_second: u32) -> Self {
        let state = State { next: Instant::now(), saved: LONGEST };
        Self { between: Duration::from_secs(1) / per_second, state: Mutex::new(state) }
    }

    /// Waits for a turn, and until `others` are idle. Whoever keeps these busy takes every other turn at most: each turn saves up as
    /// much as it takes itself.
    pub(super) async fn turn<K: Key>(&self, others: &Queue<K>) {
        let mut state = self.state.lock().await;
        let at = state.next.max(Instant::now());
        tokio::time::sleep_until(at).await;
        let began = Instant::now();
        others.idle(state.saved).await;
        let gave = began.elapsed();
        state.saved = (state.saved.saturating_sub(gave) + self.between).min(LONGEST);
        state.next = at + gave + self.between;
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
    async fn a_turn_that_nobody_took_is_not_kept() {
        let (throttle, others) = (Throttle::new(20), others());
        let begin = Instant::now();
        tokio::time::sleep(Duration::from_secs(5)).await;
        futures::future::join_all((0..21).map(|_| throttle.turn(&others))).await;
        assert_eq!(begin.elapsed(), Duration::from_secs(6));
    }

    #[tokio::test(start_paused = true)]
    async fn turns_wait_for_others_that_are_busy_for_a_moment() {
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
    async fn others_that_are_always_busy_take_every_other_turn() {
        let (throttle, others) = (Throttle::new(20), others());
        others.add(TopologyKey);
        let begin = Instant::now();
        futures::future::join_all((0..200).map(|_| throttle.turn(&others))).await;
        let took = begin.elapsed();
        assert!((Duration::from_secs(19)..=Duration::from_secs(21)).contains(&took), "{took:?}");
    }
}
