//! The labels and annotations that are a contract with users, and the JSON in them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::names::ClusterName;
use super::policy_state::PolicyState;

/// Where a label or an annotation stands, and who writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// On the hub's policies, Gateways and ManagedClusters, by their users.
    ByUsers,
    /// On the hub's policies, by the controller.
    HubPolicies,
    /// On the hub's Gateways, by the controller.
    HubGateways,
    /// On objects that policies in Rego place, by the controller.
    Placed,
    /// On the spokes' copies.
    Copies,
    /// On works.
    Works,
    /// On reports of audits.
    Reports,
    /// On the ConfigMap that says what is attached to what.
    Topology,
}

/// A label or an annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metadata {
    /// A label.
    Label,
    /// An annotation.
    Annotation,
}

/// Each key as a constant, and all of them in [`ALL`]: none can be left out of what documentation is held against.
macro_rules! keys {
    ($($(#[$doc:meta])+ $constant:ident = $key:literal, $metadata:ident, $place:ident;)+) => {
        $($(#[$doc])+ pub const $constant: &str = $key;)+

        /// All keys, or what they begin with: where each stands, and what it is of.
        pub const ALL: &[(Place, Metadata, &str)] =
            &[$((Place::$place, Metadata::$metadata, $constant)),+];
    };
}

keys! {
    /// On a copy: the hub policy it came from, `<namespace>/<name>`.
    POLICY_SYNCED = "kuadrant.io/policy-synced", Annotation, Copies;
    /// On a copy: a hash of the copy, fed back to tell which version of it a spoke answers for.
    REVISION = "kuadrant.io/revision", Annotation, Copies;
    /// On a hub policy: what every cluster says, a JSON list of [`Synced`].
    POLICIES_SYNCED = "kuadrant.io/policies-synced", Annotation, HubPolicies;
    /// On a hub policy: [`Summary`] as JSON.
    POLICIES_SYNCED_SUMMARY = "kuadrant.io/policies-synced-summary", Annotation, HubPolicies;
    /// On a hub policy: how much of the list is there: `full`, `minimal`, `keys` or `first <n> of <m>`.
    POLICIES_SYNCED_DETAIL = "kuadrant.io/policies-synced-detail", Annotation, HubPolicies;
    /// On a hub policy: what its owner should know, such as why it is frozen.
    POLICY_SYNC_MESSAGE = "kuadrant.io/policy-sync-message", Annotation, HubPolicies;
    /// On a hub policy, Gateway or resource, by its owner: a Kubernetes selector over ManagedCluster labels.
    CLUSTER_SELECTOR = "kuadrant.io/cluster-selector", Annotation, ByUsers;
    /// The same as Kubernetes' federation wrote it: a JSON list of requirements.
    FEDERATION_SELECTOR = "federation.alpha.kubernetes.io/cluster-selector", Annotation, ByUsers;
    /// On a hub resource, by its owner: which clusters it is for, and the share of its replicas that each of them gets, as JSON.
    REPLICA_PREFERENCES = "federation.kubernetes.io/replica-set-preferences", Annotation, ByUsers;
    /// On a hub policy, by its owner: how its spec differs from cluster to cluster, a JSON list.
    CLUSTER_OVERRIDES = "kuadrant.io/cluster-overrides", Annotation, ByUsers;
    /// On a hub Gateway, by its owner: how many seconds its copy stays on a cluster that is no longer chosen.
    GRACE_TIMEOUT = "kuadrant.io/grace-timeout", Annotation, ByUsers;
    /// On a work for a Gateway: since when its cluster is no longer chosen, in RFC 3339.
    DISPLACED_SINCE = "kuadrant.io/displaced-since", Annotation, Works;
    /// On a hub Gateway: the clusters that it is placed on, a JSON list.
    GATEWAY_CLUSTERS = "kuadrant.io/gateway-clusters", Annotation, HubGateways;
    /// What labels of a hub Gateway begin with that say a label of a cluster: `clusters.kuadrant.io/<cluster>_<attribute>`.
    CLUSTER_LABELS = "clusters.kuadrant.io/", Label, HubGateways;
    /// What labels of a ManagedCluster begin with that its Gateways on the hub get: `kuadrant.io/<attribute>`.
    CLUSTER_ATTRIBUTES = "kuadrant.io/", Label, ByUsers;
    /// On an object that policies place: what of its labels and annotations is theirs, and what stood there before, as JSON.
    PLACED_BY_POLICY = "kuadrant.io/placed-by-policy", Annotation, Placed;
    /// On an object that policies place, or on its Namespace, by its owner: `manual` has it told what policies say later on, and not
    /// written.
    REMEDIATE = "kuadrant.io/remediate", Annotation, ByUsers;
    /// On a copy of a Gateway.
    MANAGED = "kuadrant.io/managed", Label, Copies;
    /// On a work: its origin, `<resource>.<group>/<namespace>/<name>`.
    PARENT = "kuadrant.io/parent", Annotation, Works;
    /// On a work for a policy: the names of the hub Gateways that it serves, a JSON list.
    GATEWAYS = "kuadrant.io/gateways", Annotation, Works;
    /// On a work: the hash of its controller's name.
    CONTROLLER = "kuadrant.io/controller", Label, Works;
    /// On a work: `policy`, `resource`, `gateway` or `access`.
    WORK_FOR = "kuadrant.io/work-for", Label, Works;
    /// On a report: a hash of what it says.
    REPORTED = "kuadrant.io/reported", Annotation, Reports;
    /// On a ConfigMap: that it says what is attached to what, in its key `topology`.
    TOPOLOGY = "kuadrant.io/topology", Label, Topology;
    /// On that ConfigMap: how much of it there is: `full`, `routes`, `listeners`, `gateways` or `first <n> of <m>`.
    TOPOLOGY_DETAIL = "kuadrant.io/topology-detail", Annotation, Topology;
    /// On a work.
    MANAGED_BY = "app.kubernetes.io/managed-by", Label, Works;
}

/// Whether `key` is one that the controller writes itself.
#[must_use]
pub fn is_ours(key: &str) -> bool {
    ALL.iter().any(|(place, _, known)| {
        let is_it = key == *known || (known.ends_with('/') && key.starts_with(known));
        // Others write that one as well.
        *place != Place::ByUsers && *known != MANAGED_BY && is_it
    })
}

/// What `kubectl apply` keeps of what was applied: the object once more.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The value of [`MANAGED_BY`].
pub const MANAGED_BY_US: &str = "policy-sync";

/// The annotations that select clusters by their labels.
pub const SELECTORS: [&str; 2] = [CLUSTER_SELECTOR, FEDERATION_SELECTOR];

/// The annotations that the controller writes on hub policies, in the order of their names.
pub const OF_POLICY: [&str; 4] =
    [POLICIES_SYNCED, POLICIES_SYNCED_DETAIL, POLICIES_SYNCED_SUMMARY, POLICY_SYNC_MESSAGE];

/// The conditions of a copy that are fed back.
pub const CONDITIONS: [&str; 4] = ["Accepted", ENFORCED, "Programmed", "Ready"];
/// The condition of a copy that says whether it has an effect.
pub const ENFORCED: &str = "Enforced";

/// What one cluster says about a policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Synced {
    /// The cluster.
    pub cluster: ClusterName,
    /// The copy's name.
    pub name: String,
    /// The copy's namespace.
    pub namespace: String,
    /// Whether the cluster holds the copy as it is planned.
    #[serde(default)]
    pub applied: bool,
    /// Whether an answer for the copy as it is planned is still to come.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pending: bool,
    /// Whether the agent is removing the copy. `pending` is also true if the policy is to be on the cluster again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleting: bool,
    /// Why it is not applied, in the agent's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The copy's conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<SyncedCondition>,
    /// Whether the condition `Enforced` is true for a part of the targets only, as its message says.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// The category of the problem for which the copy is left unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen: Option<String>,
    /// The values of the configured `statusFields`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub fields: Map<String, Value>,
    /// The `statusFields` whose values are there and could not be brought here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<String>,
    /// Whether the entry says less than the cluster does, because that would take too much room.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

impl Synced {
    /// Whether the copy is being removed, and the policy is not to be on the cluster.
    #[must_use]
    pub fn leaves(&self) -> bool {
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
    /// A word for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A sentence for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl SyncedCondition {
    /// Whether another policy on the cluster takes precedence over the copy. RFC 0007 spells the reason both ways.
    #[must_use]
    pub fn is_overridden(&self) -> bool {
        self.condition_type == ENFORCED
            && self.status == "False"
            && self.reason.as_deref().is_some_and(says_overridden)
    }
}

/// Whether the `reason` of a copy that is not enforced is that another policy on the cluster takes precedence.
#[must_use]
pub fn says_overridden(reason: &str) -> bool {
    matches!(reason, "Overridden" | "Overriden")
}

/// The list of a hub policy in numbers. `enforced` and `overridden` count conditions; `rejected`, `partial`, `not_enforced`, `frozen` and
/// `unknown` count [states](PolicyState), and are left out if they are 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Entries.
    pub clusters: usize,
    /// Entries that hold the copy as it is planned.
    pub applied: usize,
    /// Entries whose copy is enforced, also those that are in `partial`.
    pub enforced: usize,
    /// Entries where another policy takes precedence.
    pub overridden: usize,
    /// Entries that are not applied, or whose answer is still to come.
    pub pending: usize,
    /// Entries whose copy is rejected.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rejected: usize,
    /// Entries whose copy is in force on a part of its targets.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub partial: usize,
    /// Entries whose copy has no effect.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub not_enforced: usize,
    /// Entries whose copy is left unchanged, because it cannot be planned.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub frozen: usize,
    /// Entries without a report from a controller on whether the copy is enforced.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unknown: usize,
    /// Whether every placed cluster is applied.
    pub synced: bool,
}

/// Whether `count` is 0, for serde.
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Summary {
    /// The numbers of `entries`; `placed` tells where the policy should be.
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

    /// The states that it counts, each with how many entries have it.
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

    /// The worst state that it counts.
    #[must_use]
    pub fn worst(&self) -> Option<PolicyState> {
        self.states().map(|(state, _)| state).min()
    }
}
