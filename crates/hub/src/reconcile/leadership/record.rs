//! The fields of a Lease, and the decision whether a follower may take the Lease. Uses no I/O and no wall clock.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::ObjectMeta;
use tokio::time::Instant;

/// The identity of the holder; `None` if the Lease is free.
pub(super) fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

/// The last change that a follower saw in another process's Lease.
///
/// The times in a Lease come from the holder's clock and are not compared with any other clock. A change of the Lease
/// shows that its holder is alive.
#[derive(Debug, Default)]
pub(super) struct ObservedLease {
    last: Option<(LeaseSpec, Instant)>,
}

impl ObservedLease {
    /// Whether `lease`, as read at `now`, may be taken: it has no holder, or has not changed for its duration.
    pub(super) fn may_be_acquired(&mut self, lease: &Lease, now: Instant) -> bool {
        let spec = lease.spec.clone().unwrap_or_default();
        let duration =
            Duration::from_secs(spec.lease_duration_seconds.unwrap_or(0).max(0).unsigned_abs().into());
        let since = match &self.last {
            Some((last, since)) if *last == spec => *since,
            _ => {
                self.last = Some((spec, now));
                now
            }
        };
        holder(lease).is_none() || now.duration_since(since) >= duration
    }
}

/// `lease` as taken or renewed by `identity`. It keeps its resource version, so the API server rejects the write if
/// another process was faster.
pub(super) fn held(lease: Lease, identity: &str, duration: Duration, now: Timestamp) -> Lease {
    let before = lease.spec.clone().unwrap_or_default();
    let renewed = holder(&lease) == Some(identity);
    let spec = LeaseSpec {
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: i32::try_from(duration.as_secs()).ok(),
        renew_time: Some(MicroTime(now)),
        acquire_time: if renewed { before.acquire_time } else { Some(MicroTime(now)) },
        lease_transitions: Some(before.lease_transitions.unwrap_or(0).saturating_add(i32::from(!renewed))),
        ..before
    };
    Lease { spec: Some(spec), ..lease }
}

/// `lease` without a holder.
pub(super) fn released(lease: Lease, now: Timestamp) -> Lease {
    let before = lease.spec.clone().unwrap_or_default();
    let spec = LeaseSpec { holder_identity: None, renew_time: Some(MicroTime(now)), ..before };
    Lease { spec: Some(spec), ..lease }
}

/// A new Lease without a holder.
pub(super) fn new(name: &str) -> Lease {
    Lease { metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }, spec: None }
}
