//! ManagedClusters, Placements and PlacementDecisions.

use std::sync::Arc;

use serde_json::Value;

use super::{Strings, Version};
use crate::api::cluster::{PLACEMENT_LABEL, PlacementStatus};
use crate::api::json::Hash;
use crate::api::names::ClusterName;
use crate::api::object::HubObject;

/// A ManagedCluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// Resource version.
    pub version: Version,
    /// Labels, over which selectors select.
    pub labels: Strings,
}

impl Cluster {
    /// What decisions read of it.
    pub(in crate::mirror) fn decides(&self) -> Hash {
        Hash::of(&self.labels)
    }
}

impl From<&HubObject> for Cluster {
    fn from(object: &HubObject) -> Self {
        Self { version: Version(object.metadata.version()), labels: object.metadata.labels.clone() }
    }
}

/// A Placement.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// Resource version.
    pub version: Version,
    /// How many clusters its decisions name once all slices are written.
    pub selected: usize,
}

impl Placement {
    /// What decisions read of it.
    pub(in crate::mirror) fn decides(&self) -> Hash {
        Hash::of(&self.selected)
    }
}

impl From<&HubObject> for Placement {
    fn from(object: &HubObject) -> Self {
        let status: PlacementStatus = object.status_as();
        Self {
            version: Version(object.metadata.version()),
            selected: usize::try_from(status.number_of_selected_clusters).unwrap_or_default(),
        }
    }
}

/// A PlacementDecision: one slice of what a Placement chose.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Resource version.
    pub version: Version,
    /// The Placement it belongs to, by its label.
    pub placement: Option<Arc<str>>,
    /// The clusters, without what names none, such as the empty name of a slice that is not scheduled yet.
    pub clusters: Vec<ClusterName>,
}

impl Decision {
    /// What decisions read of it.
    pub(in crate::mirror) fn decides(&self) -> Hash {
        Hash::of(&(&self.placement, &self.clusters))
    }
}

impl From<&HubObject> for Decision {
    fn from(object: &HubObject) -> Self {
        // One by one: an odd entry must not take the others along.
        let status: Value = object.status_as();
        let decisions = status["decisions"].as_array().into_iter().flatten();
        let names = decisions.filter_map(|decision| decision["clusterName"].as_str());
        Self {
            version: Version(object.metadata.version()),
            placement: object.metadata.labels.get(PLACEMENT_LABEL).map(|name| name.as_str().into()),
            clusters: names.filter_map(ClusterName::parse).collect(),
        }
    }
}
