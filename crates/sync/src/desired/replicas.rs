//! Splits the replicas of a resource among its clusters as specified by
//! [Federated ReplicaSets](https://github.com/kubernetes/design-proposals-archive/blob/main/multicluster/federated-replicasets.md).
//!
//! ```text
//! minimums, by weight ──▶ current replicas, unless `rebalance` ──▶ the rest by weight, round by round
//! ```
//!
//! Clusters are ordered by weight, the highest first. Clusters of equal weight are ordered by a hash of cluster and
//! object, so that small workloads do not all run on the same cluster. Fractions are rounded up. The capacity of
//! clusters is not considered.

use std::collections::{BTreeMap, BTreeSet};

use dashmap::DashMap;

use policy_sync_api::json::Hash;
use policy_sync_api::json::step::Step;
use policy_sync_api::json::strict::{JsonError, entries, object, parse, required};
use policy_sync_api::json::tree::Json;
use policy_sync_api::names::{ClusterName, Origin};
use policy_sync_api::shrink::take;

/// The number of rounds in which kept replicas reduce the share of a cluster. Further rounds ignore them.
const MAX_ROUNDS: usize = 1_000;
/// The key in the preferences for all clusters that the preferences do not name.
const ANY: &str = "*";

/// The number of replicas for each cluster.
pub type Shares = BTreeMap<ClusterName, u64>;

/// The replicas of each cluster in the latest plans of this process, by object. An entry is kept as long as the object
/// has works or works are planned for it.
///
/// The works contain the same numbers, but a spoke's agent could change them there and thereby take replicas from other
/// clusters.
#[derive(Clone, Debug, Default)]
pub struct PlannedShares(DashMap<Origin, BTreeMap<ClusterName, u64>>);

impl PlannedShares {
    /// Records the current split of the replicas of `origin`.
    pub fn note(&self, origin: &Origin, shares: BTreeMap<ClusterName, u64>) {
        self.0.insert(origin.clone(), shares);
    }

    /// Removes the entry of `origin`.
    pub fn forget(&self, origin: &Origin) {
        take(&self.0, origin);
    }

    /// Removes all entries.
    pub fn clear(&self) {
        self.0.clear();
    }

    pub(crate) fn of(&self, origin: &Origin) -> Option<BTreeMap<ClusterName, u64>> {
        self.0.get(origin).map(|shares| shares.clone())
    }
}

/// The parsed annotation `federation.kubernetes.io/replica-set-preferences`.
#[derive(Clone, Debug, Default)]
pub struct Preferences {
    clusters: BTreeMap<String, Preference>,
    rebalance: bool,
}

/// The preferences for one cluster.
#[derive(Clone, Copy, Debug, Default)]
struct Preference {
    weight: u64,
    minimum: u64,
    maximum: Option<u64>,
}

/// The result of a split.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// The replicas of each cluster.
    pub shares: Shares,
    /// The number of replicas that no cluster gets, because each cluster has its maximum.
    pub left_out: u64,
}

impl Preferences {
    /// Parses `text`, the value of the annotation.
    ///
    /// # Errors
    ///
    /// The path of the first error, such as `.clusters.c1.weight`, and its text.
    pub fn read(text: &str) -> Result<Self, (String, String)> {
        preferences(text).map_err(|JsonError { place, text }| (place, text))
    }

    /// Whether the preferences include `cluster`, by name or through `*`.
    #[must_use]
    pub fn names(&self, cluster: &ClusterName) -> bool {
        self.of(cluster).is_some()
    }

    fn of(&self, cluster: &ClusterName) -> Option<Preference> {
        self.clusters.get(&*cluster.0).or_else(|| self.clusters.get(ANY)).copied()
    }

    /// Splits `total` replicas of `origin` among the `clusters` that the preferences include. `current` has the present
    /// number of replicas of each cluster. The `paused` clusters keep this number, but the minimums of the other clusters
    /// take precedence.
    #[must_use]
    pub fn split(
        &self,
        origin: &Origin,
        total: u64,
        clusters: &BTreeSet<ClusterName>,
        paused: &BTreeSet<ClusterName>,
        current: &Shares,
    ) -> Split {
        let taking = clusters.iter().filter_map(|cluster| Some((cluster, self.of(cluster)?)));
        let mut takers: Vec<ReplicaShare<'_>> =
            taking.map(|(cluster, preference)| ReplicaShare::new(origin, cluster, preference)).collect();
        takers.sort_by_key(|taker| (std::cmp::Reverse(taker.preference.weight), taker.hash));
        let mut rest = total;
        for taker in &mut takers {
            taker.take(taker.preference.minimum, &mut rest);
        }
        let mut shares = Shares::new();
        for cluster in paused {
            if let Some(&has) = current.get(cluster) {
                let share = has.min(rest);
                rest -= share;
                shares.insert(cluster.clone(), share);
            }
        }
        if !self.rebalance {
            for taker in &mut takers {
                let has = current.get(taker.cluster).copied().unwrap_or_default();
                taker.kept = taker.take(has.saturating_sub(taker.share), &mut rest);
            }
        }
        distribute(&mut takers, &mut rest);
        shares.extend(takers.into_iter().map(|taker| (taker.cluster.clone(), taker.share)));
        Split { shares, left_out: rest }
    }
}

