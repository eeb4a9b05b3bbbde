//! Determines which plans a change of a ManagedCluster may affect.
//!
//! A spoke may change its own labels and pause itself at any rate. A change therefore affects only objects that are
//! placed on the cluster or have a work there.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use super::{Triggers, both};
use crate::Keys;
use crate::rows::cluster::Cluster;
use crate::rows::gateway::Gateway;
use crate::rows::policy::Policy;
use policy_sync_api::annotations::{CLUSTER_OVERRIDES, SELECTOR_ANNOTATIONS};
use policy_sync_api::names::{ClusterName, ObjectKey, Origin};

impl Triggers<'_> {
    /// The keys that are affected if a ManagedCluster is created, changed or deleted. `before` is its old row. A
    /// Gateway publishes labels of its clusters, and has a grace period only on existing clusters. On each cluster, the
    /// Gateway waits only for policies that select this cluster.
    pub(super) fn cluster(&self, key: &ObjectKey, before: Option<&Cluster>) -> Keys {
        let cluster = ClusterName(key.name.clone());
        if let (Some(before), Some(after)) = (before, self.0.cluster(&cluster))
            && before.is_equivalent(after)
        {
            return Keys::new();
        }
        let gateways: Vec<Origin> = self.gateways_on(&cluster).collect();
        let choosing = self.choosing(&cluster).map(|(namespace, _)| namespace);
        let namespaces: HashSet<&Arc<str>> =
            gateways.iter().map(|gateway| &gateway.object().namespace).chain(choosing).collect();
        let after = self.0.cluster(&cluster);
        let changed = changed_labels(before, after);
        let pause = |row: Option<&Cluster>| row.map(|row| row.paused.clone()).unwrap_or_default();
        let pause_changed = pause(before) != pause(after);
        let affected = self.0.objects().filter(|(_, object)| pause_changed || may_refer_to(object, &changed));
        let objects = affected.map(|(object, _)| object).filter(|object| {
            namespaces.contains(&object.object().namespace) || self.0.work_of(object, &cluster).is_some()
        });
        gateways.iter().cloned().chain(objects).flat_map(|origin| both(&origin)).collect()
    }

    /// The Gateways that are placed on `cluster` or have a work there.
    fn gateways_on(&self, cluster: &ClusterName) -> impl Iterator<Item = Origin> {
        let placements: HashSet<(&str, &str)> =
            self.choosing(cluster).map(|(namespace, name)| (&**namespace, name)).collect();
        let is_placed = move |key: &ObjectKey, gateway: &Gateway| {
            gateway.placement().is_some_and(|placement| placements.contains(&(&*key.namespace, placement)))
        };
        self.0.gateways().filter_map(move |(key, gateway)| {
            let origin = Origin::Gateway(key.clone());
            let is_on_cluster = is_placed(key, gateway) || self.0.work_of(&origin, cluster).is_some();
            is_on_cluster.then_some(origin)
        })
    }
}

impl<'m> Triggers<'m> {
    /// The namespaces and names of the Placements that select `cluster`.
    fn choosing(&self, cluster: &ClusterName) -> impl Iterator<Item = (&'m Arc<str>, &'m str)> {
        let choosing =
            self.0.placement_decisions().filter(|(_, decision)| decision.clusters.contains(cluster));
        choosing.filter_map(|(key, decision)| Some((&key.namespace, decision.placement.as_deref()?)))
    }
}

/// The keys of the labels that differ between the two rows.
fn changed_labels<'c>(before: Option<&'c Cluster>, after: Option<&'c Cluster>) -> BTreeSet<&'c str> {
    let labels = |cluster: Option<&'c Cluster>| -> BTreeSet<(&'c str, &'c str)> {
        let labels = cluster.into_iter().flat_map(|cluster| &cluster.labels);
        labels.map(|(key, value)| (key.as_str(), value.as_str())).collect()
    };
    labels(before).symmetric_difference(&labels(after)).map(|(key, _)| *key).collect()
}

/// Whether a selector or override of `policy` may refer to a label whose key is in `labels`. Keys in JSON may be
/// escaped, so a backslash counts as a match.
fn may_refer_to(policy: &Policy, labels: &BTreeSet<&str>) -> bool {
    let keys = SELECTOR_ANNOTATIONS.into_iter().chain([CLUSTER_OVERRIDES]);
    let texts = keys.filter_map(|key| policy.annotations.get(key));
    let mut texts =
        texts.filter(|text| text.contains('\\') || labels.iter().any(|label| text.contains(*label)));
    texts.next().is_some()
}
