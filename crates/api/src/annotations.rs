//! The labels and annotations that users and other tools rely on, and the JSON in them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::names::ClusterName;
use super::policy_state::PolicyState;

/// The objects on which a label or annotation occurs, and its writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyLocation {
    /// On policies, Gateways and ManagedClusters on the hub, written by users.
    UserObjects,
    /// On policies on the hub, written by the controller.
    HubPolicies,
    /// On Gateways on the hub, written by the controller.
    HubGateways,
    /// On objects placed by Rego policies, written by the controller.
    PlacedObjects,
    /// On the copies on spokes.
    Copies,
    /// On ManifestWorks.
    Works,
    /// On audit reports.
    Reports,
    /// On the topology ConfigMap.
    Topology,
}

/// The two kinds of keys in `metadata`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MetadataKind {
    /// A label.
    Label,
    /// An annotation.
    Annotation,
}

/// Defines a constant for each key, and [`ALL`] with all of them, so that a test can compare the documentation with the
/// complete list.
macro_rules! keys {
    ($($(#[$doc:meta])+ $constant:ident = $key:literal, $metadata:ident, $location:ident;)+) => {
        $($(#[$doc])+ pub const $constant: &str = $key;)+

        /// All keys or key prefixes, with the objects on which they occur and whether they are labels or annotations.
        pub const ALL: &[(KeyLocation, MetadataKind, &str)] =
            &[$((KeyLocation::$location, MetadataKind::$metadata, $constant)),+];
    };
}

keys! {
    /// On a copy: the hub policy from which it was made, `<namespace>/<name>`.
    POLICY_SYNCED = "kuadrant.io/policy-synced", Annotation, Copies;
    /// On a copy: a hash of the copy. The agent returns it as feedback, which shows the version to which the feedback
    /// belongs.
    REVISION = "kuadrant.io/revision", Annotation, Copies;
    /// On a hub policy: the status on each cluster, a JSON list of [`Synced`].
    POLICIES_SYNCED = "kuadrant.io/policies-synced", Annotation, HubPolicies;
    /// On a hub policy: a [`Summary`] as JSON.
    POLICIES_SYNCED_SUMMARY = "kuadrant.io/policies-synced-summary", Annotation, HubPolicies;
    /// On a hub policy: how much detail [`POLICIES_SYNCED`] has: `full`, `minimal`, `keys` or `first <n> of <m>`.
    POLICIES_SYNCED_DETAIL = "kuadrant.io/policies-synced-detail", Annotation, HubPolicies;
    /// On a hub policy: a message for its owner, for example why it is frozen.
    POLICY_SYNC_MESSAGE = "kuadrant.io/policy-sync-message", Annotation, HubPolicies;
    /// On a hub policy, Gateway or resource, by its owner: a Kubernetes label selector for ManagedClusters.
    CLUSTER_SELECTOR = "kuadrant.io/cluster-selector", Annotation, UserObjects;
    /// Like [`CLUSTER_SELECTOR`], in the format of Kubernetes federation: a JSON list of requirements.
    FEDERATION_SELECTOR = "federation.alpha.kubernetes.io/cluster-selector", Annotation, UserObjects;
    /// On a hub resource, by its owner: its clusters, and each cluster's share of the replicas, as JSON.
    REPLICA_PREFERENCES = "federation.kubernetes.io/replica-set-preferences", Annotation, UserObjects;
    /// On a hub policy, by its owner: changes to its spec by cluster, a JSON list.
    CLUSTER_OVERRIDES = "kuadrant.io/cluster-overrides", Annotation, UserObjects;
    /// On a hub Gateway, by its owner: the grace period in seconds.
    GRACE_TIMEOUT = "kuadrant.io/grace-timeout", Annotation, UserObjects;
    /// On a hub policy, Gateway, resource, GatewayClass or ManagedCluster, by its owner: while it is `true`, works for
    /// the object are neither created nor changed.
    PAUSED = "kuadrant.io/paused", Annotation, UserObjects;
    /// On the work of a Gateway: when its cluster ceased to be selected, in RFC 3339. The grace period starts then.
    UNPLACED_SINCE = "kuadrant.io/displaced-since", Annotation, Works;
    /// On a hub Gateway: the clusters on which it is placed, a JSON list.
    GATEWAY_CLUSTERS = "kuadrant.io/gateway-clusters", Annotation, HubGateways;
    /// The prefix of labels on a hub Gateway that repeat labels of its clusters:
    /// `clusters.kuadrant.io/<cluster>_<attribute>`.
    CLUSTER_LABELS = "clusters.kuadrant.io/", Label, HubGateways;
    /// The prefix of labels on a ManagedCluster that its Gateways on the hub repeat: `kuadrant.io/<attribute>`.
    CLUSTER_ATTRIBUTES = "kuadrant.io/", Label, UserObjects;
    /// On an object placed by Rego policies: the labels and annotations that they set, with the original values, as
    /// JSON.
    PLACED_BY_POLICY = "kuadrant.io/placed-by-policy", Annotation, PlacedObjects;
    /// On an object placed by Rego policies, or on its Namespace, by its owner: `manual` means that later
    /// changes are only reported, not written.
    REMEDIATE = "kuadrant.io/remediate", Annotation, UserObjects;
    /// On the copy of a Gateway: `true`.
    MANAGED = "kuadrant.io/managed", Label, Copies;
    /// On a work: the hub object from which it was made, `<resource>.<group>/<namespace>/<name>`.
    PARENT = "kuadrant.io/parent", Annotation, Works;
    /// On the work of a policy: the names of the hub Gateways that the policy targets, a JSON list.
    GATEWAYS = "kuadrant.io/gateways", Annotation, Works;
    /// On a work: the hash of its controller's name.
    CONTROLLER = "kuadrant.io/controller", Label, Works;
    /// On a work: `policy`, `resource`, `gateway` or `access`.
    WORK_FOR = "kuadrant.io/work-for", Label, Works;
    /// On an audit report: a hash of its content.
    REPORTED = "kuadrant.io/reported", Annotation, Reports;
    /// On the topology ConfigMap; the key `topology` has the data.
    TOPOLOGY = "kuadrant.io/topology", Label, Topology;
    /// On the topology ConfigMap: how much detail the topology has: `full`, `routes`, `listeners`, `gateways` or `first
    /// <n> of <m>`.
    TOPOLOGY_DETAIL = "kuadrant.io/topology-detail", Annotation, Topology;
    /// On a work: `policy-sync`.
    MANAGED_BY = "app.kubernetes.io/managed-by", Label, Works;
}

/// Whether only the controller writes `key`.
#[must_use]
pub fn is_controller_key(key: &str) -> bool {
    ALL.iter().any(|(location, _, known)| {
        let is_it = key == *known || (known.ends_with('/') && key.starts_with(known));
        // Other tools write [`MANAGED_BY`], too.
        *location != KeyLocation::UserObjects && *known != MANAGED_BY && is_it
    })
}

/// The annotation in which `kubectl apply` stores the complete object.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The value of [`MANAGED_BY`].
pub const MANAGED_BY_US: &str = "policy-sync";

/// The annotations that select clusters by their labels.
pub const SELECTOR_ANNOTATIONS: [&str; 2] = [CLUSTER_SELECTOR, FEDERATION_SELECTOR];

/// The annotations that the controller writes on hub policies, sorted.
pub const POLICY_ANNOTATIONS: [&str; 4] =
    [POLICIES_SYNCED, POLICIES_SYNCED_DETAIL, POLICIES_SYNCED_SUMMARY, POLICY_SYNC_MESSAGE];

/// The conditions of a copy that are returned as feedback.
pub const CONDITIONS: [&str; 4] = ["Accepted", ENFORCED, "Programmed", "Ready"];
/// The condition of a copy that reports whether the copy is in force.
pub const ENFORCED: &str = "Enforced";

/// The status of a policy on one cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Synced {
    /// The name of the cluster.
    pub cluster: ClusterName,
    /// The copy's name.
    pub name: String,
    /// The copy's namespace.
    pub namespace: String,
    /// Whether the cluster has the current revision of the copy.
    #[serde(default)]
    pub applied: bool,
    /// Whether the agent's report on the current revision is outstanding.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pending: bool,
    /// Whether the agent is removing the copy. `pending` is also true if the policy is planned for the cluster again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleting: bool,
    /// The agent's message if the copy is not applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The copy's conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<SyncedCondition>,
    /// Whether the condition `Enforced` is true for only some of the targets, according to its message.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// The category of the problem that freezes the copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen: Option<String>,
    /// The values of the configured `statusFields`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub fields: Map<String, Value>,
    /// The `statusFields` that have values but could not be included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<String>,
    /// Whether details are omitted to save space.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

impl Synced {
    /// Whether the copy is being removed, and is not planned again.
    #[must_use]
    pub fn is_being_removed(&self) -> bool {
        self.deleting && !self.pending
    }

    /// The condition of this type, if the copy has it.
    #[must_use]
    pub fn condition(&self, name: &str) -> Option<&SyncedCondition> {
        self.conditions.iter().find(|condition| condition.condition_type == name)
    }

    /// Whether the copy has the condition of this type with this status.
    #[must_use]
    pub fn has_condition(&self, name: &str, status: &str) -> bool {
        self.condition(name).is_some_and(|condition| condition.status == status)
    }
}

/// A condition of a copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncedCondition {
    /// `Accepted`, `Enforced`, `Programmed` or `Ready`.
    #[serde(rename = "type")]
    pub condition_type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// A machine-readable reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A human-readable message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl SyncedCondition {
    /// Whether another policy on the cluster takes precedence over the copy. Kuadrant's RFC 0007 has both spellings of
    /// the reason.
    #[must_use]
    pub fn is_overridden(&self) -> bool {
        self.condition_type == ENFORCED
            && self.status == "False"
            && self.reason.as_deref().is_some_and(is_overridden_reason)
    }
}

/// Whether `reason` means that another policy on the cluster takes precedence.
#[must_use]
pub fn is_overridden_reason(reason: &str) -> bool {
    matches!(reason, "Overridden" | "Overriden")
}

/// Counts of a hub policy's [`Synced`] entries. `enforced` and `overridden` count conditions. `rejected`, `partial`,
/// `not_enforced`, `frozen` and `unknown` count [states](PolicyState), and are omitted if they are 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// The number of all entries.
    pub clusters: usize,
    /// Entries with the current revision applied.
    pub applied: usize,
    /// Entries with an enforced copy, including entries counted in `partial`.
    pub enforced: usize,
    /// Entries where another policy takes precedence.
    pub overridden: usize,
    /// Entries that are not applied, or whose report is outstanding.
    pub pending: usize,
    /// Entries with a rejected copy.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rejected: usize,
    /// Entries with a copy that is in force on only some of its targets.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub partial: usize,
    /// Entries with a copy that has no effect.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub not_enforced: usize,
    /// Entries whose copy is left unchanged, because it cannot be planned.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub frozen: usize,
    /// Entries without a report from a controller on whether the copy is enforced.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unknown: usize,
    /// Whether all placed clusters have applied the current revision.
    pub synced: bool,
}

/// Whether `count` is 0, for serde.
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Summary {
    /// Counts `entries`. `placed` returns whether the policy is placed on a cluster.
    #[must_use]
    pub fn new(entries: &[Synced], placed: impl Fn(&ClusterName) -> bool) -> Self {
        let count = |test: &dyn Fn(&Synced) -> bool| entries.iter().filter(|entry| test(entry)).count();
        let of = |state| count(&|entry| PolicyState::of(entry) == state);
        Self {
            clusters: entries.len(),
            applied: count(&|entry| entry.applied),
            enforced: count(&|entry| entry.has_condition(ENFORCED, "True")),
            overridden: count(&|entry| entry.conditions.iter().any(SyncedCondition::is_overridden)),
            pending: count(&|entry| !entry.applied || entry.pending),
            rejected: of(PolicyState::Rejected),
            partial: of(PolicyState::PartiallyEnforced),
            not_enforced: of(PolicyState::NotEnforced),
            frozen: of(PolicyState::Frozen),
            unknown: of(PolicyState::Unknown),
            synced: entries.iter().all(|entry| entry.applied || !placed(&entry.cluster)),
        }
    }

    /// The states with a count above 0, the worst first.
    pub fn states(&self) -> impl Iterator<Item = (PolicyState, usize)> {
        let counts = [
            (PolicyState::Rejected, self.rejected),
            (PolicyState::NotEnforced, self.not_enforced),
            (PolicyState::Frozen, self.frozen),
            (PolicyState::PartiallyEnforced, self.partial),
            (PolicyState::Pending, self.pending),
            (PolicyState::Unknown, self.unknown),
            (PolicyState::Overridden, self.overridden),
            (PolicyState::Enforced, self.enforced),
        ];
        counts.into_iter().filter(|(_, count)| *count > 0)
    }

    /// The worst state with a count above 0.
    #[must_use]
    pub fn worst(&self) -> Option<PolicyState> {
        self.states().map(|(state, _)| state).min()
    }
}
