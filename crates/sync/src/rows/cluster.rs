//! ManagedClusters, Placements and PlacementDecisions.

use std::sync::Arc;

use serde_json::Value;

use super::Strings;
use policy_sync_api::annotations::CLUSTER_ATTRIBUTES;
use policy_sync_api::cluster::{ManagedClusterStatus, PLACEMENT_LABEL, PlacementStatus};
use policy_sync_api::json::Hash;
use policy_sync_api::names::{ClusterName, ControllerName};
use policy_sync_api::object::HubObject;
use policy_sync_mirror::{Pruned, Row};

/// A ManagedCluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// Labels, over which selectors select. Of those that its Gateways on the hub get, only so many count.
    pub labels: Strings,
    /// How many do not.
    pub left_out: usize,
    /// Whether it was asked to go.
    pub deleting: bool,
    /// Whether the hub hears of its agent, by the hub's own word. Nothing is decided by that.
    pub available: bool,
}

impl Cluster {
    /// Whether the two differ in nothing but whether they are available.
    #[must_use]
    pub fn decides_as(&self, other: &Self) -> bool {
        let Self { labels, left_out, deleting, available: _ } = self;
        (labels, *left_out, *deleting) == (&other.labels, other.left_out, other.deleting)
    }
}

/// The most labels `kuadrant.io/*` of one cluster that count, and the most bytes of them, keys and values: its spoke may
/// write them, and all clusters of a Gateway share the room that it has.
const ATTRIBUTES_LIMIT: (usize, usize) = (16, 2 * 1024);

impl From<&HubObject> for Cluster {
    fn from(object: &HubObject) -> Self {
        let (mut count, mut bytes) = (0, 0);
        let mut labels = object.metadata.labels.clone();
        labels.retain(|key, value| {
            if !key.starts_with(CLUSTER_ATTRIBUTES) {
                return true;
            }
            let taken = key.len() + value.len();
            let counts = count < ATTRIBUTES_LIMIT.0 && bytes + taken <= ATTRIBUTES_LIMIT.1;
            if counts {
                (count, bytes) = (count + 1, bytes + taken);
            }
            counts
        });
        let left_out = object.metadata.labels.len() - labels.len();
        let deleting = object.metadata.deletion_timestamp.is_some();
        let status: ManagedClusterStatus = object.status_as();
        Self { labels, left_out, deleting, available: status.is_available() }
    }
}

/// A Placement.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// How many clusters its decisions name once all slices are written.
    pub selected: usize,
}

impl From<&HubObject> for Placement {
    fn from(object: &HubObject) -> Self {
        let status: PlacementStatus = object.status_as();
        Self { selected: usize::try_from(status.number_of_selected_clusters).unwrap_or_default() }
    }
}

/// A PlacementDecision: one slice of what a Placement chose.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The Placement it belongs to, by its label.
    pub placement: Option<Arc<str>>,
    /// The clusters, without what names none, such as the empty name of a slice that is not scheduled yet.
    pub clusters: Vec<ClusterName>,
}

impl From<&HubObject> for Decision {
    fn from(object: &HubObject) -> Self {
        // One by one: an odd entry must not take the others along.
        let status: Value = object.status_as();
        let decisions = status["decisions"].as_array().into_iter().flatten();
        let names = decisions.filter_map(|decision| decision["clusterName"].as_str());
        Self {
            placement: object.metadata.labels.get(PLACEMENT_LABEL).map(|name| name.as_str().into()),
            clusters: names.filter_map(ClusterName::parse).collect(),
        }
    }
}

impl Row for Cluster {
    fn decides(&self) -> Option<Hash> {
        Some(Hash::of_value(&(&self.labels, self.deleting)))
    }
}

impl Pruned for Cluster {
    fn prune(object: &HubObject, _: &ControllerName) -> Self {
        object.into()
    }
}

impl Row for Placement {
    fn decides(&self) -> Option<Hash> {
        Some(Hash::of_value(&self.selected))
    }
}

impl Pruned for Placement {
    fn prune(object: &HubObject, _: &ControllerName) -> Self {
        object.into()
    }
}

impl Row for Decision {
    fn decides(&self) -> Option<Hash> {
        Some(Hash::of_value(&(&self.placement, &self.clusters)))
    }
}

impl Pruned for Decision {
    fn prune(object: &HubObject, _: &ControllerName) -> Self {
        object.into()
    }
}
