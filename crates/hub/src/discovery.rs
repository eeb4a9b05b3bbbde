//! API discovery.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::Client;

use policy_sync_api::names::GroupVersionResource;

/// Lists the resources in the group and version of `gvr`; `None` if the hub does not serve that version.
///
/// # Errors
///
/// If the request fails, except with 404.
pub async fn served_beside(
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
