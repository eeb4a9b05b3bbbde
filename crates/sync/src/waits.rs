//! The waits of policies for copies of older policies, from the latest plans of this process.

use std::collections::BTreeMap;

use dashmap::DashMap;

use super::index::same_target::AgeKey;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, Origin};
use policy_sync_api::shrink::take;

/// The wait of a policy's work for the copy of an older policy on a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The position of the older policy among the policies with the same target.
    pub(super) age_key: AgeKey,
    /// Whether a work of the older policy has existed on the cluster.
    pub(super) exists: bool,
    /// Since when the wait has made no progress.
    pub(super) since: Moment,
}

/// The waits of each policy by cluster. A wait is kept until the work exists.
#[derive(Clone, Debug, Default)]
pub struct Waits(DashMap<Origin, BTreeMap<ClusterName, Wait>>);

impl Waits {
    /// Replaces the waits of the policy `origin`.
    pub fn note(&self, origin: &Origin, waits: BTreeMap<ClusterName, Wait>) {
        if waits.is_empty() {
            take(&self.0, origin);
        } else {
            self.0.insert(origin.clone(), waits);
        }
    }

    /// Removes all entries.
    pub fn clear(&self) {
        self.0.clear();
    }

    /// The wait of the work of `origin` on `cluster`, even if the wait has ended.
    pub(super) fn of(&self, origin: &Origin, cluster: &ClusterName) -> Option<Wait> {
        self.0.get(origin)?.get(cluster).cloned()
    }
}
