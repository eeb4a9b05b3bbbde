//! Recent durations of evaluations by tenant and kind. Stores hashes, in bounded numbers.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use policy_sync_api::tenant::Tenant;

/// The minimum duration of a long evaluation.
pub(super) const LONG: Duration = Duration::from_millis(50);
/// The period for which a long evaluation is remembered. It limits how often a tenant with many kinds is treated as an
/// unknown one.
const REMEMBERED: Duration = Duration::from_secs(600);
/// After this number of short evaluations in a row, a long one is forgotten: the machine may have been busy.
const FORGIVEN: u8 = 8;
/// The maximum numbers of remembered pairs of tenant and kind with long and with short evaluations.
const LONGS: usize = 4_096;
const SHORTS: usize = 4_096;
/// The maximum number of remembered kinds that ran out of time.
const KINDS: usize = 64;
/// After timeouts for this number of tenants, with no success in between, a kind is expected to time out for all.
const IN_A_ROW: usize = 8;

/// The expected cost of an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cost {
    /// There is no recent evaluation of this kind for the tenant.
    Unknown,
    /// As [`Self::Unknown`], and recent evaluations of the kind ran out of time for several tenants in a row.
    Doubtful,
    /// Less than [`LONG`].
    Short,
    /// About this duration.
    Long(Duration),
}

/// Recent durations of evaluations.
#[derive(Debug, Default)]
pub(super) struct Costs {
    hasher: RandomState,
    /// By the hash of tenant and kind: duration and end of the last long evaluation, and the number of short ones since.
    long: HashMap<u64, (Duration, Instant, u8)>,
    short: HashMap<u64, Instant>,
    /// Kinds that ran out of time, each with the hashes of the tenants affected since its last success. The most recent is last.
    hanging: VecDeque<(Arc<str>, Vec<u64>)>,
}

impl Costs {
    /// The expected cost of an evaluation of `kind` for `tenant`.
    pub(super) fn of(&self, tenant: &Tenant, kind: &str, now: Instant) -> Cost {
        let key = self.hasher.hash_one((tenant, kind));
        if let Some((took, at, _)) = self.long.get(&key)
            && now.saturating_duration_since(*at) < REMEMBERED
        {
            return Cost::Long(*took);
        }
        if self.short.contains_key(&key) {
            return Cost::Short;
        }
        let hangs = |(other, tenants): &(Arc<str>, Vec<u64>)| **other == *kind && tenants.len() >= IN_A_ROW;
        if self.hanging.iter().any(hangs) { Cost::Doubtful } else { Cost::Unknown }
    }

    /// Records the duration of an evaluation of `kind` for `tenant`, and whether it ran out of time.
    pub(super) fn noted(
        &mut self,
        tenant: &Tenant,
        kind: &Arc<str>,
        took: Duration,
        ran_out: bool,
        now: Instant,
    ) {
        let key = self.hasher.hash_one((tenant, &**kind));
        if took >= LONG {
            self.short.remove(&key);
            self.long.insert(key, (took, now, 0));
            keep_newest(&mut self.long, LONGS, |(_, at, _)| *at);
        } else if self.long.get_mut(&key).is_none_or(|(_, at, short)| {
            *short += 1;
            *short >= FORGIVEN || now.saturating_duration_since(*at) >= REMEMBERED
        }) {
            self.long.remove(&key);
            self.short.insert(key, now);
            keep_newest(&mut self.short, SHORTS, |at| *at);
        }
        let at = self.hanging.iter().position(|(other, _)| other == kind);
        let mut tenants =
            at.and_then(|at| self.hanging.remove(at)).map_or(Vec::new(), |(_, tenants)| tenants);
        if ran_out {
            let tenant = self.hasher.hash_one(tenant);
            if tenants.len() < IN_A_ROW && !tenants.contains(&tenant) {
                tenants.push(tenant);
            }
            if self.hanging.len() >= KINDS {
                self.hanging.pop_front();
            }
            self.hanging.push_back((kind.clone(), tenants));
        }
    }

    /// The numbers of entries: long, short, kinds.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> [usize; 3] {
        [self.long.len(), self.short.len(), self.hanging.len()]
    }
}

/// Removes the older half of `map` once it has more than `most` entries. So the cost of each insertion is constant on average.
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
        let (mut costs, shop, now) = (Costs::default(), Tenant::namespace("shop"), Instant::now());
        let kind: Arc<str> = "ingresses".into();
        assert_eq!(costs.of(&shop, &kind, now), Cost::Unknown);
        costs.noted(&shop, &kind, Duration::from_millis(1), false, now);
        assert_eq!(costs.of(&shop, &kind, now), Cost::Short);
        costs.noted(&shop, &kind, LONGEST, false, now);
        for _ in 1..FORGIVEN {
            costs.noted(&shop, &kind, Duration::from_millis(1), false, now);
            assert_eq!(costs.of(&shop, &kind, now), Cost::Long(LONGEST));
        }
        assert_eq!(costs.of(&shop, "pods", now), Cost::Unknown, "another kind");
        assert_eq!(costs.of(&tenant(1), &kind, now), Cost::Unknown, "another tenant");
        costs.noted(&shop, &kind, Duration::from_millis(1), false, now);
        assert_eq!(costs.of(&shop, &kind, now), Cost::Short);
        costs.noted(&shop, &kind, LONGEST, false, now);
        let later = now + REMEMBERED;
        costs.noted(&shop, &kind, Duration::from_millis(1), false, later);
        assert_eq!(costs.of(&shop, &kind, later), Cost::Short);
    }

    #[test]
    fn kind_that_times_out_for_many_tenants_is_doubtful_until_a_success() {
        let (mut costs, now, kind) = (Costs::default(), Instant::now(), Arc::<str>::from("services"));
        for _ in 0..2 * IN_A_ROW {
            costs.noted(&tenant(0), &kind, LONGEST, true, now);
        }
        assert_eq!(costs.of(&tenant(99), &kind, now), Cost::Unknown, "it is one tenant's alone");
        for number in 1..IN_A_ROW {
            costs.noted(&tenant(number), &kind, LONGEST, true, now);
        }
        assert_eq!(costs.of(&tenant(99), &kind, now), Cost::Doubtful);
        costs.noted(&tenant(99), &kind, Duration::ZERO, false, now);
        assert_eq!(costs.of(&tenant(98), &kind, now), Cost::Unknown);
    }

    #[test]
    fn memory_is_bounded_and_short_evaluations_displace_no_long_ones() {
        let (mut costs, mut now, kind) = (Costs::default(), Instant::now(), Arc::<str>::from("pods"));
        costs.noted(&tenant(0), &kind, LONGEST, false, now);
        for number in 1..3 * SHORTS {
            now += Duration::from_micros(1);
            costs.noted(&tenant(number), &kind, Duration::ZERO, false, now);
            assert!(costs.remembered()[1] <= SHORTS);
        }
        assert_eq!(costs.of(&tenant(0), &kind, now), Cost::Long(LONGEST));
        assert_eq!(costs.of(&tenant(3 * SHORTS - 1), &kind, now), Cost::Short);
        for number in 1..2 * LONGS {
            let kind: Arc<str> = number.to_string().into();
            costs.noted(&tenant(number), &kind, LONGEST, true, now);
        }
        let [long, _, kinds] = costs.remembered();
        assert!(long <= LONGS && kinds <= KINDS, "{long}, {kinds}");
    }
}
