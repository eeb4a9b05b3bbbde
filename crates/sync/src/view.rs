//! The read-only input of plans. It borrows the tables and the index of the mirror while they are locked, and so shows
//! one moment. It also has records of this process, such as waits and rejected works.

mod classes;
mod works;

pub use classes::ClassParams;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::PlannedShares;
use super::PolicyKind;
use super::found::{VERSIONS, WATCHED_VERSIONS, WORK_SCHEMA};
use super::index::{Index, PLACEMENT_SETTLE_TIME, decisions_of};
use super::kinds::{
    CLUSTERS, DECISIONS, GATEWAYS, GRANTS, PLACEMENTS, POLICIES, RESOURCES, SECRETS, config_map, objects,
};
use super::refused::RejectedWorks;
use super::rows::Strings;
use super::rows::class::Class;
use super::rows::cluster::{Cluster, Decision, Placement};
use super::rows::gateway::Gateway;
use super::rows::grant::Grant;
use super::rows::kind::{KindInfo, KindState, Resolution};
use super::rows::policy::Policy;
use super::rows::schema::WorkSchema;
use super::rows::secret::Secret;
use super::waits::{Wait, Waits};
use policy_sync_api::json::Hash;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{
    ClusterName, ControllerName, GroupResource, GroupVersionResource, ObjectKey, Origin,
};
use policy_sync_api::params::{Merge, Params, Role};
use policy_sync_api::selector::ClusterSelector;
use policy_sync_mirror::{Index as _, Source, Table, Tables};

/// Empty labels, for clusters that have none.
pub(super) static NO_LABELS: Strings = Strings::new();

/// The mirror at one moment.
#[derive(Clone, Copy, Debug)]
pub struct View<'m> {
    tables: &'m Tables,
    index: &'m Index,
    refused: Option<&'m RejectedWorks>,
    shares: Option<&'m PlannedShares>,
    waits: Option<&'m Waits>,
    /// The moment at which the plan is made.
    pub now: Moment,
}

impl<'m> View<'m> {
    pub(super) fn new(tables: &'m Tables, index: &'m Index, now: Moment) -> Self {
        Self { tables, index, refused: None, shares: None, waits: None, now }
    }

    /// Adds the works of this process that the hub has rejected.
    #[must_use]
    pub fn with_rejections(self, refused: &'m RejectedWorks) -> Self {
        Self { refused: Some(refused), ..self }
    }

    /// Adds the latest split of replicas by this process.
    #[must_use]
    pub fn with_shares(self, shares: &'m PlannedShares) -> Self {
        Self { shares: Some(shares), ..self }
    }

    /// Adds the waits of policies from the latest plans of this process.
    #[must_use]
    pub fn with_waits(self, waits: &'m Waits) -> Self {
        Self { waits: Some(waits), ..self }
    }

    /// The wait of the missing work of `origin` on `cluster` in the latest plan of `origin`.
    pub(crate) fn last_wait(&self, origin: &Origin, cluster: &ClusterName) -> Option<Wait> {
        self.waits?.of(origin, cluster)
    }

    /// The split of the replicas of `origin`. It is taken from the latest plan of this process, or else from the works
    /// of `origin`.
    #[must_use]
    pub fn shares(&self, origin: &Origin) -> BTreeMap<ClusterName, u64> {
        self.shares.and_then(|shares| shares.of(origin)).unwrap_or_else(|| {
            let works = self.works_of(origin).filter(|(.., work)| work.deleting.is_none());
            works.filter_map(|(_, cluster, work)| Some((cluster.clone(), work.replicas?))).collect()
        })
    }

    /// Since when the hub rejects the work of `origin` in `cluster`; `None` if the hub does not reject the work.
    #[must_use]
    pub fn rejected_since(&self, origin: &Origin, cluster: &ClusterName) -> Option<Moment> {
        self.refused?.since(origin, cluster)
    }

    /// Whether the needed kinds have been listed, and the ManifestWork schema has the required features.
    #[must_use]
    pub fn ready(&self) -> bool {
        self.index.can_plan(self.tables)
    }

    /// The features of the hub's ManifestWork schema; `None` until they are known.
    #[must_use]
    pub fn work_schema(&self) -> Option<WorkSchema> {
        self.tables.rows(&WORK_SCHEMA).map(|(_, schema)| *schema).next()
    }

