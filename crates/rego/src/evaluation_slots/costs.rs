//! Remembers recent durations of evaluations by tenant and kind. Stores hashes of tenants and kinds, up to a maximum
//! number.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use policy_sync_api::tenant::Tenant;

/// The minimum duration of a long evaluation.
pub(super) const LONG: Duration = Duration::from_millis(50);
/// The period for which a long evaluation is remembered. After this period, the cost for that tenant and kind is
/// [unknown](Cost::Unknown) again. A long period limits how often this happens for a tenant with many kinds.
const RETENTION: Duration = Duration::from_secs(600);
/// After this number of short evaluations in a row, the long evaluation before them is forgotten. The machine may have
/// been busy during the long evaluation.
const SHORTS_TO_FORGET_LONG: u8 = 8;
/// The maximum numbers of remembered pairs of tenant and kind: one number for long evaluations, and one for short
/// evaluations.
const MAX_LONG_ENTRIES: usize = 4_096;
const MAX_SHORT_ENTRIES: usize = 4_096;
/// The maximum number of remembered kinds that ran out of time.
const MAX_KINDS: usize = 64;
/// After timeouts for this number of tenants without a success in between, a kind is expected to time out for all
/// tenants.
const MAX_TIMEOUTS_IN_A_ROW: usize = 8;

/// The expected cost of an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cost {
    /// There is no recent evaluation of this kind for the tenant.
    Unknown,
    /// The tenant has no recent evaluation of this kind, and the kind ran out of time for several tenants in a row.
    LikelyTimeout,
    /// Less than [`LONG`].
    Short,
    /// About this duration.
    Long(Duration),
}

/// Recent durations of evaluations.
#[derive(Debug, Default)]
pub(super) struct CostHistory {
    hasher: RandomState,
    /// By the hash of tenant and kind: duration and end of the last long evaluation, and the number of short
    /// evaluations since then.
    long: HashMap<u64, (Duration, Instant, u8)>,
    short: HashMap<u64, Instant>,
    /// Kinds that ran out of time, each with the hashes of the tenants affected since its last success. The kind that
    /// ran out of time most recently is last.
    timed_out_kinds: VecDeque<(Arc<str>, Vec<u64>)>,
}

impl CostHistory {
    /// The expected cost of an evaluation of `kind` for `tenant`.
    pub(super) fn of(&self, tenant: &Tenant, kind: &str, now: Instant) -> Cost {
        let key = self.hasher.hash_one((tenant, kind));
        if let Some((took, at, _)) = self.long.get(&key)
            && now.saturating_duration_since(*at) < RETENTION
        {
            return Cost::Long(*took);
        }
        if self.short.contains_key(&key) {
            return Cost::Short;
        }
        let is_expected_to_time_out = |(other, tenants): &(Arc<str>, Vec<u64>)| {
            **other == *kind && tenants.len() >= MAX_TIMEOUTS_IN_A_ROW
        };
        if self.timed_out_kinds.iter().any(is_expected_to_time_out) {
            Cost::LikelyTimeout
        } else {
            Cost::Unknown
        }
    }

    /// Records the duration of an evaluation of `kind` for `tenant`, and whether it ran out of time.
    pub(super) fn record(
        &mut self,
        tenant: &Tenant,
        kind: &Arc<str>,
        took: Duration,
        timed_out: bool,
        now: Instant,
    ) {
        let key = self.hasher.hash_one((tenant, &**kind));
        if took >= LONG {
            self.short.remove(&key);
            self.long.insert(key, (took, now, 0));
            keep_newest(&mut self.long, MAX_LONG_ENTRIES, |(_, at, _)| *at);
        } else if self.long.get_mut(&key).is_none_or(|(_, at, short)| {
            *short += 1;
            *short >= SHORTS_TO_FORGET_LONG || now.saturating_duration_since(*at) >= RETENTION
        }) {
            self.long.remove(&key);
            self.short.insert(key, now);
            keep_newest(&mut self.short, MAX_SHORT_ENTRIES, |at| *at);
        }
        let at = self.timed_out_kinds.iter().position(|(other, _)| other == kind);
        let mut tenants =
            at.and_then(|at| self.timed_out_kinds.remove(at)).map_or(Vec::new(), |(_, tenants)| tenants);
        if timed_out {
            let tenant = self.hasher.hash_one(tenant);
            if tenants.len() < MAX_TIMEOUTS_IN_A_ROW && !tenants.contains(&tenant) {
                tenants.push(tenant);
            }
            if self.timed_out_kinds.len() >= MAX_KINDS {
                self.timed_out_kinds.pop_front();
            }
            self.timed_out_kinds.push_back((kind.clone(), tenants));
        }
    }

