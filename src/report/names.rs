//! The names that a hub has, for those who choose one: of each kind no more than a page.

use super::known::Known;
use super::served::ServedKind;
use policy_sync_api::names::{GroupVersionResource, ObjectKey};
use policy_sync_api::object::HubObject;
use policy_sync_hub::{HubClient, HubError};
use policy_sync_sync::kinds::CLUSTERS;

/// Of namespaces.
///
/// # Errors
///
/// Where they cannot be listed.
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

/// Of clusters.
///
/// # Errors
///
/// Where they cannot be listed.
pub async fn clusters(hub: &HubClient) -> Result<Vec<String>, HubError> {
    hub.names(&CLUSTERS.gvr(), "", "list ManagedClusters").await
}

/// Of objects of `kind` in `namespace`, in all where that is empty.
///
/// # Errors
///
/// Where they cannot be listed.
pub async fn objects(hub: &HubClient, kind: &ServedKind, namespace: &str) -> Result<Vec<String>, HubError> {
    hub.names(&kind.gvr, namespace, &format!("list {}", kind.gvr.kind)).await
}
