//! The names that a hub has, for those who choose one: of each kind no more than a page.

use super::served::ServedKind;
use crate::api::names::GroupVersionResource;
use crate::hub::{HubClient, HubError};
use crate::sync::kinds::CLUSTERS;

/// Of namespaces.
///
/// # Errors
///
/// Where they cannot be listed.
pub async fn namespaces(hub: &HubClient) -> Result<Vec<String>, HubError> {
    hub.names(&GroupVersionResource::new("", "v1", "namespaces"), "", "list Namespaces").await
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
