//! Rows of ManagedClusters, Placements and PlacementDecisions.

use std::sync::Arc;

use serde_json::Value;

use super::Strings;
use policy_sync_api::annotations::CLUSTER_ATTRIBUTES;
use policy_sync_api::cluster::{ManagedClusterStatus, PLACEMENT_LABEL, PlacementStatus};
use policy_sync_api::json::Hash;
use policy_sync_api::names::{ClusterName, ControllerName};
use policy_sync_api::object::HubObject;
use policy_sync_api::pause::Pause;
use policy_sync_mirror::{ObjectRow, Row};

/// A ManagedCluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// The labels, for selectors. Labels with the prefix `kuadrant.io/` are published on Gateways, so only a limited
    /// number of them is kept.
    pub labels: Strings,
    /// The number of labels that were left out.
    pub left_out: usize,
    /// Whether the ManagedCluster is terminating.
    pub deleting: bool,
    /// Whether changes on the cluster are paused.
    pub paused: Pause,
    /// Whether the hub reports the cluster's agent as available. No decision depends on this.
    pub available: bool,
}

impl Cluster {
    /// Whether the rows are equal except for the availability.
    #[must_use]
    pub fn is_equivalent(&self, other: &Self) -> bool {
        let Self { labels, left_out, deleting, paused, available: _ } = self;
        (labels, *left_out, *deleting, paused)
            == (&other.labels, other.left_out, other.deleting, &other.paused)
    }
}

/// The limits for the `kuadrant.io/*` labels of one cluster: their number, and the bytes of their keys and values. A
/// spoke can write its own labels, and all clusters of a Gateway share the space for labels on the Gateway.
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
        let paused = Pause::read(&object.metadata.annotations);
        Self { labels, left_out, deleting, paused, available: status.is_available() }
    }
}

/// A Placement.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// The number of clusters that the PlacementDecisions of the Placement contain once all of them are written.
    pub selected: usize,
}

impl From<&HubObject> for Placement {
    fn from(object: &HubObject) -> Self {
        let status: PlacementStatus = object.status_as();
        Self { selected: usize::try_from(status.number_of_selected_clusters).unwrap_or_default() }
    }
}

/// A PlacementDecision: a part of the list of clusters that a Placement has selected.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The name of the Placement, from the label of the PlacementDecision.
    pub placement: Option<Arc<str>>,
    /// The clusters. Invalid names are omitted, such as the empty name of a cluster that is not scheduled yet.
    pub clusters: Vec<ClusterName>,
}

impl From<&HubObject> for Decision {
    fn from(object: &HubObject) -> Self {
        // Entries are read one by one, so that an invalid entry does not affect the others.
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
    fn deletion_hash(&self) -> Option<Hash> {
        Some(Hash::of_value(&(&self.labels, self.deleting)))
    }
}

impl ObjectRow for Cluster {
    fn prune(object: &HubObject, _: &ControllerName) -> Self {
        object.into()
    }
}

impl Row for Placement {
    fn deletion_hash(&self) -> Option<Hash> {
        Some(Hash::of_value(&self.selected))
    }
}

impl ObjectRow for Placement {
    fn prune(object: &HubObject, _: &ControllerName) -> Self {
        object.into()
    }
}

impl Row for Decision {
    fn deletion_hash(&self) -> Option<Hash> {
        Some(Hash::of_value(&(&self.placement, &self.clusters)))
    }
}

impl ObjectRow for Decision {
    fn prune(object: &HubObject, _: &ControllerName) -> Self {
        object.into()
    }
}
