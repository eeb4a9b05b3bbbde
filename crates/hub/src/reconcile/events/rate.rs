//! A rate limit for Events about denied requests of users. The API server stores each Event in etcd for an hour.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use policy_sync_api::tenant::Tenant;

/// The maximum number of Events of one tenant at once.
const BURST: u32 = 32;
/// The time after which a tenant may publish another Event.
const REFILL_INTERVAL: Duration = Duration::from_secs(10);
/// The maximum number of remembered tenants.
const MAX_TENANTS: usize = 1_024;

/// For each tenant, the time when its burst is fully available again (the generic cell rate algorithm, ITU-T I.371).
#[derive(Debug, Default)]
pub(super) struct EventRateLimiter(HashMap<Arc<str>, Instant>);

impl EventRateLimiter {
    /// Whether `tenant` may have another Event.
    pub(super) fn allows(&mut self, tenant: &Tenant, now: Instant) -> bool {
        if self.0.len() >= MAX_TENANTS {
            self.0.retain(|_, full| *full > now);
        }
        if self.0.len() >= MAX_TENANTS {
            // This grants each tenant a full burst again. Limiting the memory is more important than the exact rate.
            self.0.clear();
        }
        let full = self.0.entry(tenant.clone().into()).or_insert(now);
        let next = (*full).max(now) + REFILL_INTERVAL;
        let allows = next <= now + REFILL_INTERVAL * BURST;
        if allows {
            *full = next;
        }
        allows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenant_has_a_burst_and_then_one_event_every_ten_seconds() {
        let (mut rate, now) = (EventRateLimiter::default(), Instant::now());
        let (hostile, shop) = (Tenant::namespace("hostile"), Tenant::namespace("shop"));
        let allowed =
            |rate: &mut EventRateLimiter, now| (0..1_000).filter(|_| rate.allows(&hostile, now)).count();
        assert_eq!(allowed(&mut rate, now), 32);
        assert!(rate.allows(&shop, now));
        assert_eq!(allowed(&mut rate, now + REFILL_INTERVAL), 1);
        assert_eq!(allowed(&mut rate, now + 1_000 * REFILL_INTERVAL), 32);
    }

    #[test]
    fn number_of_remembered_tenants_is_bounded() {
        let (mut rate, now) = (EventRateLimiter::default(), Instant::now());
        for number in 0..5 * MAX_TENANTS {
            assert!(rate.allows(&Tenant::namespace(&number.to_string()), now));
            assert!(rate.0.len() <= MAX_TENANTS);
        }
    }
}
