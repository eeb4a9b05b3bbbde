//! How the replicas of a resource are split among its clusters, as
//! [Federated ReplicaSets](https://github.com/kubernetes/design-proposals-archive/blob/main/multicluster/federated-replicasets.md)
//! has it.
//!
//! ```text
//! minima, by weight ──▶ what is there now, unless `rebalance` ──▶ the rest by weight, round by round
//! ```
//!
//! Clusters are taken by weight, the highest first, then by a hash of cluster and object, so that not all small ones end up on the
//! same. Fractions are rounded up. How many a cluster has room for is not looked at.

use std::collections::{BTreeMap, BTreeSet};

use dashmap::DashMap;

use policy_sync_api::json::Hash;
use policy_sync_api::json::step::Step;
use policy_sync_api::json::tree::Json;
use policy_sync_api::json::written::{Fault, entries, object, parse, required};
use policy_sync_api::names::{ClusterName, Origin};
use policy_sync_api::shrink::take;

/// In so many rounds clusters pay off what they have kept; in one more nothing is left of that.
const ROUNDS: usize = 1_000;
/// What stands for every cluster that is not named.
const ANY: &str = "*";

/// How many replicas each cluster gets.
pub type Shares = BTreeMap<ClusterName, u64>;

/// The replicas of each cluster in the latest plans of this process, by object. They are known as long as the object has works, or is
/// planned to have some.
///
/// Works have the same numbers, but the agent of a spoke may write its works, and would take replicas from other clusters.
#[derive(Clone, Debug, Default)]
pub struct PlannedShares(DashMap<Origin, BTreeMap<ClusterName, u64>>);

impl PlannedShares {
    /// Notes how the replicas of `origin` are split now.
    pub fn note(&self, origin: &Origin, shares: BTreeMap<ClusterName, u64>) {
        self.0.insert(origin.clone(), shares);
    }

    /// Forgets `origin`.
    pub fn forget(&self, origin: &Origin) {
        take(&self.0, origin);
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.0.clear();
    }

    pub(crate) fn of(&self, origin: &Origin) -> Option<BTreeMap<ClusterName, u64>> {
        self.0.get(origin).map(|shares| shares.clone())
    }
}

/// What the annotation `federation.kubernetes.io/replica-set-preferences` says.
#[derive(Clone, Debug, Default)]
pub struct Preferences {
    clusters: BTreeMap<String, Preference>,
    rebalance: bool,
}

/// What it says of one cluster.
#[derive(Clone, Copy, Debug, Default)]
struct Preference {
    weight: u64,
    minimum: u64,
    maximum: Option<u64>,
}

/// What `total` replicas are split into.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// What each cluster gets.
    pub shares: Shares,
    /// How many no cluster may take.
    pub left_out: u64,
}

impl Preferences {
    /// Reads the annotation.
    ///
    /// # Errors
    ///
    /// The place, `.clusters.c1.weight`, and the first fault.
    pub fn read(text: &str) -> Result<Self, (String, String)> {
        preferences(text).map_err(|Fault { place, text }| (place, text))
    }

    /// Whether `cluster` may get any.
    #[must_use]
    pub fn names(&self, cluster: &ClusterName) -> bool {
        self.of(cluster).is_some()
    }

    fn of(&self, cluster: &ClusterName) -> Option<Preference> {
        self.clusters.get(&*cluster.0).or_else(|| self.clusters.get(ANY)).copied()
    }

    /// Splits `total` replicas of `origin` among those of `clusters` that are named, of which `current` says what each has now.
    #[must_use]
    pub fn split(
        &self,
        origin: &Origin,
        total: u64,
        clusters: &BTreeSet<ClusterName>,
        current: &Shares,
    ) -> Split {
        let taking = clusters.iter().filter_map(|cluster| Some((cluster, self.of(cluster)?)));
        let mut takers: Vec<Taker<'_>> =
            taking.map(|(cluster, preference)| Taker::new(origin, cluster, preference)).collect();
        takers.sort_by_key(|taker| (std::cmp::Reverse(taker.preference.weight), taker.hash));
        let mut rest = total;
        for taker in &mut takers {
            taker.take(taker.preference.minimum, &mut rest);
        }
        if !self.rebalance {
            for taker in &mut takers {
                let has = current.get(taker.cluster).copied().unwrap_or_default();
                taker.kept = taker.take(has.saturating_sub(taker.share), &mut rest);
            }
        }
        distribute(&mut takers, &mut rest);
        let shares = takers.into_iter().map(|taker| (taker.cluster.clone(), taker.share)).collect();
        Split { shares, left_out: rest }
    }
}

