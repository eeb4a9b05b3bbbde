//! OCM kinds that only the agents and the tests use.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The agent's record of a work, on the spoke: the objects that it applied, and must remove with
/// the work.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "work.open-cluster-management.io",
    version = "v1",
    kind = "AppliedManifestWork",
    status = "AppliedManifestWorkStatus",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct AppliedManifestWorkSpec {
    /// The hash of the hub's URL.
    pub hub_hash: String,
    /// The agent that owns the record.
    #[serde(default, rename = "agentID", skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// The work on the hub.
    pub manifest_work_name: String,
}

/// The objects that the agent has applied.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppliedManifestWorkStatus {
    /// One entry for each object on the spoke.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_resources: Option<Vec<AppliedResource>>,
    /// Time since which the hub has no work for the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eviction_start_time: Option<Time>,
}

/// An object that an agent has applied.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct AppliedResource {
    /// The API group, missing for core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The version.
    pub version: String,
    /// The plural name of the kind.
    pub resource: String,
    /// The namespace, missing for a cluster-scoped object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
    /// Distinguishes it from a later object of the same name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// A set of clusters that placements may choose from.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.open-cluster-management.io",
    version = "v1beta2",
    kind = "ManagedClusterSet",
    status = "ConditionsStatus",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("default" = {"clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}}))]
pub struct ManagedClusterSetSpec {
    /// Selects the clusters of the set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = {"selectorType": "ExclusiveClusterSetLabel"}))]
    pub cluster_selector: Option<ClusterSelector>,
}

/// How the clusters of a set are found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSelector {
    /// By the label that names one set, or by [`ClusterSelector::label_selector`].
    #[schemars(extend("default" = "ExclusiveClusterSetLabel"))]
    pub selector_type: SelectorType,
    /// Which labels, under [`SelectorType::LabelSelector`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub label_selector: Option<LabelSelector>,
}

/// The ways of finding a set's clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SelectorType {
    /// The label `cluster.open-cluster-management.io/clusterset` names the set.
    #[default]
    ExclusiveClusterSetLabel,
    /// Any labels.
    LabelSelector,
}

/// Permits Placements of its namespace to select clusters of the set.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.open-cluster-management.io",
    version = "v1beta2",
    kind = "ManagedClusterSetBinding",
    namespaced,
    status = "ConditionsStatus",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterSetBindingSpec {
    /// The set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub cluster_set: Option<String>,
}

/// A status with only conditions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConditionsStatus {
    /// The conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}
