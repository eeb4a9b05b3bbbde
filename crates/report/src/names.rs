//! Names of namespaces, clusters and objects for shell completion, at most one page of each.

use super::known::Known;
use super::served::ServedKind;
use policy_sync_api::names::{GroupVersionResource, ObjectKey};
use policy_sync_api::object::HubObject;
use policy_sync_hub::{HubClient, HubError};
use policy_sync_sync::kinds::CLUSTERS;

/// The names of namespaces.
///
/// # Errors
///
/// If the names cannot be listed.
pub async fn namespaces(hub: &HubClient) -> Result<Vec<String>, HubError> {
    hub.names(&GroupVersionResource::new("", "v1", "namespaces"), "", "list Namespaces").await
}

/// Whether the hub has a namespace of this name.
///
/// # Errors
///
/// If the request fails.
pub async fn namespace(hub: &HubClient, name: &str) -> Result<Known<bool>, HubError> {
    let (gvr, key) = (GroupVersionResource::new("", "v1", "namespaces"), ObjectKey::new("", name));
    let found = hub.get::<HubObject>(&gvr, &key, &format!("get Namespace {name}")).await;
    Known::of(found.map(|found| found.is_some()))
}

/// The names of ManagedClusters.
///
/// # Errors
///
/// If the names cannot be listed.
pub async fn clusters(hub: &HubClient) -> Result<Vec<String>, HubError> {
    hub.names(&CLUSTERS.gvr(), "", "list ManagedClusters").await
}

/// The names of objects of `kind` in `namespace`; in all namespaces if `namespace` is empty.
///
/// # Errors
///
/// If the names cannot be listed.
pub async fn objects(hub: &HubClient, kind: &ServedKind, namespace: &str) -> Result<Vec<String>, HubError> {
    hub.names(&kind.gvr, namespace, &format!("list {}", kind.gvr.kind)).await
}
