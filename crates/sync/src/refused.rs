//! The works whose creation the hub rejects, each with the moment of the first rejection. No watch reports a rejection,
//! so the code that writes works records it.

use std::collections::{BTreeMap, BTreeSet};

use dashmap::DashMap;

use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, Origin};
use policy_sync_api::shrink::shrink_concurrent;

/// The first rejection of each work by origin and cluster. An entry is removed once the work is created or is no longer
/// planned.
#[derive(Clone, Debug, Default)]
pub struct RejectedWorks(DashMap<Origin, BTreeMap<ClusterName, Moment>>);

impl RejectedWorks {
    /// Records that the work of `origin` was rejected in `cluster`. Returns whether the entry is new.
    pub fn note(&self, origin: &Origin, cluster: &ClusterName, now: Moment) -> bool {
        let mut known = self.0.entry(origin.clone()).or_default();
        let new = !known.contains_key(cluster);
        known.entry(cluster.clone()).or_insert(now);
        new
    }

    /// Removes the entries of `origin`, except for the clusters in `coming`, whose works are about to be created.
    pub fn retain(&self, origin: &Origin, coming: &BTreeSet<&ClusterName>) {
        self.0.remove_if_mut(origin, |_, known| {
            known.retain(|cluster, _| coming.contains(cluster));
            known.is_empty()
        });
        shrink_concurrent(&self.0);
    }

    /// Whether a work of `origin` was rejected.
    #[must_use]
    pub fn has(&self, origin: &Origin) -> bool {
        self.0.contains_key(origin)
    }

    /// Removes all entries.
    pub fn clear(&self) {
        self.0.clear();
    }

    pub(super) fn since(&self, origin: &Origin, cluster: &ClusterName) -> Option<Moment> {
        self.0.get(origin)?.get(cluster).copied()
    }
}
