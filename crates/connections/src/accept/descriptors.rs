//! The limit of open descriptors. Listeners leave a reserve for the hub client.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::warn;

use policy_sync_api::text::with_causes;

/// How many descriptors listeners leave free: for 64 concurrent requests to the hub, a connection for each of
/// up to about 200 watches, files, and child processes.
const RESERVED: usize = 512;

/// How many descriptors this process may have open (RLIMIT_NOFILE).
#[derive(Clone, Copy, Debug)]
pub struct Descriptors(usize);

impl Descriptors {
    /// Raises the soft limit to the hard limit, as Go's runtime does.
    #[must_use]
    pub fn raise() -> Self {
        let limit = getrlimit(Resource::Nofile);
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        let current = match setrlimit(Resource::Nofile, raised) {
            Ok(()) => limit.maximum,
            Err(error) => {
                warn!(error = with_causes(&error), "cannot raise the limit of open files");
                limit.current
            }
        };
        // `None` means unlimited.
        Self::of(current.and_then(|limit| limit.try_into().ok()).unwrap_or(usize::MAX))
    }

    pub(super) fn of(limit: usize) -> Self {
        Self(limit)
    }

    /// How many descriptors all listeners together may use. With a low limit, the reserve is half of it.
    pub(super) fn available(self) -> usize {
        self.0 - RESERVED.min(self.0 / 2)
    }
}
