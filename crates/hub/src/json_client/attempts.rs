//! Retries with exponential backoff.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::{Duration, Instant};

/// The maximum number of attempts, the first included.
const MAX_ATTEMPTS: u32 = 5;
/// The backoff before the second attempt.
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
/// The growth of the backoff per attempt.
const FACTOR: f64 = 1.5;
/// The maximum share by which a backoff is shortened or extended, so that clients that failed together do not retry
/// together.
const JITTER: f64 = 0.2;

/// The remaining attempts of one request.
#[derive(Debug)]
pub(super) struct Attempts {
    until: Instant,
    made: u32,
    random: f64,
}

impl Attempts {
    /// Starts with the first attempt already made. No attempt starts after `until`.
    pub(super) fn until(until: Instant) -> Self {
        // Each hasher of the standard library has random keys from the operating system.
        let random = (RandomState::new().hash_one(0) >> 11) as f64 / (1_u64 << 53) as f64;
        Self { until, made: 1, random }
    }

    /// The backoff before the next attempt, at least `retry_after` (the server's `Retry-After`). `None` if no attempt
    /// remains.
    pub(super) fn next(&mut self, retry_after: Option<Duration>) -> Option<Duration> {
        if self.made >= MAX_ATTEMPTS {
            return None;
        }
        let backoff = FIRST_BACKOFF.mul_f64(FACTOR.powi(i32::try_from(self.made).unwrap_or(i32::MAX) - 1));
        let wait =
            backoff.mul_f64(1.0 + JITTER * (2.0 * self.random - 1.0)).max(retry_after.unwrap_or_default());
        self.made += 1;
        (wait < self.until.saturating_duration_since(Instant::now())).then_some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_grows_by_half_for_five_attempts() {
        let mut attempts = Attempts::until(Instant::now() + Duration::from_secs(4));
        attempts.random = 0.5;
        let waits: Vec<_> = std::iter::from_fn(|| attempts.next(None)).collect();
        assert_eq!(waits, [100_000, 150_000, 225_000, 337_500].map(Duration::from_micros));
        let mut attempts = Attempts::until(Instant::now() + Duration::from_secs(4));
        let wait = attempts.next(None).unwrap();
        assert!((Duration::from_millis(80)..=Duration::from_millis(120)).contains(&wait), "{wait:?}");
    }

    #[test]
    fn retry_after_is_respected_unless_it_exceeds_the_deadline() {
        let mut attempts = Attempts::until(Instant::now() + Duration::from_secs(4));
        assert_eq!(attempts.next(Some(Duration::from_secs(2))), Some(Duration::from_secs(2)));
        assert_eq!(attempts.next(Some(Duration::from_secs(5))), None);
        let mut expired = Attempts::until(Instant::now());
        assert_eq!(expired.next(None), None);
    }
}
