//! What both loops do with a work, and when each of them comes back to it.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use super::applying::{self, Run};
use super::observing;
use super::state::Agent;

/// The delay from which on a failure is worth a warning: a newer version of the work is met often, and for once.
const WORTH_A_WARNING: Duration = Duration::from_secs(1);

impl Agent {
    /// Applies or removes the work once; when to do it again.
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
                if delay >= WORTH_A_WARNING {
                    tracing::warn!(cluster = self.cluster, work = name, error, ?delay, "applying failed");
                } else {
                    tracing::debug!(cluster = self.cluster, work = name, error, ?delay, "applying failed");
                }
                Some(delay)
            }
        }
    }

    /// Looks at the work's objects once; when to do it again.
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

/// `duration` and up to `factor` of it more, so that works do not all come at once.
fn jittered(duration: Duration, factor: f64) -> Duration {
    let random =
        f64::from(u32::try_from(RandomState::new().build_hasher().finish() >> 32).unwrap_or_default());
    duration.mul_f64(1.0 + factor * random / f64::from(u32::MAX))
}
