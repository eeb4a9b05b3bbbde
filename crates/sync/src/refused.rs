//! The works that the hub refuses to have made, and since when: what no watch tells, and who writes finds out.

use std::collections::{BTreeMap, BTreeSet};

use dashmap::DashMap;

use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, Origin};
use policy_sync_api::shrink::give_back_shared;

/// Since when the works of which origins are refused in which clusters. What is not wanted there any more, or was made, is
/// forgotten.
#[derive(Clone, Debug, Default)]
pub struct Refused(DashMap<Origin, BTreeMap<ClusterName, Moment>>);

impl Refused {
    /// Notes that the work of `origin` was refused in `cluster`, and returns whether that is new.
    pub fn note(&self, origin: &Origin, cluster: &ClusterName, now: Moment) -> bool {
        let mut known = self.0.entry(origin.clone()).or_default();
        let new = !known.contains_key(cluster);
        known.entry(cluster.clone()).or_insert(now);
        new
    }

    /// Forgets all of `origin` but what is about to be made.
    pub fn retain(&self, origin: &Origin, coming: &BTreeSet<&ClusterName>) {
        self.0.remove_if_mut(origin, |_, known| {
            known.retain(|cluster, _| coming.contains(cluster));
            known.is_empty()
        });
        give_back_shared(&self.0);
    }

    /// Whether anything of `origin` was refused.
    #[must_use]
    pub fn has(&self, origin: &Origin) -> bool {
        self.0.contains_key(origin)
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.0.clear();
    }

    pub(super) fn since(&self, origin: &Origin, cluster: &ClusterName) -> Option<Moment> {
        self.0.get(origin)?.get(cluster).copied()
    }
}
