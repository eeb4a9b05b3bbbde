//! Reads of a hub what the controller watches: the needed kinds, then the parameters that these name, then the kinds
//! that those list, and TLS Secrets where they are copied.
//!
//! The reader's rights are not the controller's: that the controller has those that it needs is taken for granted, and
//! what the reader may not read is an error, never nothing.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use crate::sync::OfflineMirror;
use crate::sync::definitions::told;
use crate::sync::desired::watches;
use crate::sync::explain::Unavailable;
use crate::sync::kinds::{CLUSTERS, GATEWAYS, REQUIRED, WORKS, needed, of_controller, role_of};
use crate::sync::rows::Strings;
use crate::sync::rows::gateway_fields::GatewayFields;
use crate::sync::rows::kind::Resolution;
use crate::sync::rows::schema::WorkSchema;
use policy_sync_api::annotations::OF_POLICY;
use policy_sync_api::cluster::ManagedClusterStatus;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{
    ClusterName, ControllerName, GroupVersionResource, ObjectKey, Origin, WorkName,
};
use policy_sync_api::object::HubObject;
use policy_sync_api::params::Role;
use policy_sync_api::work;
use policy_sync_hub::{HubClient, HubError};
use policy_sync_mirror::{Extent, Source, Wanted};

/// Why a hub cannot be planned for.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It cannot be read.
    #[error(transparent)]
    Hub(#[from] HubError),
    /// Its ManifestWorks cannot say what they must.
    #[error("the controller would not begin on the hub at {url}: {fault}")]
    Unfit {
        /// The hub.
        url: String,
        /// What they cannot say.
        fault: &'static str,
    },
}

/// Which works of a controller are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorksOf {
    /// All.
    All,
    /// Those of one cluster.
    Cluster(ClusterName),
}

/// A hub as it was read.
#[derive(Debug)]
pub struct HubSnapshot {
    /// What plans are made of.
    pub mirror: OfflineMirror,
    /// The works of the controller, of which the mirror keeps no more than hashes.
    pub(super) works: BTreeMap<(ClusterName, WorkName), HubObject>,
    /// The annotations of ours on policies and Gateways, of which it keeps as little.
    pub(super) annotations: BTreeMap<Origin, Strings>,
    /// Since when agents are not heard of.
    pub unavailable: Unavailable,
}

/// Reads the hub for `controller`.
///
/// # Errors
///
/// Where something cannot be read, naming it, or where the controller could not begin on this hub.
pub async fn read(client: &HubClient, controller: &ControllerName) -> Result<HubSnapshot, ReadError> {
    read_with(client, controller, &WorksOf::All).await
}

/// The same with some of its works alone.
///
/// # Errors
///
/// Those of [`read`].
pub async fn read_with(
    client: &HubClient,
    controller: &ControllerName,
    works: &WorksOf,
) -> Result<HubSnapshot, ReadError> {
    client.has(&REQUIRED).await?;
    let mut hub = HubSnapshot {
        mirror: OfflineMirror::new(controller.clone()),
        works: BTreeMap::new(),
        annotations: BTreeMap::new(),
        unavailable: Unavailable::new(),
    };
    let fixed = needed().filter_map(|source| source.gvr().map(|gvr| (source, gvr)));
    let lists = join_all(fixed.map(|(source, gvr)| async move {
        let objects = if source.is(&WORKS) {
            list_works(client, &gvr, controller, works).await
        } else {
            list(client, &source, &gvr, controller).await
        };
        objects.map(|objects| (source, objects))
    }));
    // All at once, but of several failures always the same one is told.
    for listing in lists.await {
        let (source, objects) = listing?;
        hub.mirror.list(&source, &objects);
        if source.is(&WORKS) {
            hub.works = objects.into_iter().map(|work| (place(&work), work)).collect();
        } else if source.is(&CLUSTERS) {
            let unavailable = objects.iter().filter_map(|cluster| {
                let since = cluster.status_as::<ManagedClusterStatus>().unavailable_since()?;
                Some((ClusterName::from(cluster.metadata.name.as_str()), Moment(since.as_millisecond())))
            });
            hub.unavailable = unavailable.collect();
        } else if source.is(&GATEWAYS) {
            for gateway in objects {
                hub.annotated(Origin::Gateway(gateway.key()), gateway, GatewayFields::is_ours);
            }
        }
    }
    hub.work_schema(client).await?;
    for (source, gvr) in hub.wanted() {
        if let Some(key) = source.object() {
            let config_map: Option<HubObject> =
                client.get(&gvr, key, &format!("get ConfigMap {key}")).await?;
            hub.mirror.list(&source, &config_map);
        }
    }
    for (role, gvr) in hub.versions() {
        hub.resolve(client, role, &gvr).await?;
    }
    for (source, gvr) in hub.wanted() {
        if role_of(&source).is_some() {
            hub.policies(client, &source, &gvr).await?;
        } else if source.object().is_none() {
            hub.mirror.list(&source, &list(client, &source, &gvr, controller).await?);
        }
    }
    Ok(hub)
}

