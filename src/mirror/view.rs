//! The mirror as a plan sees it: read-only, consistent, at one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::rows::class::Class;
use super::rows::cluster::{Cluster, Placement};
use super::rows::gateway::Gateway;
use super::rows::grant::Grant;
use super::rows::kind::{PolicyKindInfo, Resolution};
use super::rows::policy::Policy;
use super::rows::schema::WorkSchema;
use super::rows::secret::Secret;
use super::rows::work::{Purpose, Work};
use super::tables::{KindState, Tables};
use super::{Moment, PolicyKind, Source};
use crate::api::names::{ClusterName, ControllerName, GroupVersionResource, ObjectKey, Parent, WorkName};
use crate::api::params::{Params, ParamsError};

/// How long a Placement and its decisions must not change before a cluster that left them counts as gone.
pub const PLACEMENT_SETTLES: Duration = Duration::from_secs(5);

/// The mirror at one moment.
#[derive(Clone, Copy, Debug)]
pub struct View<'m> {
    tables: &'m Tables,
    /// The moment.
    pub now: Moment,
}

/// What the parameters of a class of ours say.
#[derive(Clone, Debug, PartialEq)]
pub enum ClassParams {
    /// They are valid.
    Valid(Arc<Params>),
    /// They are not. What they last were is kept.
    Invalid {
        /// The object that holds them: `GatewayClass shop` or `parameters shop/params`.
        place: String,
        /// What is wrong.
        error: ParamsError,
        /// The last valid ones that this process has seen.
        known: Option<Arc<Params>>,
    },
    /// They were not read yet.
    Unread {
        /// The last valid ones that this process has seen.
        known: Option<Arc<Params>>,
    },
}

impl ClassParams {
    /// The valid parameters, or the last valid ones.
    #[must_use]
    pub fn known(&self) -> Option<&Arc<Params>> {
        match self {
            Self::Valid(params) => Some(params),
            Self::Invalid { known, .. } | Self::Unread { known } => known.as_ref(),
        }
    }
}

impl<'m> View<'m> {
    pub(super) fn new(tables: &'m Tables, now: Moment) -> Self {
        Self { tables, now }
    }

    /// Whether the kinds without which nothing can be planned have been listed, and works can say what they must.
    #[must_use]
    pub fn ready(&self) -> bool {
        self.tables.ready()
    }

    /// What the hub's ManifestWork can say, once that is known.
    #[must_use]
    pub fn work_schema(&self) -> Option<WorkSchema> {
        self.tables.work_schema
    }

