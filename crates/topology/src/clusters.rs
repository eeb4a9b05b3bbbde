//! What is on the clusters of a hub, as plain data: which Gateways, and which policies, each as it is there.
//!
//! Only Gateways travel, and the policies that target them: what is known of a cluster ends at the listener.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::locator::{GATEWAY, Kind};
use super::rows::{Created, Policy, Target};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, ObjectKey};
use policy_sync_api::policy_state::PolicyState;

/// What is on clusters.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    /// The Gateways, each with the clusters that it is on.
    pub gateways: BTreeMap<ObjectKey, BTreeMap<ClusterName, GatewayThere>>,
    /// The policies that target them.
    pub policies: BTreeMap<(Kind, ObjectKey), PolicyOn>,
}

/// Where a policy is.
#[derive(Clone, Debug, Default)]
pub struct PolicyOn {
    /// The Gateways that its copies refer to: of those that it targets, those whose class takes its kind.
    pub gateways: BTreeSet<ObjectKey>,
    /// How it is on every cluster of these.
    pub clusters: BTreeMap<ClusterName, PolicyThere>,
    /// When the copy was created on a cluster, by the clock of that cluster, if its agent reports it.
    pub created: BTreeMap<ClusterName, Moment>,
}

/// How a Gateway is on a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GatewayThere {
    /// Until when it serves on there in grace, in RFC 3339; none where it is placed.
    pub until: Option<String>,
    /// The reason for which it is not in force there: a code and a sentence.
    pub reason: Option<(&'static str, String)>,
    /// Whether what is there is what the hub has.
    pub certain: bool,
    /// How many routes each listener carries there, as far as the cluster has said.
    pub attached_routes: BTreeMap<String, i64>,
}

impl GatewayThere {
    /// How it is there, in a word.
    #[must_use]
    pub fn state(&self) -> &'static str {
        if self.until.is_some() { "grace" } else { "placed" }
    }
}

/// How a policy is on a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PolicyThere {
    /// Its state; `None` if it is not there, and is not to be.
    pub state: Option<PolicyState>,
    /// Whether its rules are merged into those that are in force there.
    pub counts: bool,
    /// Whether that is certain.
    pub certain: bool,
    /// Why it does not count, or not certainly, in the words of `explain`.
    pub reason: Option<(&'static str, String)>,
    /// Its spec there, where the cluster's overrides make it another.
    pub variant: Option<Arc<Variant>>,
}

/// A spec of a policy that is not the hub's.
#[derive(Clone, Debug)]
pub struct Variant {
    /// Which of the policy's it is: two of one number are equal.
    pub number: usize,
    /// The spec, as JSON.
    pub spec: Arc<str>,
    /// The places at which it differs from the hub's, as JSON pointers.
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

impl PolicyThere {
    /// What its state does not say; empty if there is nothing.
    #[must_use]
    pub fn note(&self) -> &'static str {
        // On a hub a policy counts only after its cluster has reported.
        if self.counts && self.state == Some(PolicyState::Pending) { ", no cluster has reported" } else { "" }
    }

    /// The reason as text. Its code is left out if it repeats the state.
    #[must_use]
    pub fn why(&self) -> Option<String> {
        let (code, text) = self.reason.as_ref()?;
        let repeats = self.state.is_some_and(|state| state.as_str() == *code);
        Some(if repeats { text.clone() } else { format!("{code}: {text}") })
    }

    /// The places at which its spec differs from the hub's.
    #[must_use]
    pub fn differs(&self) -> &[String] {
        self.variant.as_ref().map_or(&[], |variant| &variant.differs)
    }
}

/// Whether `target` of a policy in `namespace` is the Gateway `key`, or a listener of it. Policies target Gateways of their own
/// namespace.
#[must_use]
pub fn is_target(target: &Target, namespace: &str, key: &ObjectKey) -> bool {
    let to = target.locator(namespace);
    to.kind == GATEWAY && to.namespace == namespace && namespace == &*key.namespace && to.name == &*key.name
}

impl Policy {
    /// Returns the copy on a cluster, with only the references to the Gateway `key`. `spec` and `created` replace the policy's own values if
    /// they are known.
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
