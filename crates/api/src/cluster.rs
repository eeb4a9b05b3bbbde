//! ManagedCluster, Placement and PlacementDecision of Open Cluster Management, limited to the fields in use.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The API group of clusters and placements.
pub const GROUP: &str = "cluster.open-cluster-management.io";
/// On a Gateway: the Placement that selects its clusters. On a PlacementDecision: the Placement to which it belongs.
pub const PLACEMENT_LABEL: &str = "cluster.open-cluster-management.io/placement";

/// The condition of a ManagedCluster that reports whether its agent renews its lease.
pub const AVAILABLE: &str = "ManagedClusterConditionAvailable";

/// A spoke. Decisions depend only on its name and labels.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.open-cluster-management.io",
    version = "v1",
    kind = "ManagedCluster",
    status = "ManagedClusterStatus",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterSpec {
    /// Whether the hub accepts the cluster.
    #[serde(default)]
    #[schemars(transform = super::work::without_default)]
    pub hub_accepts_client: bool,
}

/// The status of a ManagedCluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ManagedClusterStatus {
    /// The condition [`AVAILABLE`] and others.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]), transform = super::work::without_default)]
    pub conditions: Vec<Condition>,
}

impl ManagedClusterStatus {
    /// Whether the cluster's agent is available.
    #[must_use]
    pub fn is_available(&self) -> bool {
        self.conditions.iter().any(|condition| condition.type_ == AVAILABLE && condition.status == "True")
    }

    /// When the cluster's agent became unavailable; `None` if it is available or the condition is missing.
    #[must_use]
    pub fn unavailable_since(&self) -> Option<Timestamp> {
        let unavailable = |condition: &&Condition| condition.type_ == AVAILABLE && condition.status != "True";
        Some(self.conditions.iter().find(unavailable)?.last_transition_time.0)
    }
}

/// A choice of clusters.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.open-cluster-management.io",
    version = "v1beta1",
    kind = "Placement",
    namespaced,
    status = "PlacementStatus",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct PlacementSpec {
    /// The cluster sets to choose from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_sets: Vec<String>,
}

/// The status of a Placement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementStatus {
    /// The total number of clusters in the PlacementDecisions.
    #[serde(default)]
    #[schemars(transform = super::work::without_default)]
    pub number_of_selected_clusters: i32,
}

/// At most 100 of the clusters that a Placement selected. The object has no spec.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.open-cluster-management.io",
    version = "v1beta1",
    kind = "PlacementDecision",
    namespaced,
    status = "PlacementDecisionStatus",
    derive = "PartialEq"
)]
pub struct PlacementDecisionSpec {}

/// The selected clusters of a PlacementDecision.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlacementDecisionStatus {
    /// One entry per cluster.
    pub decisions: Vec<ClusterDecision>,
}

/// A selected cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterDecision {
    /// The cluster's name; empty if no cluster is scheduled.
    pub cluster_name: String,
    /// Why the cluster was selected.
    pub reason: String,
}
