//! The maximum number of connections of a listener, and the limit of open file descriptors. Listeners leave a reserve
//! for the hub client.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::warn;

use policy_sync_api::text::with_causes;

/// The maximum number of connections for webhooks. An API server opens one connection for each concurrent review, 600
/// by default (`--max-requests-inflight` and `--max-mutating-requests-inflight`), and keeps 25 idle connections.
const WEBHOOKS: usize = 2_048;
/// The maximum number of connections of the metrics listener, and of the probes listener.
const METRICS_AND_PROBES: usize = 256;
/// The maximum number of connections for `policy-sync web`.
const PAGES: usize = 256;
/// How many descriptors listeners leave free. The reserve is for 64 concurrent requests to the hub, the connections of
/// up to about 200 watches, files, and child processes.
const RESERVED: usize = 512;

/// The maximum number of concurrent connections of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximum number of connections in total.
    pub(super) total: usize,
    /// The maximum number of connections from one address.
    ///
    /// The limit is three quarters of the total. A pod has one address, so a pod leaves a quarter to other addresses.
    /// For webhooks, the limit is 1,536. That is enough for two API servers with default limits behind one address (a
    /// load balancer, konnectivity).
    ///
    /// At the limit, a new connection replaces the oldest idle connection of its address. It is refused only while all
    /// connections of the address are in the middle of a request.
    pub(super) per_peer: usize,
}

impl Limits {
    /// The limits for webhooks.
    #[must_use]
    pub fn webhooks(descriptors: Descriptors) -> Self {
        Self::shared(WEBHOOKS.min(descriptors.available() / 4 * 3))
    }

    /// The limits of the metrics listener, and of the probes listener.
    #[must_use]
    pub fn metrics_and_probes(descriptors: Descriptors) -> Self {
        Self::shared(METRICS_AND_PROBES.min(descriptors.available() / 8))
    }

    /// The limits for `policy-sync web`. All of its peers have the address 127.0.0.1.
    #[must_use]
    pub fn pages() -> Self {
        Self { total: PAGES, per_peer: PAGES }
    }

    fn shared(total: usize) -> Self {
        Self { total: total.max(1), per_peer: (total / 4 * 3).max(1) }
    }
}

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
        // `None` means that the system sets no limit.
        Self::of(current.and_then(|limit| limit.try_into().ok()).unwrap_or(usize::MAX))
    }

    pub(super) fn of(limit: usize) -> Self {
        Self(limit)
    }

    /// How many descriptors all listeners together may use. At most half of this process's limit is reserved.
    fn available(self) -> usize {
        self.0 - RESERVED.min(self.0 / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_leave_descriptors_to_the_client_whatever_the_limit_is() {
        for limit in [64, 256, 1_024, 4_096, 1 << 20] {
            let descriptors = Descriptors::of(limit);
            let (webhooks, metrics_and_probes) =
                (Limits::webhooks(descriptors), Limits::metrics_and_probes(descriptors));
            let all = webhooks.total + 2 * metrics_and_probes.total;
            assert!(all <= limit - limit.min(1_024) / 2, "{all} of {limit}");
            assert!(
                webhooks.per_peer < webhooks.total && metrics_and_probes.per_peer < metrics_and_probes.total,
                "{limit}"
            );
        }
        let many = Limits::webhooks(Descriptors::of(1 << 20));
        assert_eq!(many, Limits { total: 2_048, per_peer: 1_536 });
    }
}
