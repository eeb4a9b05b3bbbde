//! ManagedCluster, Placement and PlacementDecision of Open Cluster Management, as far as a decision reads them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The API group of clusters and placements.
pub const GROUP: &str = "cluster.open-cluster-management.io";
/// On a Gateway: the Placement that chooses its clusters. On a PlacementDecision: the Placement it belongs to.
pub const PLACEMENT_LABEL: &str = "cluster.open-cluster-management.io/placement";

/// The condition of a ManagedCluster that says whether its agent is heard of.
pub const AVAILABLE: &str = "ManagedClusterConditionAvailable";

/// A spoke. Only its name and its labels take part in decisions.
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
    /// Whether the hub takes the cluster in.
    #[serde(default)]
    #[schemars(transform = super::work::without_default)]
    pub hub_accepts_client: bool,
}

/// What is known of a spoke.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ManagedClusterStatus {
    /// [`AVAILABLE`] and others.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]), transform = super::work::without_default)]
    pub conditions: Vec<Condition>,
}

impl ManagedClusterStatus {
    /// Whether the hub hears of the cluster's agent.
    #[must_use]
    pub fn is_available(&self) -> bool {
        self.conditions.iter().any(|condition| condition.type_ == AVAILABLE && condition.status == "True")
    }

    /// Since when the hub has not heard of the cluster's agent; `None` where it does, or nothing says so.
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

/// What a Placement's controller says about it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementStatus {
    /// How many clusters the decisions name, once all their slices are written.
    #[serde(default)]
    #[schemars(transform = super::work::without_default)]
    pub number_of_selected_clusters: i32,
}

/// A slice of at most 100 clusters that a Placement chose. The object has no spec.
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

/// The clusters of a slice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlacementDecisionStatus {
    /// One for each cluster.
    pub decisions: Vec<ClusterDecision>,
}

/// One chosen cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterDecision {
    /// The cluster's name; empty while nothing is scheduled.
    pub cluster_name: String,
    /// Why it was chosen.
    pub reason: String,
}
