//! The input of a dry run: the objects of a hub.

use std::collections::{BTreeMap, BTreeSet};

use crate::OfflineMirror;
use crate::desired::watches;
use crate::explain::Unavailable;
use crate::kinds::role_of;
use crate::rows::Strings;
use crate::rows::gateway_fields::GatewayFields;
use policy_sync_api::annotations::POLICY_ANNOTATIONS;
use policy_sync_api::cluster::ManagedClusterStatus;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{
    ClusterName, ControllerName, GroupResource, GroupVersionResource, Origin, WorkName,
};
use policy_sync_api::object::HubObject;
use policy_sync_api::params::Role;
use policy_sync_mirror::WatchedSources;

/// The objects of a hub at one time.
#[derive(Debug)]
pub struct HubSnapshot {
    /// The mirror from which plans are made.
    pub mirror: OfflineMirror,
    /// The works of the controller. The mirror keeps only their hashes.
    pub(super) works: BTreeMap<(ClusterName, WorkName), HubObject>,
    /// The annotations of this controller on policies and Gateways. The mirror does not keep these annotations.
    pub(super) annotations: BTreeMap<Origin, Strings>,
    /// Since when clusters are unavailable.
    pub unavailable: Unavailable,
}

impl HubSnapshot {
    /// A snapshot without objects.
    #[must_use]
    pub fn new(controller: ControllerName) -> Self {
        Self {
            mirror: OfflineMirror::new(controller),
            works: BTreeMap::new(),
            annotations: BTreeMap::new(),
            unavailable: Unavailable::new(),
        }
    }

    /// Sets the works of the controller.
    pub fn take_works(&mut self, works: Vec<HubObject>) {
        self.works = works.into_iter().map(|work| (place(&work), work)).collect();
    }

    /// Determines which of these ManagedClusters are unavailable.
    pub fn take_clusters(&mut self, clusters: &[HubObject]) {
        let unavailable = clusters.iter().filter_map(|cluster| {
            let since = cluster.status_as::<ManagedClusterStatus>().unavailable_since()?;
            Some((ClusterName::from(cluster.metadata.name.as_str()), Moment(since.as_millisecond())))
        });
        self.unavailable = unavailable.collect();
    }

    /// Stores the annotations of this controller on Gateways.
    pub fn take_gateways(&mut self, gateways: Vec<HubObject>) {
        for gateway in gateways {
            self.annotated(Origin::Gateway(gateway.key()), gateway, GatewayFields::is_ours);
        }
    }

    /// Stores the annotations of this controller on policies or resources of `kind`.
    pub fn take_policies(&mut self, kind: &GroupResource, policies: Vec<HubObject>) {
        for policy in policies {
            let origin = Origin::new(kind.clone(), policy.key());
            self.annotated(origin, policy, |key| POLICY_ANNOTATIONS.contains(&key));
        }
    }

    fn annotated(&mut self, origin: Origin, object: HubObject, is_ours: impl Fn(&str) -> bool) {
        let ours = object.metadata.annotations.into_iter().filter(|(key, _)| is_ours(key));
        self.annotations.insert(origin, ours.collect());
    }

    /// The sources that the controller would watch at the time `now`.
    #[must_use]
    pub fn wanted(&self, now: Moment) -> WatchedSources {
        watches::plan(self.mirror.read().view(OfflineMirror::settled(now)))
    }

    /// The versions of kinds that classes list, each with its role.
    #[must_use]
    pub fn versions(&self, now: Moment) -> BTreeSet<(Role, GroupVersionResource)> {
        let others = watches::others(self.mirror.read().view(OfflineMirror::settled(now)));
        let wanted = self.wanted(now).into_iter();
        let watched = wanted.filter_map(|(source, gvr)| Some((role_of(&source)?.0, gvr)));
        watched.chain(others).collect()
    }
}

/// The cluster and name of a work.
fn place(work: &HubObject) -> (ClusterName, WorkName) {
    let metadata = &work.metadata;
    (metadata.namespace.as_str().into(), WorkName(metadata.name.as_str().into()))
}