/// The cluster and the name of a work.
fn place(work: &HubObject) -> (ClusterName, WorkName) {
    let metadata = &work.metadata;
    (metadata.namespace.as_str().into(), WorkName(metadata.name.as_str().into()))
}

async fn list_works(
    client: &HubClient,
    gvr: &GroupVersionResource,
    controller: &ControllerName,
    works: &WorksOf,
) -> Result<Vec<HubObject>, HubError> {
    let (namespace, what) = match works {
        WorksOf::All => ("", format!("list {}", gvr.kind)),
        WorksOf::Cluster(cluster) => (&*cluster.0, format!("list {} of cluster {cluster}", gvr.kind)),
    };
    client.objects(gvr, namespace, Some(&of_controller(controller)), Extent::Whole, &what).await
}

async fn list(
    client: &HubClient,
    source: &Source,
    gvr: &GroupVersionResource,
    controller: &ControllerName,
) -> Result<Vec<HubObject>, HubError> {
    client.list(source, gvr, controller, &format!("list {}", gvr.kind)).await
}

async fn definition(client: &HubClient, name: &str) -> Result<Option<CustomResourceDefinition>, HubError> {
    let gvr = GroupVersionResource::definitions();
    client.get(&gvr, &ObjectKey::new("", name), &format!("get CustomResourceDefinition {name}")).await
}

impl HubSnapshot {
    /// Keeps those annotations of `object` that are ours.
    fn annotated(&mut self, origin: Origin, object: HubObject, is_ours: impl Fn(&str) -> bool) {
        let ours = object.metadata.annotations.into_iter().filter(|(key, _)| is_ours(key));
        self.annotations.insert(origin, ours.collect());
    }

    fn wanted(&self) -> Wanted {
        watches::plan(self.mirror.read().view(OfflineMirror::settled()))
    }

    /// The versions in which classes list kinds, and as what.
    fn versions(&self) -> BTreeSet<(Role, GroupVersionResource)> {
        let others = watches::others(self.mirror.read().view(OfflineMirror::settled()));
        let wanted = self.wanted().into_iter();
        let watched = wanted.filter_map(|(source, gvr)| Some((role_of(&source)?.0, gvr)));
        watched.chain(others).collect()
    }

    async fn work_schema(&mut self, client: &HubClient) -> Result<(), ReadError> {
        let name = format!("manifestworks.{}", work::GROUP);
        let definition = definition(client, &name).await?;
        let definition = definition.ok_or_else(|| client.lacks(format!("definition of {name}")))?;
        let schema = WorkSchema::new(&definition);
        if let Some(fault) = schema.fault() {
            return Err(ReadError::Unfit { url: client.url().to_owned(), fault });
        }
        self.mirror.work_schema(schema);
        Ok(())
    }

    async fn resolve(
        &self,
        client: &HubClient,
        role: Role,
        gvr: &GroupVersionResource,
    ) -> Result<(), HubError> {
        let definition = definition(client, &gvr.kind.to_string()).await?;
        let told = told(client.client(), definition.as_ref(), role, gvr).await;
        self.mirror.resolve(gvr, told.map_or_else(|fault| fault, Resolution::Resolved));
        Ok(())
    }

    async fn policies(
        &mut self,
        client: &HubClient,
        source: &Source,
        gvr: &GroupVersionResource,
    ) -> Result<(), HubError> {
        let resolved = {
            let guard = self.mirror.read();
            let state = guard.view(OfflineMirror::settled()).kind(gvr);
            state.is_some_and(|state| matches!(state.resolution, Resolution::Resolved(_)))
        };
        if resolved {
            let policies = list(client, source, gvr, self.mirror.controller()).await?;
            self.mirror.list(source, &policies);
            for policy in policies {
                let origin = Origin::new(gvr.kind.clone(), policy.key());
                self.annotated(origin, policy, |key| OF_POLICY.contains(&key));
            }
        }
        Ok(())
    }
}
