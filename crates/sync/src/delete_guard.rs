//! Determines which objects justify the deletion of a work.
//!
//! Before works are deleted, these objects are read once from the API server. If the server differs from the mirror,
//! the deletions wait until the watch has caught up. Only the fields that decisions depend on are compared, so that
//! unrelated writes delay nothing. Each deletion has its own list of reads, so that an outdated object of one cluster
//! does not delay deletions on another.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::View;
use crate::desired::eligibility::{KindEligibility, of_kind, of_resources, versions};
use crate::desired::order;
use crate::desired::placement::placed;
use crate::kinds::{CLASSES, CLUSTERS, CONFIG_MAPS, GATEWAYS, PLACEMENTS};
use crate::rows::cluster::Decision;
use crate::rows::kind::Resolution;
use policy_sync_api::json::Hash;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, ControllerName, GroupVersionResource, ObjectKey, Origin};
use policy_sync_api::object::HubObject;
use policy_sync_api::params::Role;
use policy_sync_mirror::Source;

/// One expectation to check on the server before a deletion.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Precondition {
    /// The object exists, and the fields that decisions depend on have this hash
    /// ([`policy_sync_mirror::Row::deletion_hash`]).
    Object(Source, GroupVersionResource, ObjectKey, Hash),
    /// The object does not exist.
    Absent(GroupVersionResource, ObjectKey),
    /// The set of clusters in the decisions of a Placement has this hash.
    Decisions(ObjectKey, Hash),
    /// The ManagedCluster is terminating or does not exist.
    ClusterTerminating(ClusterName),
    /// The namespace exists and is not terminating.
    Namespace(Arc<str>),
}

impl Precondition {
    /// The hash of the set of clusters in the decisions of a Placement, for [`Precondition::Decisions`].
    #[must_use]
    pub fn decisions_hash(clusters: &BTreeSet<ClusterName>) -> Hash {
        Hash::of_value(clusters)
    }

    /// Whether the server agrees with the mirror. `found` has all objects that the server returned for this
    /// precondition.
    pub fn is_met<'o>(
        &self,
        found: impl IntoIterator<Item = &'o HubObject>,
        controller: &ControllerName,
    ) -> bool {
        let mut found = found.into_iter();
        match self {
            Self::Object(source, _, _, expected) => found.next().is_some_and(|object| {
                let row = source.prune(object, controller);
                row.and_then(|row| row.deletion_hash()).is_some_and(|found| found == *expected)
            }),
            Self::Absent(..) => found.next().is_none(),
            Self::Decisions(_, expected) => {
                Self::decisions_hash(&found.flat_map(|slice| Decision::from(slice).clusters).collect())
                    == *expected
            }
            Self::ClusterTerminating(_) => {
                found.next().is_none_or(|found| found.metadata.deletion_timestamp.is_some())
            }
            Self::Namespace(_) => {
                found.next().is_some_and(|namespace| namespace.metadata.deletion_timestamp.is_none())
            }
        }
    }
}

/// The preconditions about the placement of one Gateway.
struct GatewayPreconditions {
    preconditions: BTreeSet<Precondition>,
    decided: BTreeSet<ClusterName>,
    /// The clusters of `decided` that the Gateway's annotations deselect.
    deselected: BTreeSet<ClusterName>,
}

/// Collects the reads that must precede the deletion of works of one origin.
pub struct DeleteGuard<'v> {
    view: View<'v>,
    origin: &'v Origin,
    /// The reads that apply to every cluster.
    common: BTreeSet<Precondition>,
    gateways: BTreeMap<ObjectKey, GatewayPreconditions>,
    /// The Gateways that a policy targets now. One of them may now place the policy on a cluster where another Gateway
    /// placed it before.
    targets: BTreeSet<ObjectKey>,
    deselected: BTreeSet<ClusterName>,
}

impl<'v> DeleteGuard<'v> {
    /// Starts with the reads that works of `origin` have in common.
    #[must_use]
    pub fn new(view: View<'v>, origin: &'v Origin) -> Self {
        let mut guard = Self {
            view,
            origin,
            common: BTreeSet::new(),
            gateways: BTreeMap::new(),
            targets: BTreeSet::new(),
            deselected: BTreeSet::new(),
        };
        match origin {
            Origin::Gateway(key) => {
                guard.targets.insert(key.clone());
            }
            Origin::Object(kind, _) => {
                policy(view, origin, &mut guard.common);
                guard.targets = crate::desired::policy::gateways(view, origin);
                if view.role(kind) == Some(Role::Resource) {
                    resource(view, origin, &mut guard.common);
                }
                if matches!(of_kind(view, kind), KindEligibility::Listed(..)) {
                    guard.deselected = view.deselected(origin);
                }
            }
        }
        guard
    }

    /// The reads that must precede the deletion of the work in `cluster`, and the time after which fewer reads may
    /// suffice.
    pub fn on(&mut self, cluster: &ClusterName) -> (BTreeSet<Precondition>, Option<Moment>) {
        let (view, origin) = (self.view, self.origin);
        let mut preconditions = self.common.clone();
        let namespace = &origin.object().namespace;
        let served = match origin {
            Origin::Gateway(_) => None,
            Origin::Object(..) => view.work_of(origin, cluster),
        };
        let served: BTreeSet<ObjectKey> =
            served.into_iter().flat_map(|work| view.served(cluster, work)).collect();
        for key in self.targets.union(&served) {
            let places = self
                .gateways
                .entry(key.clone())
                .or_insert_with_key(|key| GatewayPreconditions::new(view, key));
            preconditions.extend(places.preconditions.iter().cloned());
            preconditions.extend(places.without_grace(view, key, cluster));
            preconditions.extend(places.deselected.contains(cluster).then(|| labels(view, cluster)));
        }
        if self.deselected.contains(cluster) {
            preconditions.insert(labels(view, cluster));
        }
        let mut next = None;
        let ends = served.iter().filter_map(|key| order::blocks_policies(view, key, cluster));
        for ends in ends {
            // Kubernetes deletes the objects of a terminating namespace in any order. In such a namespace, a deleted
            // policy may have to stay on the cluster until its Gateway is deleted, too.
            preconditions.insert(Precondition::Namespace(namespace.clone()));
            next = Moment::earliest(next, ends);
        }
        (preconditions, next)
    }
}

