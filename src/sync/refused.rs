//! The works that the hub refuses to have made, and since when: what no watch tells, and who writes finds out.

use std::collections::{BTreeMap, BTreeSet};

use dashmap::DashMap;

use crate::api::moment::Moment;
use crate::api::names::{ClusterName, Parent};
use crate::shrink::give_back_shared;

/// Since when the works of which parents are refused in which clusters. What is not wanted there any more, or was made, is
/// forgotten.
#[derive(Clone, Debug, Default)]
pub struct Refused(DashMap<Parent, BTreeMap<ClusterName, Moment>>);

impl Refused {
    /// Notes that the work of `parent` was refused in `cluster`, and returns whether that is new.
    pub fn note(&self, parent: &Parent, cluster: &ClusterName, now: Moment) -> bool {
        let mut known = self.0.entry(parent.clone()).or_default();
        let new = !known.contains_key(cluster);
        known.entry(cluster.clone()).or_insert(now);
        new
    }

    /// Forgets all of `parent` but what is about to be made.
    pub fn retain(&self, parent: &Parent, coming: &BTreeSet<&ClusterName>) {
        self.0.remove_if_mut(parent, |_, known| {
            known.retain(|cluster, _| coming.contains(cluster));
            known.is_empty()
        });
        give_back_shared(&self.0);
    }

    /// Whether anything of `parent` was refused.
    #[must_use]
    pub fn has(&self, parent: &Parent) -> bool {
        self.0.contains_key(parent)
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.0.clear();
    }

    pub(super) fn since(&self, parent: &Parent, cluster: &ClusterName) -> Option<Moment> {
        self.0.get(parent)?.get(cluster).copied()
    }
}
