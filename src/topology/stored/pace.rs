//! Turns, of which so many come in a second.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Gives turns, one after the other.
#[derive(Debug)]
pub(super) struct Pace {
    between: Duration,
    next: Mutex<Instant>,
}

impl Pace {
    /// So many turns in a second.
    pub(super) fn new(per_second: u32) -> Self {
        Self { between: Duration::from_secs(1) / per_second, next: Mutex::new(Instant::now()) }
    }

    /// Waits for a turn.
    pub(super) async fn turn(&self) {
        let at = {
            let mut next = self.next.lock();
            let at = (*next).max(Instant::now());
            *next = at + self.between;
            at
        };
        tokio::time::sleep_until(at).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_nobody_took_is_not_kept() {
        let pace = Pace::new(20);
        let begin = Instant::now();
        tokio::time::sleep(Duration::from_secs(5)).await;
        let turns = futures::future::join_all((0..21).map(|_| pace.turn()));
        turns.await;
        assert_eq!(begin.elapsed(), Duration::from_secs(6));
    }
}