    /// The numbers of entries: long, short, kinds.
    #[cfg(test)]
    pub(super) fn entry_counts(&self) -> [usize; 3] {
        [self.long.len(), self.short.len(), self.timed_out_kinds.len()]
    }
}

/// Removes the older half of `map` once it has more than `most` entries. So the cost of each insertion is constant on
/// average.
fn keep_newest<V>(map: &mut HashMap<u64, V>, most: usize, at: impl Fn(&V) -> Instant) {
    if map.len() > most {
        let mut times: Vec<Instant> = map.values().map(&at).collect();
        let (_, middle, _) = times.select_nth_unstable(most / 2);
        let middle = *middle;
        map.retain(|_, value| at(value) > middle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(1);

    fn tenant(number: usize) -> Tenant {
        Tenant::namespace(&number.to_string())
    }

    #[test]
    fn single_short_evaluation_does_not_hide_a_long_one() {
        let (mut costs, shop, now) = (CostHistory::default(), Tenant::namespace("shop"), Instant::now());
        let kind: Arc<str> = "ingresses".into();
        assert_eq!(costs.of(&shop, &kind, now), Cost::Unknown);
        costs.record(&shop, &kind, Duration::from_millis(1), false, now);
        assert_eq!(costs.of(&shop, &kind, now), Cost::Short);
        costs.record(&shop, &kind, LONGEST, false, now);
        for _ in 1..SHORTS_TO_FORGET_LONG {
            costs.record(&shop, &kind, Duration::from_millis(1), false, now);
            assert_eq!(costs.of(&shop, &kind, now), Cost::Long(LONGEST));
        }
        assert_eq!(costs.of(&shop, "pods", now), Cost::Unknown, "another kind");
        assert_eq!(costs.of(&tenant(1), &kind, now), Cost::Unknown, "another tenant");
        costs.record(&shop, &kind, Duration::from_millis(1), false, now);
        assert_eq!(costs.of(&shop, &kind, now), Cost::Short);
        costs.record(&shop, &kind, LONGEST, false, now);
        let later = now + RETENTION;
        costs.record(&shop, &kind, Duration::from_millis(1), false, later);
        assert_eq!(costs.of(&shop, &kind, later), Cost::Short);
    }

    #[test]
    fn kind_that_times_out_for_many_tenants_is_doubtful_until_a_success() {
        let (mut costs, now, kind) = (CostHistory::default(), Instant::now(), Arc::<str>::from("services"));
        for _ in 0..2 * MAX_TIMEOUTS_IN_A_ROW {
            costs.record(&tenant(0), &kind, LONGEST, true, now);
        }
        assert_eq!(costs.of(&tenant(99), &kind, now), Cost::Unknown, "it is one tenant's alone");
        for number in 1..MAX_TIMEOUTS_IN_A_ROW {
            costs.record(&tenant(number), &kind, LONGEST, true, now);
        }
        assert_eq!(costs.of(&tenant(99), &kind, now), Cost::LikelyTimeout);
        costs.record(&tenant(99), &kind, Duration::ZERO, false, now);
        assert_eq!(costs.of(&tenant(98), &kind, now), Cost::Unknown);
    }

    #[test]
    fn memory_is_bounded_and_short_evaluations_displace_no_long_ones() {
        let (mut costs, mut now, kind) = (CostHistory::default(), Instant::now(), Arc::<str>::from("pods"));
        costs.record(&tenant(0), &kind, LONGEST, false, now);
        for number in 1..3 * MAX_SHORT_ENTRIES {
            now += Duration::from_micros(1);
            costs.record(&tenant(number), &kind, Duration::ZERO, false, now);
            assert!(costs.entry_counts()[1] <= MAX_SHORT_ENTRIES);
        }
        assert_eq!(costs.of(&tenant(0), &kind, now), Cost::Long(LONGEST));
        assert_eq!(costs.of(&tenant(3 * MAX_SHORT_ENTRIES - 1), &kind, now), Cost::Short);
        for number in 1..2 * MAX_LONG_ENTRIES {
            let kind: Arc<str> = number.to_string().into();
            costs.record(&tenant(number), &kind, LONGEST, true, now);
        }
        let [long, _, kinds] = costs.entry_counts();
        assert!(long <= MAX_LONG_ENTRIES && kinds <= MAX_KINDS, "{long}, {kinds}");
    }
}
