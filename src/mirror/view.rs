//! The mirror as a plan sees it: read-only, consistent, at one moment.

mod works;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::refused::Refused;
use super::rows::Strings;
use super::rows::class::{Class, ConfigMap};
use super::rows::cluster::{Cluster, Decision, Placement};
use super::rows::gateway::Gateway;
use super::rows::grant::Grant;
use super::rows::kind::{PolicyKindInfo, Resolution};
use super::rows::policy::Policy;
use super::rows::schema::WorkSchema;
use super::rows::secret::Secret;
use super::tables::{KindState, Tables};
use super::{Moment, PolicyKind, Source};
use crate::api::json::Hash;
use crate::api::names::{ClusterName, ControllerName, GroupVersionResource, ObjectKey, Parent};
use crate::api::params::{Params, ParamsError};

/// How long the number of clusters that a Placement selects, and its decisions, must not change before a cluster that
/// left them counts as gone.
pub const PLACEMENT_SETTLES: Duration = Duration::from_secs(5);

/// How long after a class went nothing is withdrawn on its account: `kubectl replace --force` and a reinstall make it anew.
pub const CLASS_RETURNS: Duration = Duration::from_secs(60);

/// The mirror at one moment.
#[derive(Clone, Copy, Debug)]
pub struct View<'m> {
    tables: &'m Tables,
    refused: Option<&'m Refused>,
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
        /// Why not, where that is more than a moment's: `parameters shop/params cannot be read: …`.
        fault: Option<String>,
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
            Self::Invalid { known, .. } | Self::Unread { known, .. } => known.as_ref(),
        }
    }
}

impl<'m> View<'m> {
    pub(super) fn new(tables: &'m Tables, now: Moment) -> Self {
        Self { tables, refused: None, now }
    }

    /// The same with what this process has found out by writing.
    #[must_use]
    pub fn refusing(self, refused: &'m Refused) -> Self {
        Self { refused: Some(refused), ..self }
    }

    /// Since when the hub refuses to have the work of `parent` made in `cluster`, `None` where it does not.
    #[must_use]
    pub fn refused_since(&self, parent: &Parent, cluster: &ClusterName) -> Option<Moment> {
        self.refused?.since(parent, cluster)
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
        self.tables.failing.iter().map(|(source, failing)| (source, failing.text.as_str())).collect()
    }

