//! The agent's writes to the spoke's API server.
//!
//! Errors are converted to the text of a Go client, because that text becomes part of the work's status.

use std::collections::HashMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use kube::core::discovery::Scope;
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use parking_lot::Mutex;
use policy_sync_api::work::{ResourceMeta, UpdateStrategyType};
use serde_json::{Value, json};

use super::manifest::{Configuration, Mapping};
use super::removal::{Removal, owners, removal};
use crate::api::AppliedResource;

/// The maximum number of attempts to write owner references, which fail if the object has changed meanwhile.
const TRIES: usize = 5;

/// Why a manifest was not applied.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    /// Another field manager owns a field. The write is not retried before the resync.
    #[error("{0}")]
    Conflict(String),
    /// The update strategy is not supported. The write is not retried before the resync.
    #[error("{0}")]
    Unsupported(String),
    /// Any other error. The write is retried with backoff.
    #[error("{0}")]
    Failed(String),
}

impl From<kube::Error> for WriteError {
    fn from(error: kube::Error) -> Self {
        Self::Failed(text(&error))
    }
}

/// The message of the server's status, or the client's error.
pub(super) fn text(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

fn has_code(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}

/// An API resource without the kind's name, which requests do not need.
fn resource(group: &str, version: &str, plural: &str) -> ApiResource {
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    ApiResource {
        group: group.into(),
        version: version.into(),
        api_version,
        kind: String::new(),
        plural: plural.into(),
    }
}

/// The API resource in a status entry.
pub(super) fn resource_of(meta: &ResourceMeta) -> ApiResource {
    resource(&meta.group, &meta.version, &meta.resource)
}

/// One manifest with everything that determines how it is written.
#[derive(Debug)]
pub(super) struct ManifestWrite<'a> {
    pub(super) manifest: &'a Value,
    /// The kind as the spoke serves it.
    pub(super) mapping: &'a Mapping,
    pub(super) meta: &'a ResourceMeta,
    /// The work's configuration for the manifest.
    pub(super) configuration: &'a Configuration,
    /// Whether the object is deleted with the work.
    pub(super) owned: bool,
}

/// The spoke's API server, with a cache of its kinds.
pub(super) struct Spoke {
    client: Client,
    mappings: Mutex<HashMap<GroupVersionKind, Mapping>>,
}

impl Spoke {
    pub(super) fn new(client: Client) -> Self {
        Self { client, mappings: Mutex::default() }
    }

    /// Looks up a kind on the spoke; found kinds are cached.
    pub(super) async fn mapping(&self, kind: &GroupVersionKind) -> Result<Mapping, WriteError> {
        if let Some(known) = self.mappings.lock().get(kind) {
            return Ok(known.clone());
        }
        let (resource, capabilities) =
            kube::discovery::pinned_kind(&self.client, kind).await.map_err(|error| {
                tracing::debug!(%error, kind = kind.kind, "the spoke does not serve the kind");
                WriteError::Failed(format!("the server doesn't have a resource type {:?}", kind.kind))
            })?;
        let mapping = Mapping { resource, namespaced: capabilities.scope == Scope::Namespaced };
        self.mappings.lock().insert(kind.clone(), mapping.clone());
        Ok(mapping)
    }

    fn api(&self, resource: &ApiResource, namespace: &str) -> Api<DynamicObject> {
        if namespace.is_empty() {
            Api::all_with(self.client.clone(), resource)
        } else {
            Api::namespaced_with(self.client.clone(), namespace, resource)
        }
    }

    /// Gets the object of a status entry.
    pub(super) async fn get(&self, meta: &ResourceMeta) -> kube::Result<Option<DynamicObject>> {
        self.api(&resource_of(meta), &meta.namespace).get_opt(&meta.name).await
    }

