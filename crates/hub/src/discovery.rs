//! API discovery.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIResource, APIResourceList};
use kube::Client;

use crate::request_timeout::with_response_timeout;
use policy_sync_api::names::GroupVersionResource;

/// Lists the resources in the group and version of `gvr`; `None` if the hub does not serve that version.
///
/// # Errors
///
/// If the request fails, except with 404.
pub async fn group_version_resources(
    client: &Client,
    gvr: &GroupVersionResource,
) -> Result<Option<APIResourceList>, kube::Error> {
    let version = gvr.api_version();
    let list = if gvr.kind.group.is_empty() {
        client.list_core_api_resources(&version).await
    } else {
        client.list_api_group_resources(&version).await
    };
    match list {
        Ok(list) => Ok(Some(list)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

/// The resource `gvr` as the hub serves it. If the hub does not serve this version, the inner `Err` contains the
/// versions in which the hub serves the resource.
///
/// # Errors
///
/// If a request fails.
pub async fn discover_resource(
    client: &Client,
    gvr: &GroupVersionResource,
) -> Result<Result<APIResource, Vec<String>>, kube::Error> {
    if let Some(found) = find_resource(client, gvr).await? {
        return Ok(Ok(found));
    }
    let mut others = Vec::new();
    for version in versions(client, gvr).await? {
        let other = GroupVersionResource { version: version.as_str().into(), kind: gvr.kind.clone() };
        if other != *gvr && find_resource(client, &other).await?.is_some() {
            others.push(version);
        }
    }
    Ok(Err(others))
}

/// The resource `gvr`; `None` if the hub does not serve it.
async fn find_resource(
    client: &Client,
    gvr: &GroupVersionResource,
) -> Result<Option<APIResource>, kube::Error> {
    let list = with_response_timeout(group_version_resources(client, gvr)).await?;
    let mut resources = list.into_iter().flat_map(|list| list.resources);
    Ok(resources.find(|found| *found.name == *gvr.kind.resource))
}

/// The versions of the group of `gvr` that the hub serves.
async fn versions(client: &Client, gvr: &GroupVersionResource) -> Result<Vec<String>, kube::Error> {
    if gvr.kind.group.is_empty() {
        return Ok(with_response_timeout(client.list_core_api_versions()).await?.versions);
    }
    let groups = with_response_timeout(client.list_api_groups()).await?.groups;
    let group = groups.into_iter().find(|group| *group.name == *gvr.kind.group);
    Ok(group.into_iter().flat_map(|group| group.versions).map(|version| version.version).collect())
}
