//! How replicas were last split, by what this process has planned. What works carry says the same, but a spoke's agent may write
//! its works: one that asks for more there would take it from the others.

use std::collections::BTreeMap;

use dashmap::DashMap;

use policy_sync_api::names::{ClusterName, Origin};
use policy_sync_api::shrink::take;

/// The replicas of each cluster, by what they are of. They are known as long as there are works, or are to be some.
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

    pub(super) fn of(&self, origin: &Origin) -> Option<BTreeMap<ClusterName, u64>> {
        self.0.get(origin).map(|shares| shares.clone())
    }
}
