//! The cause of a batch of deletes: what would have to be otherwise for the works to stay.
//!
//! Before works are deleted, it is read once from the server. Where the server knows better than the mirror, the
//! deletes wait for the watch that lags.

use std::collections::{BTreeMap, BTreeSet};

use super::standing::{KindStanding, of_kind};
use crate::api::names::{GroupVersionResource, ObjectKey, Parent};
use crate::api::{cluster, gateway};
use crate::mirror::View;
use crate::mirror::rows::kind::Resolution;

/// One thing to read before deleting.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Read {
    /// An object, at the resource version that the mirror has; `None` where it should not exist.
    Object(GroupVersionResource, ObjectKey, Option<u64>),
    /// The decisions of a Placement, by name, at the resource versions that the mirror has.
    Decisions(ObjectKey, BTreeMap<String, u64>),
}

/// What to read before works of `parent` are deleted.
#[must_use]
pub fn of(view: View<'_>, parent: &Parent) -> BTreeSet<Read> {
    let mut reads = BTreeSet::new();
    let mut gateways: BTreeSet<ObjectKey> = BTreeSet::new();
    if parent.is_gateway() {
        gateways.insert(parent.object.clone());
    } else {
        policy(view, parent, &mut reads);
        gateways.extend(view.works_of(parent).flat_map(|(_, cluster, work)| view.served(cluster, work)));
        // A Gateway that it targets now may place it where another did before.
        gateways.extend(super::policy::gateways(view, parent));
    }
    for key in gateways {
        of_gateway(view, &key, &mut reads);
    }
    reads
}

fn policy(view: View<'_>, parent: &Parent, reads: &mut BTreeSet<Read>) {
    match of_kind(view, &parent.kind) {
        KindStanding::Listed(gvr, _) => {
            let version = view.policy(parent).map(|policy| policy.version.0);
            reads.insert(Read::Object(gvr, parent.object.clone(), version));
            for name in super::policy::deselected(view, parent) {
                let version = view.cluster(&name).map(|cluster| cluster.version.0);
                reads.insert(Read::Object(clusters(), ObjectKey::new("", &name.0), version));
            }
        }
        KindStanding::Unlisted => {
            // Either no parameters list the kind, or its definition is gone.
            for class in view.our_classes().keys() {
                of_class(view, &class.name, reads);
            }
            let listed = |class: &&ObjectKey| view.class_params(&class.name)?.known().cloned();
            let gvrs = view.our_classes().into_keys().filter_map(|class| listed(&class));
            let gvrs: BTreeSet<_> = gvrs
                .flat_map(|params| params.policies_to_sync.iter().map(|p| p.gvr()).collect::<Vec<_>>())
                .collect();
            let gone = |gvr: &&GroupVersionResource| {
                gvr.kind == parent.kind
                    && view.kind(gvr).is_some_and(|state| state.resolution == Resolution::Gone)
            };
            if gvrs.iter().any(|gvr| gone(&gvr)) {
                let definitions =
                    GroupVersionResource::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
                reads.insert(Read::Object(definitions, ObjectKey::new("", &parent.kind.to_string()), None));
            }
        }
        KindStanding::Frozen(..) => {}
    }
}

fn clusters() -> GroupVersionResource {
    GroupVersionResource::new(cluster::GROUP, "v1", "managedclusters")
}

fn of_gateway(view: View<'_>, key: &ObjectKey, reads: &mut BTreeSet<Read>) {
    let found = view.gateway(key);
    let version = found.map(|gateway| gateway.version.0);
    reads.insert(Read::Object(
        GroupVersionResource::new(gateway::GROUP, "v1", "gateways"),
        key.clone(),
        version,
    ));
    let Some(found) = found else { return };
    of_class(view, &found.class, reads);
    if let Some(placement) = found.placement() {
        let placement = ObjectKey::new(&key.namespace, placement);
        let version = view.placement(&placement).map(|placement| placement.version.0);
        let placements = GroupVersionResource::new(cluster::GROUP, "v1beta1", "placements");
        reads.insert(Read::Object(placements, placement.clone(), version));
        let decisions = view.decision_versions(&placement);
        reads.insert(Read::Decisions(placement, decisions));
    }
    // A cluster that is no longer chosen has no grace where it is terminating or gone.
    let decided = found.placement().map(|name| view.decided(&ObjectKey::new(&key.namespace, name)));
    for (_, cluster, _) in view.works_of(&Parent::gateway(key.clone())) {
        let chosen = decided.as_ref().is_some_and(|decided| decided.contains(cluster));
        let found = view.cluster(cluster);
        if !chosen && found.is_none_or(|found| found.deleting) {
            let version = found.map(|found| found.version.0);
            reads.insert(Read::Object(clusters(), ObjectKey::new("", &cluster.0), version));
        }
    }
}

fn of_class(view: View<'_>, name: &str, reads: &mut BTreeSet<Read>) {
    let key = ObjectKey::new("", name);
    let class = view.class(&key);
    let classes = GroupVersionResource::new(gateway::GROUP, "v1", "gatewayclasses");
    reads.insert(Read::Object(classes, key, class.map(|class| class.version.0)));
    // Whatever the parameters of another controller's class say, they say nothing to us, and are not watched.
    let ours = class.filter(|_| view.class_params(name).is_some());
    if let Some(Ok(Some(config_map))) = ours.map(|class| class.config_map()) {
        let version = view.config_map_version(&config_map);
        reads.insert(Read::Object(GroupVersionResource::new("", "v1", "configmaps"), config_map, version));
    }
}
