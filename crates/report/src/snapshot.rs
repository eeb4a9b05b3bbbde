//! Reads the objects of a hub that the controller would watch. First come the kinds that the controller always watches,
//! then the parameters of classes, then the kinds in these parameters, and TLS Secrets if a class copies them.
//!
//! The user's rights may differ from those of the controller. The controller is assumed to have all rights that it
//! needs. So an object that the user may not read is an error, not a missing object.

use futures::future::join_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, ControllerName, GroupVersionResource, ObjectKey};
use policy_sync_api::object::HubObject;
use policy_sync_api::params::Role;
use policy_sync_api::text::with_causes;
use policy_sync_api::work;
use policy_sync_hub::clock::Clock;
use policy_sync_hub::{HubClient, HubError, discover_resource};
use policy_sync_mirror::{Projection, Source};
use policy_sync_sync::OfflineMirror;
use policy_sync_sync::dry_run::HubSnapshot;
use policy_sync_sync::kinds::{CLUSTERS, GATEWAYS, REQUIRED, WORKS, needed, of_controller, role_of};
use policy_sync_sync::rows::kind::{KindInfo, Resolution, defined, discovered};
use policy_sync_sync::rows::schema::WorkSchema;

/// An error that prevents plans for a hub.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The hub cannot be read.
    #[error(transparent)]
    Hub(#[from] HubError),
    /// The schema of ManifestWorks lacks a field that the controller needs.
    #[error("the controller would not start on the hub at {url}: {fault}")]
    Incompatible {
        /// The URL of the hub.
        url: String,
        /// The missing field.
        fault: &'static str,
    },
}

/// Which works of a controller are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkSelection {
    /// All works.
    All,
    /// The works of one cluster.
    Cluster(ClusterName),
}

/// Reads the hub for `controller`.
///
/// # Errors
///
/// If an object cannot be read, or if the controller could not start on this hub. The error names the object.
pub async fn read(client: &HubClient, controller: &ControllerName) -> Result<HubSnapshot, ReadError> {
    read_with(client, controller, &WorkSelection::All).await
}

/// Reads the hub like [`read`], but only the works that `works` selects.
///
/// # Errors
///
/// The errors of [`read`].
pub async fn read_with(
    client: &HubClient,
    controller: &ControllerName,
    works: &WorkSelection,
) -> Result<HubSnapshot, ReadError> {
    client.has(&REQUIRED).await?;
    let mut reader = SnapshotReader { client, hub: HubSnapshot::new(controller.clone()) };
    let fixed = needed().filter_map(|source| source.gvr().map(|gvr| (source, gvr)));
    let lists = join_all(fixed.map(|(source, gvr)| async move {
        let objects = if source.is(&WORKS) {
            list_works(client, &gvr, controller, works).await
        } else {
            list(client, &source, &gvr, controller).await
        };
        objects.map(|objects| (source, objects))
    }));
    // The requests run concurrently. Of several errors, the first in the order of sources is returned.
    for listing in lists.await {
        let (source, objects) = listing?;
        reader.hub.mirror.list(&source, &objects, now());
        if source.is(&WORKS) {
            reader.hub.take_works(objects);
        } else if source.is(&CLUSTERS) {
            reader.hub.take_clusters(&objects);
        } else if source.is(&GATEWAYS) {
            reader.hub.take_gateways(objects);
        }
    }
    reader.work_schema().await?;
    for (source, gvr) in reader.hub.wanted(now()) {
        if let Some(key) = source.object() {
            let config_map: Option<HubObject> =
                client.get(&gvr, key, &format!("get ConfigMap {key}")).await?;
            reader.hub.mirror.list(&source, &config_map, now());
        }
    }
    for (role, gvr) in reader.hub.versions(now()) {
        reader.resolve(role, &gvr).await?;
    }
    for (source, gvr) in reader.hub.wanted(now()) {
        if role_of(&source).is_some() {
            reader.policies(&source, &gvr).await?;
        } else if source.object().is_none() {
            reader.hub.mirror.list(&source, &list(client, &source, &gvr, controller).await?, now());
        }
    }
    Ok(reader.hub)
}

async fn list_works(
    client: &HubClient,
    gvr: &GroupVersionResource,
    controller: &ControllerName,
    works: &WorkSelection,
) -> Result<Vec<HubObject>, HubError> {
    let (namespace, what) = match works {
        WorkSelection::All => ("", format!("list {}", gvr.kind)),
        WorkSelection::Cluster(cluster) => (&*cluster.0, format!("list {} of cluster {cluster}", gvr.kind)),
    };
    client.objects(gvr, namespace, Some(&of_controller(controller)), Projection::Full, &what).await
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

/// A snapshot that is being read.
struct SnapshotReader<'c> {
    client: &'c HubClient,
    hub: HubSnapshot,
}

impl SnapshotReader<'_> {
    async fn work_schema(&mut self) -> Result<(), ReadError> {
        let name = format!("manifestworks.{}", work::GROUP);
        let definition = definition(self.client, &name).await?;
        let definition = definition.ok_or_else(|| self.client.not_served(format!("definition of {name}")))?;
        let schema = WorkSchema::new(&definition);
        if let Some(fault) = schema.fault() {
            return Err(ReadError::Incompatible { url: self.client.url().to_owned(), fault });
        }
        self.hub.mirror.work_schema(schema);
        Ok(())
    }

    async fn resolve(&self, role: Role, gvr: &GroupVersionResource) -> Result<(), HubError> {
        let definition = definition(self.client, &gvr.kind.to_string()).await?;
        let resolution = kind(self.client, definition.as_ref(), role, gvr).await;
        self.hub.mirror.resolve(gvr, resolution.map_or_else(|fault| fault, Resolution::Resolved));
        Ok(())
    }

    async fn policies(&mut self, source: &Source, gvr: &GroupVersionResource) -> Result<(), HubError> {
        let resolved = {
            let guard = self.hub.mirror.read();
            let state = guard.view(OfflineMirror::settled(now())).kind(gvr);
            state.is_some_and(|state| matches!(state.resolution, Resolution::Resolved(_)))
        };
        if resolved {
            let policies = list(self.client, source, gvr, self.hub.mirror.controller()).await?;
            self.hub.mirror.list(source, &policies, now());
            self.hub.take_policies(&gvr.kind, policies);
        }
        Ok(())
    }
}

/// Resolves the kind of `gvr` by its definition or by discovery, regardless of rights.
async fn kind(
    client: &HubClient,
    definition: Option<&CustomResourceDefinition>,
    role: Role,
    gvr: &GroupVersionResource,
) -> Result<KindInfo, Resolution> {
    match (definition, role) {
        (Some(definition), _) => defined(definition, gvr, role),
        (None, Role::Policy) => Err(Resolution::Gone),
        (None, Role::Resource) => match discover_resource(client.client(), gvr).await {
            Ok(found) => discovered(found),
            Err(error) => Err(Resolution::Unknown(with_causes(&error))),
        },
    }
}

fn now() -> Moment {
    Clock::start().now()
}