    /// The controller that this mirror is for.
    #[must_use]
    pub fn controller(&self) -> &'m ControllerName {
        &self.index.controller
    }

    /// When `source` was first listed completely.
    #[must_use]
    pub fn synced(&self, source: &Source) -> Option<Moment> {
        self.tables.synced(source)
    }

    /// The highest resource version seen from `source`.
    #[must_use]
    pub fn version(&self, source: &Source) -> u64 {
        self.tables.version(source)
    }

    /// The sources that cannot be listed or watched, each with the error.
    #[must_use]
    pub fn failing(&self) -> BTreeMap<&'m Source, &'m str> {
        self.tables.failing()
    }

    /// The error that keeps `source` from being listed or watched.
    #[must_use]
    pub fn failure(&self, source: &Source) -> Option<&'m str> {
        self.tables.failure(source).map(|failing| failing.text.as_str())
    }

    /// The hash of the data of an object on which deletions depend, see [`policy_sync_mirror::Row::deletion_hash`];
    /// `None` if the object does not exist.
    #[must_use]
    pub fn deletion_hash(&self, source: &Source, key: &ObjectKey) -> Option<Hash> {
        self.tables.deletion_hash(source, key)
    }

    /// A Gateway.
    #[must_use]
    pub fn gateway(&self, key: &ObjectKey) -> Option<&'m Gateway> {
        self.tables.get(&GATEWAYS, key)
    }

    /// A ManagedCluster.
    #[must_use]
    pub fn cluster(&self, name: &ClusterName) -> Option<&'m Cluster> {
        self.tables.get(&CLUSTERS, &ObjectKey { namespace: "".into(), name: name.0.clone() })
    }

    /// The labels of a ManagedCluster. If the ManagedCluster was deleted, returns its last known labels, as long as a
    /// work of this controller remains in its namespace.
    #[must_use]
    pub fn labels(&self, name: &ClusterName) -> Option<&'m Strings> {
        self.cluster(name).map(|cluster| &cluster.labels).or_else(|| self.index.last_labels.get(name))
    }

    /// Whether `selector` selects `cluster` for `origin`. If the labels of the cluster are unknown but the cluster has
    /// a work of `origin`, the cluster counts as selected. Without such a work, the selector is evaluated without
    /// labels.
    #[must_use]
    pub fn selects(&self, selector: &ClusterSelector, origin: &Origin, cluster: &ClusterName) -> bool {
        match self.labels(cluster) {
            Some(labels) => selector.matches(labels),
            None => selector.matches(&NO_LABELS) || self.work_of(origin, cluster).is_some(),
        }
    }

    /// The clusters that have a work of `origin` but are deselected by its annotations; empty if the annotations are
    /// invalid.
    #[must_use]
    pub fn deselected(&self, origin: &Origin) -> BTreeSet<ClusterName> {
        let annotations = self.annotations(origin);
        let selector = annotations.and_then(|annotations| ClusterSelector::read(annotations).ok()?);
        let Some(selector) = selector else { return BTreeSet::new() };
        let clusters = self.works_of(origin).map(|(_, cluster, _)| cluster);
        clusters.filter(|cluster| !self.selects(&selector, origin, cluster)).cloned().collect()
    }

    /// All ManagedClusters, in no order.
    pub fn clusters(&self) -> impl Iterator<Item = (ClusterName, &'m Cluster)> {
        self.tables.rows(&CLUSTERS).map(|(key, cluster)| (ClusterName(key.name.clone()), cluster))
    }

    /// A Placement.
    #[must_use]
    pub fn placement(&self, key: &ObjectKey) -> Option<&'m Placement> {
        self.tables.get(&PLACEMENTS, key)
    }

    /// The clusters that the decisions of a Placement name.
    #[must_use]
    pub fn decided(&self, placement: &ObjectKey) -> BTreeSet<ClusterName> {
        self.decisions(placement).flat_map(|decision| decision.clusters.iter().cloned()).collect()
    }

    fn decisions(&self, placement: &ObjectKey) -> impl Iterator<Item = &'m Decision> {
        decisions_of(self.tables, placement)
    }

    /// A PlacementDecision.
    #[must_use]
    pub fn placement_decision(&self, key: &ObjectKey) -> Option<&'m Decision> {
        self.tables.get(&DECISIONS, key)
    }

    /// All PlacementDecisions, in no order.
    pub fn placement_decisions(&self) -> impl Iterator<Item = (&'m ObjectKey, &'m Decision)> {
        self.tables.rows(&DECISIONS)
    }

    /// When a cluster that is missing in the decisions of a Placement begins to count as removed.
    #[must_use]
    pub fn placement_settles(&self, placement: &ObjectKey) -> Option<Moment> {
        let changed = self.index.placement_changed.last(placement).unwrap_or_default();
        let placements = self.synced(&PLACEMENTS.all())?;
        let decisions = self.synced(&DECISIONS.all())?;
        Some(changed.max(placements).max(decisions).after(PLACEMENT_SETTLE_TIME))
    }

    /// The error that keeps the parameters of `class` from being read; `None` if the error may be transient, or if
    /// there is no error.
    fn unread(&self, class: &Class) -> Option<String> {
        let key = class.config_map().ok()??;
        let failing = self.tables.failure(&config_map(&key)).filter(|failing| failing.persistent)?;
        Some(format!("parameters {key} cannot be read: {}", failing.text))
    }

    /// The parameters of this controller's classes, if known, including classes that were deleted less than
    /// [`CLASS_DELETION_DELAY`](crate::CLASS_DELETION_DELAY) ago. Sorted by the age of the class, the oldest first,
    /// then by its name.
    #[must_use]
    pub fn listing(&self) -> Vec<(&'m ObjectKey, Arc<Params>)> {
        let known = |name: &ObjectKey| self.class_params(&name.name)?.known().cloned();
        let ours =
            self.our_classes().into_iter().filter_map(|(name, class)| Some((name, class, known(name)?)));
        let deleted_classes =
            self.deleted_classes().filter_map(|(name, class, params)| Some((name, class, params?.clone())));
        let mut classes: Vec<_> = ours.chain(deleted_classes).collect();
        classes.sort_by_key(|(name, class, _)| (class.created, *name));
        classes.into_iter().map(|(name, _, params)| (name, params)).collect()
    }

    /// The merge settings in the parameters of this controller's classes, each with its kind of policies. The settings
    /// of the oldest class come first.
    #[must_use]
    pub fn merges(&self) -> Vec<(GroupResource, Merge)> {
        let merges =
            |params: &Params| params.merges().map(|(kind, merge)| (kind, merge.clone())).collect::<Vec<_>>();
        self.listing().iter().flat_map(|(_, params)| merges(params)).collect()
    }

    /// The role in which classes list `kind`. If classes list the kind in both roles, `Role::Policy`. `None` if no
    /// class lists the kind.
    #[must_use]
    pub fn role(&self, kind: &PolicyKind) -> Option<Role> {
        let classes = self.listing();
        let lists = |role: &Role| classes.iter().any(|(_, params)| params.lists(*role, kind));
        Role::ALL.into_iter().find(lists)
    }

    /// The source of the objects of `kind`. A kind that is no longer listed may still be watched.
    #[must_use]
    pub fn source_of(&self, kind: &PolicyKind) -> Source {
        let [policies, resources] = Role::ALL.map(|role| objects(role, kind));
        let [of_policies, of_resources] =
            [&policies, &resources].map(|source| self.tables.table::<Arc<Policy>>(source).is_some());
        let role = if of_policies == of_resources { self.role(kind) } else { None };
        if role == Some(Role::Resource) || role.is_none() && of_resources { resources } else { policies }
    }

    /// Whether `source` has been listed, or is known to be unlistable at present.
    #[must_use]
    pub fn is_settled(&self, source: &Source) -> bool {
        self.tables.is_settled(source)
    }

    /// Whether the objects of `kind` have been listed completely, so that a missing object does not exist.
    #[must_use]
    pub fn policies_synced(&self, kind: &PolicyKind) -> bool {
        self.synced(&self.source_of(kind)).is_some()
    }

    fn policy_table(&self, kind: &PolicyKind) -> Option<&'m Table<Arc<Policy>>> {
        self.tables.table(&self.source_of(kind))
    }

    /// A policy or a resource.
    #[must_use]
    pub fn policy(&self, origin: &Origin) -> Option<&'m Policy> {
        self.policy_row(origin).map(|policy| &**policy)
    }

    /// A policy or a resource, shared so that it can outlive the lock on the mirror.
    #[must_use]
    pub fn policy_row(&self, origin: &Origin) -> Option<&'m Arc<Policy>> {
        self.policy_table(origin.kind())?.get(origin.object())
    }

    /// The annotations of `origin`, without those that this controller writes.
    #[must_use]
    pub fn annotations(&self, origin: &Origin) -> Option<&'m Strings> {
        match origin {
            Origin::Gateway(key) => self.gateway(key).map(|gateway| &gateway.annotations),
            Origin::Object(..) => self.policy(origin).map(|policy| &policy.annotations),
        }
    }

    /// When this process first saw the current generation of a policy. `None` if that generation existed when the
    /// process first listed the kind.
    #[must_use]
    pub fn policy_changed(&self, origin: &Origin) -> Option<Moment> {
        self.index.policies_changed.get(origin).copied()
    }

    /// All policies, in no order.
    pub fn policies(&self) -> impl Iterator<Item = (Origin, &'m Policy)> {
        self.policy_rows().map(|(origin, policy)| (origin, &**policy))
    }

    /// All policies in no order, shared so that they can outlive the lock on the mirror.
    pub fn policy_rows(&self) -> impl Iterator<Item = (Origin, &'m Arc<Policy>)> {
        self.tables.resources(&POLICIES).flat_map(|(kind, table)| {
            table.iter().map(|(key, policy)| (Origin::new(kind.clone(), key.clone()), policy))
        })
    }

    /// All policies and resources, in no order.
    pub fn objects(&self) -> impl Iterator<Item = (Origin, &'m Policy)> {
        let resources = self.tables.resources(&RESOURCES).flat_map(|(kind, table)| {
            table.iter().map(|(key, resource)| (Origin::new(kind.clone(), key.clone()), &**resource))
        });
        self.policies().chain(resources)
    }

    /// All Gateways, in no order.
    pub fn gateways(&self) -> impl Iterator<Item = (&'m ObjectKey, &'m Gateway)> {
        self.tables.rows(&GATEWAYS)
    }

    /// The result of the discovery of a kind that parameters list.
    #[must_use]
    pub fn kind(&self, gvr: &GroupVersionResource) -> Option<&'m KindState> {
        let key = super::found::version_key(gvr);
        self.tables.row(&VERSIONS.resource(gvr.kind.clone()), &key)
    }

    /// The version in which the policies of `kind` are watched, once it is recorded.
    #[must_use]
    pub fn watched_version(&self, kind: &PolicyKind) -> Option<&'m GroupVersionResource> {
        let rows = self.tables.table::<GroupVersionResource>(&WATCHED_VERSIONS.resource(kind.clone()))?;
        rows.iter().map(|(_, gvr)| gvr).next()
    }

    /// The kinds that can be synced, each with its version, whether or not parameters still list them.
    pub fn resolved_kinds(&self) -> impl Iterator<Item = (&'m GroupVersionResource, &'m KindInfo)> {
        let states = self.tables.resources(&VERSIONS).flat_map(|(_, table)| table.iter());
        states.filter_map(|(_, state)| match &state.resolution {
            Resolution::Resolved(info) => Some((&state.gvr, info)),
            _ => None,
        })
    }

    /// The objects of one kind, in no order.
    pub fn policies_of(&self, kind: &PolicyKind) -> impl Iterator<Item = (&'m ObjectKey, &'m Policy)> {
        let policies = self.policy_table(kind).into_iter().flat_map(Table::iter);
        policies.map(|(key, policy)| (key, &**policy))
    }

    /// A Secret of the type `kubernetes.io/tls`.
    #[must_use]
    pub fn secret(&self, key: &ObjectKey) -> Option<&'m Secret> {
        self.tables.get(&SECRETS, key)
    }

    /// All ReferenceGrants, in no order.
    pub fn grants(&self) -> impl Iterator<Item = (&'m ObjectKey, &'m Grant)> {
        self.tables.rows(&GRANTS)
    }
}
