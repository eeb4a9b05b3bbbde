//! What both loops share, and when each of them comes back to a work.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use kube::Api;
use kube::runtime::reflector::{ObjectRef, Store};
use parking_lot::Mutex;
use policy_sync::api::work::ManifestWork;

use super::applying::{self, Run};
use super::observing;
use super::queue::Backoff;
use super::record::Records;
use super::spoke::Spoke;
use super::watches::Watches;

/// The first delay after a failure.
const FIRST_RETRY: Duration = Duration::from_millis(5);
/// The longest delay after a failure.
const LAST_RETRY: Duration = Duration::from_secs(1000);
/// The longest delay between two looks at what is being removed.
const LAST_PENDING: Duration = Duration::from_secs(5);
/// The delay from which on a failure is worth a warning: a newer version of the work is met often, and for once.
const WORTH_A_WARNING: Duration = Duration::from_secs(1);

/// What both loops share.
pub(super) struct Agent {
    pub(super) cluster: String,
    pub(super) resync: Duration,
    pub(super) poll: Duration,
    pub(super) raw_feedback: bool,
    pub(super) works: Api<ManifestWork>,
    pub(super) cached: Store<ManifestWork>,
    pub(super) spoke: Spoke,
    pub(super) records: Records,
    pub(super) watches: Watches,
    pub(super) failures: Failures,
}

/// How often each work has failed, and how.
pub(super) struct Failures {
    applying: Mutex<Backoff>,
    removing: Mutex<Backoff>,
    observing: Mutex<Backoff>,
}

impl Default for Failures {
    fn default() -> Self {
        let up_to = |longest| Mutex::new(Backoff::new(FIRST_RETRY, longest));
        Self { applying: up_to(LAST_RETRY), removing: up_to(LAST_PENDING), observing: up_to(LAST_RETRY) }
    }
}

impl Agent {
    fn work(&self, name: &str) -> Option<Arc<ManifestWork>> {
        self.cached.get(&ObjectRef::new(name).within(&self.cluster))
    }

    /// The work has changed: what failed before says nothing about it now.
    pub(super) fn changed(&self, name: &str) {
        self.failures.applying.lock().forget(name);
    }

    /// The work is gone.
    pub(super) fn forget(&self, name: &str) {
        self.watches.listen(name, &[]);
        for failures in [&self.failures.applying, &self.failures.removing, &self.failures.observing] {
            failures.lock().forget(name);
        }
    }

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