/// A cluster that takes replicas, with its state during the split.
struct ReplicaShare<'c> {
    cluster: &'c ClusterName,
    preference: Preference,
    hash: Hash,
    share: u64,
    /// The number of replicas that the cluster kept because they already run on the cluster. [`distribute`] deducts
    /// this number from further shares.
    kept: u64,
}

impl<'c> ReplicaShare<'c> {
    fn new(origin: &Origin, cluster: &'c ClusterName, preference: Preference) -> Self {
        let hash = Hash::of_parts(&[&cluster.0, &origin.to_string()]);
        Self { cluster, preference, hash, share: 0, kept: 0 }
    }

    fn room(&self) -> u64 {
        self.preference.maximum.map_or(u64::MAX, |maximum| maximum.saturating_sub(self.share))
    }

    /// Takes up to `wanted` replicas of `rest`, limited by the maximum of the cluster, and returns the number taken.
    fn take(&mut self, wanted: u64, rest: &mut u64) -> u64 {
        let taken = wanted.min(*rest).min(self.room());
        self.share += taken;
        *rest -= taken;
        taken
    }
}

/// Distributes `rest` by weight, round by round, until no replicas are left or each cluster has its maximum.
///
/// A round distributes all remaining replicas, except for two parts, which remain for the next round. The first part
/// was deducted from the shares of clusters that kept replicas. The second part exceeds the maximum of a cluster. A
/// cluster with its maximum takes no part in the next round.
fn distribute(takers: &mut [ReplicaShare<'_>], rest: &mut u64) {
    for round in 0.. {
        if round == MAX_ROUNDS {
            takers.iter_mut().for_each(|taker| taker.kept = 0);
        }
        let has_room = |taker: &&mut ReplicaShare<'_>| taker.preference.weight > 0 && taker.room() > 0;
        let mut open: Vec<&mut ReplicaShare<'_>> = takers.iter_mut().filter(has_room).collect();
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

fn preferences(text: &str) -> Result<Preferences, JsonError> {
    let mut fields = object(parse(text)?, &["clusters", "rebalance"])?;
    let rebalance = match fields.remove("rebalance") {
        None | Some(Json::Null) => false,
        Some(Json::Bool(rebalance)) => rebalance,
        Some(other) => {
            return Err(JsonError::expected("true or false", &other).within(&Step::key("rebalance")));
        }
    };
    let clusters =
        entries(required(&mut fields, "clusters")?).map_err(|fault| fault.within(&Step::key("clusters")))?;
    let cluster = |(name, json): (String, Json)| {
        let within = |fault: JsonError| fault.within(&Step::key(&name)).within(&Step::key("clusters"));
        let preference = preference(json).map_err(within)?;
        Ok((name, preference))
    };
    Ok(Preferences { clusters: clusters.into_iter().map(cluster).collect::<Result<_, _>>()?, rebalance })
}

fn preference(json: Json) -> Result<Preference, JsonError> {
    let mut fields = object(json, &["weight", "minReplicas", "maxReplicas"])?;
    let mut number = |field: &str| match fields.remove(field) {
        None | Some(Json::Null) => Ok(None),
        Some(json) => whole(&json).map(Some).map_err(|fault| fault.within(&Step::key(field))),
    };
    let (weight, minimum, maximum) = (number("weight")?, number("minReplicas")?, number("maxReplicas")?);
    let minimum = minimum.unwrap_or_default();
    if let Some(maximum) = maximum.filter(|maximum| *maximum < minimum) {
        let text = format!("{minimum} is more than maxReplicas, {maximum}");
        return Err(JsonError::new(text).within(&Step::key("minReplicas")));
    }
    Ok(Preference { weight: weight.unwrap_or_default(), minimum, maximum })
}

fn whole(json: &Json) -> Result<u64, JsonError> {
    let number = match json {
        Json::Number(number) => number.as_u64(),
        _ => None,
    };
    number.ok_or_else(|| JsonError::expected("a whole number from 0", json))
}

#[cfg(test)]
mod tests;
