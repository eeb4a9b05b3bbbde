//! A model of placement: computes from the objects which clusters a Gateway may be on. The model follows the
//! documentation and is independent of the product's mirror.

use std::collections::BTreeSet;

use policy_sync_api::cluster::PLACEMENT_LABEL;
use policy_sync_api::names::{ClusterName, ObjectKey, Origin};
use policy_sync_mirror::Source;
use policy_sync_sync::kinds::{DECISIONS, GATEWAYS, PLACEMENTS};
use serde_json::Value;

use super::{Hub, START, is_name};

/// How long a Placement takes to settle, in milliseconds.
const SETTLES: i64 = 5_000;

impl Hub {
    /// The clusters of works that `holds` accepts and whose annotation names `origin`.
    pub(in crate::bodies) fn clusters_of(
        &self,
        origin: &Origin,
        holds: impl Fn(&Value) -> bool,
    ) -> BTreeSet<String> {
        let origin = origin.to_string();
        let works = self.works.iter().filter(|(_, work)| {
            work["metadata"]["annotations"]["kuadrant.io/parent"] == *origin && holds(work)
        });
        works.map(|((cluster, _), _)| cluster.clone()).collect()
    }

    /// The clusters in the decisions of `placement`.
    pub(in crate::bodies) fn decided(&self, placement: &ObjectKey) -> BTreeSet<String> {
        let decisions = self.objects.iter().filter(|(address, object)| {
            address.0 == DECISIONS.all() && placement_of(address, object).as_ref() == Some(placement)
        });
        let names = decisions.flat_map(|(_, object)| {
            let decisions = object["status"]["decisions"].as_array().into_iter().flatten();
            decisions.filter_map(|decision| decision["clusterName"].as_str())
        });
        names.filter(|name| is_name(name, 63, false)).map(str::to_owned).collect()
    }

    /// Whether the decisions of `placement` are complete and no longer changing. Only then has a cluster that is
    /// missing in the decisions left the Placement.
    pub(in crate::bodies) fn is_settled(&self, placement: &ObjectKey) -> bool {
        let found = self.objects.get(&(PLACEMENTS.all(), placement.clone()));
        let selected = found.map_or(0, |found| {
            let selected = found["status"]["numberOfSelectedClusters"].as_i64();
            selected.and_then(|selected| i32::try_from(selected).ok()).unwrap_or_default().max(0)
        });
        let changed = self.changed.get(placement).copied().unwrap_or(START);
        self.decided(placement).len() >= usize::try_from(selected).unwrap_or_default()
            && self.now >= changed + SETTLES
    }

    /// The clusters that may have the Gateway `key`: its placed clusters, and clusters that may have left the decisions
    /// only for a short time.
    pub(in crate::bodies) fn placed(&self, key: &ObjectKey) -> BTreeSet<String> {
        let Some(gateway) = self.objects.get(&(GATEWAYS.all(), key.clone())) else {
            return BTreeSet::new();
        };
        let Some(placement) =
            gateway["metadata"]["labels"][PLACEMENT_LABEL].as_str().filter(|p| !p.is_empty())
        else {
            return BTreeSet::new();
        };
        let placement = ObjectKey::new(&key.namespace, placement);
        let mut clusters = self.decided(&placement);
        if !self.is_settled(&placement) {
            clusters.extend(self.clusters_of(&Origin::Gateway(key.clone()), |_| true));
        }
        clusters
    }
}

/// The Placement of `object`, which is a Placement or a PlacementDecision.
pub(super) fn placement_of((source, key): &(Source, ObjectKey), object: &Value) -> Option<ObjectKey> {
    if source.is(&PLACEMENTS) {
        return Some(key.clone());
    }
    let name = object["metadata"]["labels"][PLACEMENT_LABEL].as_str().filter(|_| source.is(&DECISIONS))?;
    Some(ObjectKey::new(&key.namespace, name))
}

/// Converts names of clusters to the type in plans.
pub(in crate::bodies) fn names(clusters: &BTreeSet<String>) -> BTreeSet<ClusterName> {
    clusters.iter().map(|name| ClusterName::from(name.as_str())).collect()
}