    /// The controller that this mirror is for.
    #[must_use]
    pub fn controller(&self) -> &'m ControllerName {
        &self.tables.controller
    }

    /// When `source` was first listed whole.
    #[must_use]
    pub fn synced(&self, source: &Source) -> Option<Moment> {
        self.tables.synced(source)
    }

    /// The highest version that `source` has seen.
    #[must_use]
    pub fn version(&self, source: &Source) -> u64 {
        self.tables.version(source)
    }

    /// What cannot be listed or watched, and why.
    #[must_use]
    pub fn failing(&self) -> BTreeMap<&'m Source, &'m str> {
        self.tables.failing.iter().map(|(source, fault)| (source, fault.as_str())).collect()
    }

    /// Why `source` cannot be listed or watched, `None` where it can.
    #[must_use]
    pub fn failure(&self, source: &Source) -> Option<&'m str> {
        self.tables.failing.get(source).map(String::as_str)
    }

    /// A GatewayClass of any controller.
    #[must_use]
    pub fn class(&self, key: &ObjectKey) -> Option<&'m Class> {
        self.tables.classes.get(key)
    }

    /// The GatewayClasses of ours, by name.
    #[must_use]
    pub fn our_classes(&self) -> BTreeMap<&'m ObjectKey, &'m Class> {
        self.tables.classes.iter().filter(|(_, class)| self.tables.is_ours(class)).collect()
    }

    /// The parameters of the class `name`, `None` where it is gone or not ours.
    #[must_use]
    pub fn class_params(&self, name: &str) -> Option<ClassParams> {
        let key = ObjectKey::new("", name);
        let class = self.class(&key).filter(|class| self.tables.is_ours(class))?;
        let known = || self.tables.known_params.get(&key).cloned();
        Some(match self.tables.params_of(name, class) {
            None => ClassParams::Unread { known: known() },
            Some(Ok(params)) => ClassParams::Valid(params),
            Some(Err((place, error))) => ClassParams::Invalid { place, error, known: known() },
        })
    }

    /// The resource version of the ConfigMap `key`, `None` where it does not exist.
    #[must_use]
    pub fn config_map_version(&self, key: &ObjectKey) -> Option<u64> {
        self.tables.config_map(key).map(|row| row.version.0)
    }

    /// A Gateway.
    #[must_use]
    pub fn gateway(&self, key: &ObjectKey) -> Option<&'m Gateway> {
        self.tables.gateways.get(key)
    }

    /// A ManagedCluster.
    #[must_use]
    pub fn cluster(&self, name: &ClusterName) -> Option<&'m Cluster> {
        self.tables.clusters.get(&ObjectKey { namespace: "".into(), name: name.0.clone() })
    }

    /// All ManagedClusters, in no order.
    pub fn clusters(&self) -> impl Iterator<Item = (ClusterName, &'m Cluster)> {
        self.tables.clusters.iter().map(|(key, cluster)| (ClusterName(key.name.clone()), cluster))
    }

    /// A Placement.
    #[must_use]
    pub fn placement(&self, key: &ObjectKey) -> Option<&'m Placement> {
        self.tables.placements.get(key)
    }

    /// The clusters that the decisions of a Placement name.
    #[must_use]
    pub fn decided(&self, placement: &ObjectKey) -> BTreeSet<ClusterName> {
        self.decisions(placement).flat_map(|(_, decision)| decision.clusters.iter().cloned()).collect()
    }

    /// The names and resource versions of a Placement's decisions.
    #[must_use]
    pub fn decision_versions(&self, placement: &ObjectKey) -> BTreeMap<String, u64> {
        self.decisions(placement).map(|(key, decision)| (key.name.to_string(), decision.version.0)).collect()
    }

    fn decisions(
        &self,
        placement: &ObjectKey,
    ) -> impl Iterator<Item = (&'m ObjectKey, &'m super::rows::cluster::Decision)> {
        let (namespace, name) = (placement.namespace.clone(), placement.name.clone());
        self.tables.decisions.iter().filter(move |(key, decision)| {
            key.namespace == namespace && decision.placement.as_deref() == Some(&*name)
        })
    }

    /// From when on a cluster that is missing in the decisions of a Placement has really left.
    #[must_use]
    pub fn placement_settles(&self, placement: &ObjectKey) -> Option<Moment> {
        let changed = self.tables.placement_changed.get(placement).copied().unwrap_or_default();
        let placements = self.synced(&Source::Placements)?;
        let decisions = self.synced(&Source::Decisions)?;
        Some(changed.max(placements).max(decisions).after(PLACEMENT_SETTLES))
    }

    /// Whether the policies of `kind` have been listed whole, so that one that is not here does not exist.
    #[must_use]
    pub fn policies_synced(&self, kind: &PolicyKind) -> bool {
        self.synced(&Source::Policies(kind.clone())).is_some()
    }

    /// A policy.
    #[must_use]
    pub fn policy(&self, parent: &Parent) -> Option<&'m Policy> {
        self.policy_row(parent).map(|policy| &**policy)
    }

    /// A policy, for what outlives this look at the mirror.
    #[must_use]
    pub fn policy_row(&self, parent: &Parent) -> Option<&'m Arc<Policy>> {
        self.tables.policies.get(&parent.kind)?.get(&parent.object)
    }

    /// All policies, in no order.
    pub fn policies(&self) -> impl Iterator<Item = (Parent, &'m Policy)> {
        self.tables.policies.iter().flat_map(|(kind, table)| {
            table.iter().map(|(key, policy)| (Parent { kind: kind.clone(), object: key.clone() }, &**policy))
        })
    }

    /// All Gateways, in no order.
    pub fn gateways(&self) -> impl Iterator<Item = (&'m ObjectKey, &'m Gateway)> {
        self.tables.gateways.iter()
    }

    /// What is known of a kind that parameters list.
    #[must_use]
    pub fn kind(&self, gvr: &GroupVersionResource) -> Option<&'m KindState> {
        self.tables.kinds.get(gvr)
    }

    /// The kinds that resolve, whether or not parameters still list them, each with its version.
    pub fn resolved_kinds(&self) -> impl Iterator<Item = (&'m GroupVersionResource, &'m PolicyKindInfo)> {
        self.tables.kinds.iter().filter_map(|(gvr, state)| match &state.resolution {
            Resolution::Resolved(info) => Some((gvr, info)),
            _ => None,
        })
    }

    /// The policies of one kind, in no order.
    pub fn policies_of(&self, kind: &PolicyKind) -> impl Iterator<Item = (&'m ObjectKey, &'m Policy)> {
        let policies = self.tables.policies.get(kind).into_iter().flat_map(super::Table::iter);
        policies.map(|(key, policy)| (key, &**policy))
    }

    /// A Secret of the type `kubernetes.io/tls`.
    #[must_use]
    pub fn secret(&self, key: &ObjectKey) -> Option<&'m Secret> {
        self.tables.secrets.get(key)
    }

    /// All ReferenceGrants, in no order.
    pub fn grants(&self) -> impl Iterator<Item = (&'m ObjectKey, &'m Grant)> {
        self.tables.grants.iter()
    }

    /// A work by its name.
    #[must_use]
    pub fn work(&self, name: &WorkName, cluster: &ClusterName) -> Option<&'m Work> {
        self.tables.works.get(&(name.clone(), cluster.clone())).map(|work| &**work)
    }

    /// The works that are for `parent`, by cluster. There can be more than one in a cluster only where a kind's
    /// name changed.
    pub fn works_of(
        &self,
        parent: &Parent,
    ) -> impl Iterator<Item = (&'m WorkName, &'m ClusterName, &'m Work)> {
        let keys = self.tables.works_of.get(parent).into_iter().flatten();
        keys.filter_map(|key| Some((&key.0, &key.1, &**self.tables.works.get(key)?)))
    }

    /// The work that is for `parent` in `cluster`.
    #[must_use]
    pub fn work_of(&self, parent: &Parent, cluster: &ClusterName) -> Option<&'m Work> {
        self.tables.work_of(parent, cluster)
    }

    /// All works and what they are for, in no order.
    pub fn works(&self) -> impl Iterator<Item = (&'m WorkName, &'m ClusterName, &'m Work)> {
        self.tables.works.iter().map(|((name, cluster), work)| (name, cluster, &**work))
    }

    /// The kinds that works of ours in `cluster` carry, those that are being deleted included.
    #[must_use]
    pub fn carried(&self, cluster: &ClusterName) -> BTreeSet<PolicyKind> {
        self.tables.carried.get(cluster).map(|kinds| kinds.keys().cloned().collect()).unwrap_or_default()
    }

    /// How many works there are, by what they are for and by the state they are in.
    #[must_use]
    pub fn work_counts(&self) -> BTreeMap<(&'static str, &'static str), usize> {
        let mut counts = BTreeMap::new();
        for (_, _, work) in self.works() {
            let purpose = match &work.purpose {
                Purpose::Access(_) => "access",
                Purpose::Foreign => "foreign",
                Purpose::Parent(parent) if parent.is_gateway() => "gateway",
                Purpose::Parent(_) => "policy",
            };
            *counts.entry((purpose, work.state())).or_default() += 1;
        }
        counts
    }
}
