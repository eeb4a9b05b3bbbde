//! The Gateways and policies of a hub, with their states on its clusters, as plain data.
//!
//! Routes are not copied to clusters. So the topology of a cluster ends at its listeners.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::locator::{GATEWAY, Kind};
use super::rows::{Created, Policy, Target};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, ObjectKey};
use policy_sync_api::policy_state::PolicyState;

/// The objects on all clusters of a hub.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    /// The Gateways, each with its clusters.
    pub gateways: BTreeMap<ObjectKey, BTreeMap<ClusterName, GatewayClusterState>>,
    /// The policies that target these Gateways.
    pub policies: BTreeMap<(Kind, ObjectKey), PolicyDistribution>,
}

/// The Gateways and clusters that a policy is delivered to.
#[derive(Clone, Debug, Default)]
pub struct PolicyDistribution {
    /// The Gateways that the policy's copies refer to: the targeted Gateways whose class supports the policy's kind.
    pub gateways: BTreeSet<ObjectKey>,
    /// The state of the policy on each cluster of these Gateways.
    pub clusters: BTreeMap<ClusterName, PolicyClusterState>,
    /// The creation time of the copy on a cluster, by the clock of that cluster, if its agent reports it.
    pub created: BTreeMap<ClusterName, Moment>,
}

/// The state of a Gateway on a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GatewayClusterState {
    /// The end of the grace period, in RFC 3339; `None` if the Gateway is placed on the cluster.
    pub grace_period_end: Option<String>,
    /// The reason why the Gateway is not in force on the cluster: a code and a sentence.
    pub reason: Option<(&'static str, String)>,
    /// Whether the cluster is known to have the Gateway's current revision.
    pub certain: bool,
    /// The number of routes attached to each listener, as reported by the cluster.
    pub attached_routes: BTreeMap<String, i64>,
}

impl GatewayClusterState {
    /// The state as one word: `grace` or `placed`.
    #[must_use]
    pub fn state(&self) -> &'static str {
        if self.grace_period_end.is_some() { "grace" } else { "placed" }
    }
}

/// The state of a policy on a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PolicyClusterState {
    /// The sync state; `None` if the policy is neither on the cluster nor intended for it.
    pub state: Option<PolicyState>,
    /// Whether the policy's rules are part of the merge on the cluster.
    pub is_merged: bool,
    /// Whether `is_merged` is certain.
    pub certain: bool,
    /// The reason why the policy's rules are not part of the merge, or why `is_merged` is uncertain: a code, and the
    /// text that `explain` prints.
    pub reason: Option<(&'static str, String)>,
    /// The policy's spec on the cluster, if the cluster's overrides change it.
    pub variant: Option<Arc<Variant>>,
}

/// A spec of a policy that differs from the spec on the hub.
#[derive(Clone, Debug)]
pub struct Variant {
    /// The number of the variant. Variants of one policy are equal if their numbers are equal.
    pub number: usize,
    /// The spec, as JSON.
    pub spec: Arc<str>,
    /// The paths at which the variant differs from the spec on the hub, as JSON pointers.
    pub differs: Vec<String>,
}

impl PartialEq for Variant {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Variant {}

impl Hash for Variant {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

impl PolicyClusterState {
    /// A note to print after the state; may be empty.
    #[must_use]
    pub fn note(&self) -> &'static str {
        // A pending policy is merged only if the objects come from files, which contain no reports of clusters.
        if self.is_merged && self.state == Some(PolicyState::Pending) {
            ", no cluster has reported"
        } else {
            ""
        }
    }

    /// The reason as text. The code is omitted if it repeats the state.
    #[must_use]
    pub fn why(&self) -> Option<String> {
        let (code, text) = self.reason.as_ref()?;
        let repeats = self.state.is_some_and(|state| state.as_str() == *code);
        Some(if repeats { text.clone() } else { format!("{code}: {text}") })
    }

    /// The paths at which the spec differs from the spec on the hub.
    #[must_use]
    pub fn differs(&self) -> &[String] {
        self.variant.as_ref().map_or(&[], |variant| &variant.differs)
    }
}

/// Whether `target`, of a policy in `namespace`, is the Gateway `key` or one of its listeners. False for Gateways in
/// other namespaces.
#[must_use]
pub fn is_target(target: &Target, namespace: &str, key: &ObjectKey) -> bool {
    let to = target.locator(namespace);
    to.kind == GATEWAY && to.namespace == namespace && namespace == &*key.namespace && to.name == &*key.name
}

impl Policy {
    /// Returns the copy on a cluster, with only the references to the Gateway `key`. `spec` and `created` replace the
    /// policy's own values if they are known.
    pub(super) fn copy(
        &self,
        own: &ObjectKey,
        key: &ObjectKey,
        spec: Option<&Arc<str>>,
        created: Option<Created>,
    ) -> Self {
        let targets = self.targets.iter().filter(|target| is_target(target, &own.namespace, key));
        Self {
            created: created.unwrap_or(self.created),
            targets: targets.cloned().collect(),
            spec: spec.unwrap_or(&self.spec).clone(),
            ..Self::default()
        }
    }
}
