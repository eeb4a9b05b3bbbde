//! How many connections a listener may have.

use super::Descriptors;

/// The most connections of the webhooks' listener. An API server opens one for each review in flight, 600 by default
/// (`--max-requests-inflight` and `--max-mutating-requests-inflight`), and keeps 25 idle ones.
const WEBHOOKS: usize = 2_048;
/// The most connections of the listeners of metrics and of probes, each.
const SCRAPED: usize = 256;
/// The most connections of `policy-sync web`.
const PAGES: usize = 256;

/// How many connections a listener may have at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// In all.
    pub(super) total: usize,
    /// From one address.
    ///
    /// Three quarters of the total: a pod, which has one address, leaves a quarter to others. The limit never refuses an API server
    /// that stays below it, and 1,536 connections are more than two API servers with default limits have in flight behind one address
    /// (a load balancer, konnectivity). At the limit the address replaces its own oldest idle connection, and is refused only
    /// while all its connections are in the middle of a request.
    pub(super) per_peer: usize,
}

impl Limits {
    /// Those of the webhooks' listener.
    #[must_use]
    pub fn webhooks(descriptors: Descriptors) -> Self {
        Self::shared(WEBHOOKS.min(descriptors.available() / 4 * 3))
    }

    /// Those of the listener of metrics, and of that of probes.
    #[must_use]
    pub fn scraped(descriptors: Descriptors) -> Self {
        Self::shared(SCRAPED.min(descriptors.available() / 8))
    }

    /// Those of `policy-sync web`, whose peers all have the address 127.0.0.1.
    #[must_use]
    pub(in crate::server) fn pages() -> Self {
        Self { total: PAGES, per_peer: PAGES }
    }

    fn shared(total: usize) -> Self {
        Self { total: total.max(1), per_peer: (total / 4 * 3).max(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_leave_descriptors_to_the_client_whatever_the_limit_is() {
        for limit in [64, 256, 1_024, 4_096, 1 << 20] {
            let descriptors = Descriptors::of(limit);
            let (webhooks, scraped) = (Limits::webhooks(descriptors), Limits::scraped(descriptors));
            let all = webhooks.total + 2 * scraped.total;
            assert!(all <= limit - limit.min(1_024) / 2, "{all} of {limit}");
            assert!(webhooks.per_peer < webhooks.total && scraped.per_peer < scraped.total, "{limit}");
        }
        let many = Limits::webhooks(Descriptors::of(1 << 20));
        assert_eq!(many, Limits { total: 2_048, per_peer: 1_536 });
    }
}