    /// Why `source` cannot be listed or watched, `None` where it can.
    #[must_use]
    pub fn failure(&self, source: &Source) -> Option<&'m str> {
        self.tables.failing.get(source).map(|failing| failing.text.as_str())
    }

    /// A GatewayClass of any controller.
    #[must_use]
    pub fn class(&self, key: &ObjectKey) -> Option<&'m Class> {
        self.tables.classes.get(key)
    }

    /// The GatewayClasses of all controllers, in no order.
    pub fn classes(&self) -> impl Iterator<Item = (&'m ObjectKey, &'m Class)> {
        self.tables.classes.iter()
    }

    /// The GatewayClasses of ours, by name.
    #[must_use]
    pub fn our_classes(&self) -> BTreeMap<&'m ObjectKey, &'m Class> {
        self.tables.classes.iter().filter(|(_, class)| self.tables.is_ours(class)).collect()
    }

    /// The GatewayClasses of ours that went so short a while ago that they may return, each with its last valid
    /// parameters.
    pub fn departed(&self) -> impl Iterator<Item = (&'m ObjectKey, &'m Class, Option<&'m Arc<Params>>)> {
        let now = self.now;
        let departed = self.tables.departed.iter();
        let departed = departed.filter(move |(_, departed)| departed.since.after(CLASS_RETURNS) > now);
        departed.map(|(key, departed)| (key, &departed.class, departed.params.as_ref()))
    }

    /// Until when a class called `name`, which does not exist, may return: counted from when this process saw it go, or
    /// began to see; `None` where it exists, or that is over.
    #[must_use]
    pub fn class_returns(&self, name: &str) -> Option<Moment> {
        let key = ObjectKey::new("", name);
        if self.class(&key).is_some() {
            return None;
        }
        let gone = self.tables.departed.get(&key).map(|departed| departed.since);
        let ends = gone.max(self.synced(&Source::Classes))?.after(CLASS_RETURNS);
        (ends > self.now).then_some(ends)
    }

    /// When the next class that went has been gone for too long to return.
    #[must_use]
    pub fn next_departure(&self) -> Option<Moment> {
        let ends = self.tables.departed.values().map(|departed| departed.since.after(CLASS_RETURNS));
        ends.filter(|ends| *ends > self.now).min()
    }

    /// The parameters of the class `name`, `None` where it is gone or not ours.
    #[must_use]
    pub fn class_params(&self, name: &str) -> Option<ClassParams> {
        let key = ObjectKey::new("", name);
        let class = self.class(&key).filter(|class| self.tables.is_ours(class))?;
        let known = || self.tables.known_params.get(&key).cloned();
        Some(match self.tables.params_of(name, class) {
            None => ClassParams::Unread { fault: self.unread(class), known: known() },
            Some(Ok(params)) => ClassParams::Valid(params),
            Some(Err((place, error))) => ClassParams::Invalid { place, error, known: known() },
        })
    }

    /// The hash of what decisions on what is where read of the object `key` of `source`, as [`super::Row::decides`] has
    /// it; `None` where it does not exist.
    #[must_use]
    pub fn decides(&self, source: &Source, key: &ObjectKey) -> Option<Hash> {
        let tables = self.tables;
        match source {
            Source::Classes => tables.classes.get(key).map(Class::decides),
            Source::ConfigMap(_) => tables.config_map(key).map(ConfigMap::decides),
            Source::Gateways => tables.gateways.get(key).map(Gateway::decides),
            Source::Clusters => tables.clusters.get(key).map(Cluster::decides),
            Source::Placements => tables.placements.get(key).map(Placement::decides),
            Source::Decisions => tables.decisions.get(key).map(Decision::decides),
            Source::Policies(kind) => tables.policies.get(kind)?.get(key).map(|row| row.decides()),
            Source::Works | Source::Secrets | Source::Grants => None,
        }
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

    /// The labels of a ManagedCluster; those last seen where it is gone and a work of ours is there, `None` where none were.
    #[must_use]
    pub fn labels(&self, name: &ClusterName) -> Option<&'m Strings> {
        self.cluster(name).map(|cluster| &cluster.labels).or_else(|| self.tables.last_labels.get(name))
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
        self.decisions(placement).flat_map(|decision| decision.clusters.iter().cloned()).collect()
    }

    fn decisions(&self, placement: &ObjectKey) -> impl Iterator<Item = &'m Decision> {
        self.tables.decisions_of(placement)
    }

    /// A PlacementDecision.
    #[must_use]
    pub fn placement_decision(&self, key: &ObjectKey) -> Option<&'m Decision> {
        self.tables.decisions.get(key)
    }

    /// All PlacementDecisions, in no order.
    pub fn placement_decisions(&self) -> impl Iterator<Item = (&'m ObjectKey, &'m Decision)> {
        self.tables.decisions.iter()
    }

    /// From when on a cluster that is missing in the decisions of a Placement has really left.
    #[must_use]
    pub fn placement_settles(&self, placement: &ObjectKey) -> Option<Moment> {
        let changed = self.tables.placement_changed.last(placement).unwrap_or_default();
        let placements = self.synced(&Source::Placements)?;
        let decisions = self.synced(&Source::Decisions)?;
        Some(changed.max(placements).max(decisions).after(PLACEMENT_SETTLES))
    }

    /// Why the parameters of `class`, which were never read, cannot be, where that is more than a moment's.
    fn unread(&self, class: &Class) -> Option<String> {
        let config_map = class.config_map().ok()??;
        let failing = self.tables.failing.get(&Source::ConfigMap(config_map.clone()));
        let failing = failing.filter(|failing| failing.lasting)?;
        Some(format!("parameters {config_map} cannot be read: {}", failing.text))
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

    /// The version in which the policies of `kind` are read, where that was said.
    #[must_use]
    pub fn followed(&self, kind: &PolicyKind) -> Option<&'m GroupVersionResource> {
        self.tables.followed.get(kind)
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
}
