//! Recent durations of evaluations, by tenant and kind: hashes of a bounded number of names.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::api::tenant::Tenant;

/// An evaluation that takes this long is long.
pub(super) const LONG: Duration = Duration::from_millis(50);
/// For how long a tenant's evaluations of a kind are expected to be long after one was: so a tenant with many kinds has few first ones.
const REMEMBERED: Duration = Duration::from_secs(600);
/// After how many short ones in a row they no longer are: one that was long because the machine was busy has no consequences for long.
const FORGIVEN: u8 = 8;
/// How many pairs of tenant and kind with long evaluations are remembered, and how many with short ones.
const LONGS: usize = 4_096;
const SHORTS: usize = 4_096;
/// How many kinds that ran out of time are remembered.
const KINDS: usize = 64;
/// How many tenants in a row a kind runs out of time for before it is expected to do so for all.
const IN_A_ROW: usize = 8;

/// How long an evaluation is expected to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cost {
    /// The tenant had none of this kind lately.
    Unknown,
    /// Likewise, and the kind ran out of time for all tenants that had some lately.
    Doubtful,
    /// Less than [`LONG`].
    Short,
    /// About so long.
    Long(Duration),
}

/// Recent durations of evaluations.
#[derive(Debug, Default)]
pub(super) struct Costs {
    hasher: RandomState,
    /// By the hash of tenant and kind: how long the last long one took, when it ended, and how many short ones followed.
    long: HashMap<u64, (Duration, Instant, u8)>,
    short: HashMap<u64, Instant>,
    /// Kinds that ran out of time for so many tenants, none of which had an answer in between; the latest last.
    hanging: VecDeque<(Arc<str>, Vec<u64>)>,
}

impl Costs {
    /// How long an evaluation of `kind` for `tenant` is expected to take.
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

    /// Notes that an evaluation of `kind` for `tenant` took so long, and whether it ran out of time.
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

    /// How many pairs of each sort, and how many kinds, are remembered.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> [usize; 3] {
        [self.long.len(), self.short.len(), self.hanging.len()]
    }
}

/// Forgets the older half of `map` once it has more than `most`: so each entry costs a constant.
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
    fn one_short_evaluation_does_not_hide_a_long_one() {
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
    fn a_kind_that_runs_out_of_time_for_everybody_is_expected_to_until_somebody_has_an_answer() {
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
    fn a_bounded_number_is_remembered_and_short_ones_displace_no_long_one() {
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
