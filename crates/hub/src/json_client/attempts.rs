//! When a server is asked again.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::{Duration, Instant};

/// How often it is asked.
const ATTEMPTS: u32 = 5;
/// How long the first wait is.
const FIRST: Duration = Duration::from_millis(100);
/// By how much the next is longer.
const FACTOR: f64 = 1.5;
/// By how much of itself each differs, at most: whoever was refused together does not come back together.
const JITTER: f64 = 0.2;

/// When a server is asked again.
#[derive(Debug)]
pub(super) struct Attempts {
    until: Instant,
    made: u32,
    dice: f64,
}

impl Attempts {
    /// The first attempt is under way, and none begins after `until`.
    pub(super) fn until(until: Instant) -> Self {
        // Each hasher of the standard library has keys of its own, from the system's dice.
        let dice = (RandomState::new().hash_one(0) >> 11) as f64 / (1_u64 << 53) as f64;
        Self { until, made: 1, dice }
    }

    /// How long to wait for the next attempt, at least for as long as the server says; `None` where there is none.
    pub(super) fn next(&mut self, asked: Option<Duration>) -> Option<Duration> {
        if self.made >= ATTEMPTS {
            return None;
        }
        let usual = FIRST.mul_f64(FACTOR.powi(i32::try_from(self.made).unwrap_or(i32::MAX) - 1));
        let wait = usual.mul_f64(1.0 + JITTER * (2.0 * self.dice - 1.0)).max(asked.unwrap_or_default());
        self.made += 1;
        (wait < self.until.saturating_duration_since(Instant::now())).then_some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_attempts_each_wait_half_as_long_again() {
        let mut attempts = Attempts::until(Instant::now() + Duration::from_secs(4));
        attempts.dice = 0.5;
        let waits: Vec<_> = std::iter::from_fn(|| attempts.next(None)).collect();
        assert_eq!(waits, [100_000, 150_000, 225_000, 337_500].map(Duration::from_micros));
        let mut attempts = Attempts::until(Instant::now() + Duration::from_secs(4));
        let wait = attempts.next(None).unwrap();
        assert!((Duration::from_millis(80)..=Duration::from_millis(120)).contains(&wait), "{wait:?}");
    }

    #[test]
    fn a_server_says_how_long_to_wait_unless_that_is_longer_than_what_is_left() {
        let mut attempts = Attempts::until(Instant::now() + Duration::from_secs(4));
        assert_eq!(attempts.next(Some(Duration::from_secs(2))), Some(Duration::from_secs(2)));
        assert_eq!(attempts.next(Some(Duration::from_secs(5))), None);
        let mut late = Attempts::until(Instant::now());
        assert_eq!(late.next(None), None);
    }
}