fn policy(view: View<'_>, origin: &Origin, preconditions: &mut BTreeSet<Precondition>) {
    match of_kind(view, origin.kind()) {
        KindEligibility::Listed(gvr, _) => {
            preconditions.insert(object(view, view.source_of(origin.kind()), gvr, origin.object().clone()));
        }
        KindEligibility::Unlisted => {
            // The kind is unlisted: either no parameters list it, or its CustomResourceDefinition was deleted.
            for class in view.our_classes().keys() {
                of_class(view, &class.name, preconditions);
            }
            let gone = |gvr: &GroupVersionResource| {
                view.kind(gvr).is_some_and(|state| state.resolution == Resolution::Gone)
            };
            if versions(view, origin.kind()).iter().any(|(gvr, _)| gone(gvr)) {
                let definition = ObjectKey::new("", &origin.kind().to_string());
                preconditions.insert(Precondition::Absent(GroupVersionResource::definitions(), definition));
            }
        }
        KindEligibility::Frozen(..) => {}
    }
}

/// Adds the inputs of the placement of a resource: the parameters that list its kind, and the Placement. The Placement
/// is named by the resource's label or, without a label, by these parameters.
fn resource(view: View<'_>, origin: &Origin, preconditions: &mut BTreeSet<Precondition>) {
    for class in view.our_classes().keys() {
        of_class(view, &class.name, preconditions);
    }
    let resource_entry = of_resources(view, origin.kind());
    let default = resource_entry.entry().and_then(|entry| entry.placement.as_deref());
    let label = view.policy(origin).and_then(|resource| resource.placement());
    if let Some(name) = label.or(default).filter(|name| !name.is_empty()) {
        placement(view, ObjectKey::new(&origin.object().namespace, name), preconditions);
    }
}

/// Adds a Placement and its decisions, and returns the clusters in these decisions.
fn placement(
    view: View<'_>,
    key: ObjectKey,
    preconditions: &mut BTreeSet<Precondition>,
) -> BTreeSet<ClusterName> {
    preconditions.insert(object(view, PLACEMENTS.all(), PLACEMENTS.gvr(), key.clone()));
    let decided = view.decided(&key);
    preconditions.insert(Precondition::Decisions(key, Precondition::decisions_hash(&decided)));
    decided
}

/// The precondition that the server has the object `key` as in the mirror. If the mirror has no such object, the server
/// must have none.
fn object(view: View<'_>, source: Source, gvr: GroupVersionResource, key: ObjectKey) -> Precondition {
    match view.deletion_hash(&source, &key) {
        Some(deletion_hash) => Precondition::Object(source, gvr, key, deletion_hash),
        None => Precondition::Absent(gvr, key),
    }
}

/// The precondition that the server has the ManagedCluster, with its labels, as in the mirror.
fn labels(view: View<'_>, cluster: &ClusterName) -> Precondition {
    object(view, CLUSTERS.all(), CLUSTERS.gvr(), ObjectKey::new("", &cluster.0))
}

impl GatewayPreconditions {
    fn new(view: View<'_>, key: &ObjectKey) -> Self {
        let mut preconditions = BTreeSet::from([object(view, GATEWAYS.all(), GATEWAYS.gvr(), key.clone())]);
        let mut decided = BTreeSet::new();
        if let Some(found) = view.gateway(key) {
            of_class(view, &found.class, &mut preconditions);
            if let Some(name) = found.placement() {
                decided = placement(view, ObjectKey::new(&key.namespace, name), &mut preconditions);
            }
        }
        Self { preconditions, decided, deselected: placed(view, key).deselected }
    }

    /// The precondition if the Gateway gets no grace period on `cluster`, because the ManagedCluster is terminating or
    /// gone.
    fn without_grace(&self, view: View<'_>, key: &ObjectKey, cluster: &ClusterName) -> Option<Precondition> {
        view.gateway(key)?;
        view.work_of(&Origin::Gateway(key.clone()), cluster)?;
        let leaves = view.cluster(cluster).is_none_or(|found| found.deleting);
        (leaves && !self.decided.contains(cluster)).then(|| Precondition::ClusterTerminating(cluster.clone()))
    }
}

fn of_class(view: View<'_>, name: &str, preconditions: &mut BTreeSet<Precondition>) {
    let key = ObjectKey::new("", name);
    let class = view.class(&key);
    preconditions.insert(object(view, CLASSES.all(), CLASSES.gvr(), key));
    // Parameters of other controllers' classes have no effect on the plan and are not watched.
    let ours = class.filter(|_| view.class_params(name).is_some());
    if let Some(Ok(Some(config_map))) = ours.map(|class| class.config_map()) {
        let source = CONFIG_MAPS.object(config_map.clone());
        preconditions.insert(object(view, source, CONFIG_MAPS.gvr(), config_map));
    }
}

#[cfg(test)]
mod tests;
