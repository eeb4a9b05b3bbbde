//! What a Lease says, and what a follower makes of it: no I/O and no wall clock.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::ObjectMeta;
use tokio::time::Instant;

/// Who holds `lease`, `None` where it is free.
pub(super) fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

/// What a follower has seen of another's Lease.
///
/// The times in it are the holder's, by the holder's clock: they are compared with nothing. That it has changed shows
/// that its holder lives.
#[derive(Debug, Default)]
pub(super) struct Observed {
    last: Option<(LeaseSpec, Instant)>,
}

impl Observed {
    /// Whether `lease`, seen at `now`, may be taken: nobody holds it, or its holder has let its duration pass.
    pub(super) fn may_be_taken(&mut self, lease: &Lease, now: Instant) -> bool {
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

/// `lease` as `identity` takes or renews it. Its resource version stays, so that it is refused where another was faster.
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

/// `lease` as it is released.
pub(super) fn released(lease: Lease, now: Timestamp) -> Lease {
    let before = lease.spec.clone().unwrap_or_default();
    let spec = LeaseSpec { holder_identity: None, renew_time: Some(MicroTime(now)), ..before };
    Lease { spec: Some(spec), ..lease }
}

/// The Lease `name`, before anybody held it.
pub(super) fn new(name: &str) -> Lease {
    Lease { metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }, spec: None }
}
