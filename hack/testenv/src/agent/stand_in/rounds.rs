//! Single runs of the two loops for a work, and the delay before the next run.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use super::applying::{self, Run};
use super::observing;
use super::state::Agent;

/// Failures with at least this delay are logged as warnings. Shorter delays usually come from conflicts with a newer
/// version of the work.
const WARNING_DELAY: Duration = Duration::from_secs(1);

impl Agent {
    /// Applies or removes the work. Returns the delay before the next run.
    pub(super) async fn apply(&self, name: &str) -> Option<Duration> {
        let work = self.work(name)?;
        match applying::run(self, &work).await {
            Ok(Run::Idle) => None,
            Ok(Run::Pending) => Some(self.failures.removing.lock().failed(name)),
            Ok(Run::Settled) => {
                self.failures.applying.lock().forget(name);
                self.failures.removing.lock().forget(name);
                Some(jittered(self.resync, 0.5))
            }
            Err(error) => {
                let delay = self.failures.applying.lock().failed(name);
                if delay >= WARNING_DELAY {
                    tracing::warn!(cluster = self.cluster, work = name, error, ?delay, "applying failed");
                } else {
                    tracing::debug!(cluster = self.cluster, work = name, error, ?delay, "applying failed");
                }
                Some(delay)
            }
        }
    }

    /// Observes the work's objects. Returns the delay before the next run.
    pub(super) async fn observe(&self, name: &str) -> Option<Duration> {
        let work = self.work(name)?;
        match observing::run(self, &work).await {
            Ok(()) => {
                self.failures.observing.lock().forget(name);
                Some(jittered(self.poll, 0.9))
            }
            Err(error) => {
                tracing::debug!(cluster = self.cluster, work = name, error, "observing failed");
                Some(self.failures.observing.lock().failed(name))
            }
        }
    }
}

/// Adds a random part of up to `factor` of `duration`, so that works are spread over time.
fn jittered(duration: Duration, factor: f64) -> Duration {
    let random =
        f64::from(u32::try_from(RandomState::new().build_hasher().finish() >> 32).unwrap_or_default());
    duration.mul_f64(1.0 + factor * random / f64::from(u32::MAX))
}