    /// Writes one manifest and its owner reference. Returns the object's uid.
    pub(super) async fn apply(
        &self,
        write: &ManifestWrite<'_>,
        owner: &OwnerReference,
    ) -> Result<String, WriteError> {
        let api = self.api(&write.mapping.resource, &write.meta.namespace);
        let name = write.meta.name.as_str();
        let mut tries = 0;
        loop {
            tries += 1;
            let object = match write.configuration.strategy() {
                UpdateStrategyType::ServerSideApply => self.server_side_apply(&api, name, write).await?,
                UpdateStrategyType::CreateOnly => self.create_only(&api, name, write, owner).await?,
                other => {
                    let message = format!("the update strategy {other:?} is not supported by this agent");
                    tracing::error!(kind = write.meta.kind, name, "{message}");
                    return Err(WriteError::Unsupported(message));
                }
            };
            match write_owners(&api, &object.metadata, owner, write.owned).await {
                Ok(()) => return Ok(object.metadata.uid.unwrap_or_default()),
                Err(error) if has_code(&error, 409) && tries < TRIES => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn server_side_apply(
        &self,
        api: &Api<DynamicObject>,
        name: &str,
        write: &ManifestWrite<'_>,
    ) -> Result<DynamicObject, WriteError> {
        let options = write.configuration.update_strategy.as_ref();
        let options = options.and_then(|strategy| strategy.server_side_apply.as_ref());
        let manager = options.map_or("work-agent", |options| options.field_manager.as_str());
        let force = options.is_some_and(|options| options.force);
        let params = PatchParams { field_manager: Some(manager.into()), force, ..PatchParams::default() };
        let manifest = cleaned(write.manifest);
        api.patch(name, &params, &Patch::Apply(&manifest)).await.map_err(|error| {
            if has_code(&error, 409) { WriteError::Conflict(text(&error)) } else { error.into() }
        })
    }

    async fn create_only(
        &self,
        api: &Api<DynamicObject>,
        name: &str,
        write: &ManifestWrite<'_>,
        owner: &OwnerReference,
    ) -> Result<DynamicObject, WriteError> {
        if let Some(object) = api.get_opt(name).await? {
            return Ok(object);
        }
        let mut manifest = cleaned(write.manifest);
        if write.owned {
            manifest["metadata"]["ownerReferences"] = json!([owner]);
        }
        let object: DynamicObject =
            serde_json::from_value(manifest).map_err(|error| WriteError::Failed(error.to_string()))?;
        Ok(api.create(&PostParams::default(), &object).await?)
    }

    /// Removes objects that the work no longer contains. Returns the objects that are still terminating, and the
    /// errors.
    pub(super) async fn remove(
        &self,
        resources: &[AppliedResource],
        owner: &OwnerReference,
    ) -> (Vec<AppliedResource>, Vec<String>) {
        let (mut pending, mut errors) = (Vec::new(), Vec::new());
        for resource in resources {
            match self.remove_one(resource, &owner.uid).await {
                Ok(true) => pending.push(resource.clone()),
                Ok(false) => {}
                Err(error) => errors.push(text(&error)),
            }
        }
        (pending, errors)
    }

    async fn remove_one(&self, record: &AppliedResource, owner: &str) -> kube::Result<bool> {
        let kind = resource(record.group.as_deref().unwrap_or_default(), &record.version, &record.resource);
        let api = self.api(&kind, record.namespace.as_deref().unwrap_or_default());
        let Some(object) = api.get_opt(&record.name).await? else { return Ok(false) };
        let uid = record.uid.as_deref().unwrap_or_default();
        match removal(&object.metadata, uid, owner) {
            Removal::Forget => Ok(false),
            Removal::Wait => Ok(true),
            Removal::Disown(rest) => patch_owners(&api, &object.metadata, &rest).await.map(|()| false),
            Removal::Delete => {
                let preconditions = Preconditions { uid: Some(uid.to_owned()), ..Preconditions::default() };
                match api.delete(&record.name, &DeleteParams::background().preconditions(preconditions)).await
                {
                    Ok(_) => Ok(true),
                    // The object is gone, or another instance has replaced it.
                    Err(error) if has_code(&error, 404) || has_code(&error, 409) => Ok(false),
                    Err(error) => Err(error),
                }
            }
        }
    }
}

/// The manifest without fields that only a server sets.
fn cleaned(manifest: &Value) -> Value {
    let mut manifest = manifest.clone();
    if let Some(metadata) = manifest.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("uid");
        if metadata.get("creationTimestamp").is_some_and(Value::is_null) {
            metadata.remove("creationTimestamp");
        }
    }
    manifest
}

async fn write_owners(
    api: &Api<DynamicObject>,
    object: &ObjectMeta,
    owner: &OwnerReference,
    owned: bool,
) -> kube::Result<()> {
    match owners(object, owner, owned) {
        None => Ok(()),
        Some(owners) => patch_owners(api, object, &owners).await,
    }
}

async fn patch_owners(
    api: &Api<DynamicObject>,
    object: &ObjectMeta,
    owners: &[OwnerReference],
) -> kube::Result<()> {
    let patch = json!({"metadata": {
        "uid": object.uid,
        "resourceVersion": object.resource_version,
        "ownerReferences": owners,
    }});
    let name = object.name.as_deref().unwrap_or_default();
    api.patch_metadata(name, &PatchParams::default(), &Patch::Merge(patch)).await.map(|_| ())
}