/// A cluster that takes replicas.
struct Taker<'c> {
    cluster: &'c ClusterName,
    preference: Preference,
    hash: Hash,
    share: u64,
    /// What of its share it got because it was there: it counts as what is due to it.
    kept: u64,
}

impl<'c> Taker<'c> {
    fn new(origin: &Origin, cluster: &'c ClusterName, preference: Preference) -> Self {
        let hash = Hash::of_parts(&[&cluster.0, &origin.to_string()]);
        Self { cluster, preference, hash, share: 0, kept: 0 }
    }

    fn room(&self) -> u64 {
        self.preference.maximum.map_or(u64::MAX, |maximum| maximum.saturating_sub(self.share))
    }

    /// Takes as many as `wanted` of `rest`, as far as there is room, and returns how many these are.
    fn take(&mut self, wanted: u64, rest: &mut u64) -> u64 {
        let taken = wanted.min(*rest).min(self.room());
        self.share += taken;
        *rest -= taken;
        taken
    }
}

/// Shares out `rest` by weight, round by round, until there is none left or no room.
///
/// A round gives out all that is left, but for what clusters have kept, of which each pays off a part, and for what clusters have
/// no room for, which takes no part in the next round.
fn distribute(takers: &mut [Taker<'_>], rest: &mut u64) {
    for round in 0.. {
        if round == ROUNDS {
            takers.iter_mut().for_each(|taker| taker.kept = 0);
        }
        let has_room = |taker: &&mut Taker<'_>| taker.preference.weight > 0 && taker.room() > 0;
        let mut open: Vec<&mut Taker<'_>> = takers.iter_mut().filter(has_room).collect();
        let weights: u128 = open.iter().map(|taker| u128::from(taker.preference.weight)).sum();
        if weights == 0 || *rest == 0 {
            return;
        }
        let all = u128::from(*rest);
        for taker in &mut open {
            let due = (all * u128::from(taker.preference.weight)).div_ceil(weights);
            let due = u64::try_from(due).unwrap_or(u64::MAX).min(*rest);
            let paid = due.min(taker.kept);
            taker.kept -= paid;
            taker.take(due - paid, rest);
        }
    }
}

fn preferences(text: &str) -> Result<Preferences, Fault> {
    let mut fields = object(parse(text)?, &["clusters", "rebalance"])?;
    let rebalance = match fields.remove("rebalance") {
        None | Some(Json::Null) => false,
        Some(Json::Bool(rebalance)) => rebalance,
        Some(other) => return Err(Fault::expected("true or false", &other).under(&Step::key("rebalance"))),
    };
    let clusters =
        entries(required(&mut fields, "clusters")?).map_err(|fault| fault.under(&Step::key("clusters")))?;
    let cluster = |(name, json): (String, Json)| {
        let under = |fault: Fault| fault.under(&Step::key(&name)).under(&Step::key("clusters"));
        let preference = preference(json).map_err(under)?;
        Ok((name, preference))
    };
    Ok(Preferences { clusters: clusters.into_iter().map(cluster).collect::<Result<_, _>>()?, rebalance })
}

fn preference(json: Json) -> Result<Preference, Fault> {
    let mut fields = object(json, &["weight", "minReplicas", "maxReplicas"])?;
    let mut number = |field: &str| match fields.remove(field) {
        None | Some(Json::Null) => Ok(None),
        Some(json) => whole(&json).map(Some).map_err(|fault| fault.under(&Step::key(field))),
    };
    let (weight, minimum, maximum) = (number("weight")?, number("minReplicas")?, number("maxReplicas")?);
    let minimum = minimum.unwrap_or_default();
    if let Some(maximum) = maximum.filter(|maximum| *maximum < minimum) {
        let text = format!("{minimum} is more than maxReplicas, {maximum}");
        return Err(Fault::here(text).under(&Step::key("minReplicas")));
    }
    Ok(Preference { weight: weight.unwrap_or_default(), minimum, maximum })
}

fn whole(json: &Json) -> Result<u64, Fault> {
    let number = match json {
        Json::Number(number) => number.as_u64(),
        _ => None,
    };
    number.ok_or_else(|| Fault::expected("a whole number from 0", json))
}

#[cfg(test)]
mod tests;
