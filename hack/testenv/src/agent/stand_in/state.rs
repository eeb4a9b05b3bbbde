//! State shared by the applying and the observing loop.

use std::sync::Arc;
use std::time::Duration;

use kube::Api;
use kube::runtime::reflector::{ObjectRef, Store};
use parking_lot::Mutex;
use policy_sync_api::work::ManifestWork;

use super::queue::Backoff;
use super::record::Records;
use super::spoke::Spoke;
use super::watches::Watches;

/// First delay after a failure.
const FIRST_RETRY: Duration = Duration::from_millis(5);
/// Maximum delay after a failure.
const LAST_RETRY: Duration = Duration::from_secs(1000);
/// Maximum delay between two checks of terminating objects.
const LAST_PENDING: Duration = Duration::from_secs(5);

/// State shared by the applying and the observing loop.
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

/// The backoffs of works: one for each of applying, removing and observing.
pub(super) struct Failures {
    pub(super) applying: Mutex<Backoff>,
    pub(super) removing: Mutex<Backoff>,
    pub(super) observing: Mutex<Backoff>,
}

impl Default for Failures {
    fn default() -> Self {
        let up_to = |longest| Mutex::new(Backoff::new(FIRST_RETRY, longest));
        Self { applying: up_to(LAST_RETRY), removing: up_to(LAST_PENDING), observing: up_to(LAST_RETRY) }
    }
}

impl Agent {
    pub(super) fn work(&self, name: &str) -> Option<Arc<ManifestWork>> {
        self.cached.get(&ObjectRef::new(name).within(&self.cluster))
    }

    /// Resets the backoff of a work that has changed.
    pub(super) fn changed(&self, name: &str) {
        self.failures.applying.lock().forget(name);
    }

    /// Drops the watches and the backoff of a work that is gone.
    pub(super) fn forget(&self, name: &str) {
        self.watches.listen(name, &[]);
        for failures in [&self.failures.applying, &self.failures.removing, &self.failures.observing] {
            failures.lock().forget(name);
        }
    }
}
