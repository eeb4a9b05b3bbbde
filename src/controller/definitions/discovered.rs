//! Resolves a kind of resources without a CustomResourceDefinition: a built-in kind, or one of an aggregated API server.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;
use kube::Client;

use policy_sync_api::names::GroupVersionResource;
use policy_sync_api::params::Role;
use policy_sync_api::text::with_causes;
use policy_sync_hub::served_beside;
use policy_sync_hub::watch::answered;
use policy_sync_sync::rows::kind::{KindInfo, Resolution, cluster_scoped};

/// The verbs that a kind must support to be watched.
const VERBS: [&str; 3] = ["get", "list", "watch"];

/// Describes the kind of `gvr` according to the hub's API discovery.
///
/// # Errors
///
/// The resolution of a kind that cannot be synced.
pub(crate) async fn discovered(client: &Client, gvr: &GroupVersionResource) -> Result<KindInfo, Resolution> {
    let unknown = |error: kube::Error| Resolution::Unknown(with_causes(&error));
    if let Some(found) = served(client, gvr).await.map_err(unknown)? {
        return usable(&found);
    }
    let mut others = Vec::new();
    for version in versions(client, gvr).await.map_err(unknown)? {
        let other = GroupVersionResource { version: version.as_str().into(), kind: gvr.kind.clone() };
        if other != *gvr && served(client, &other).await.map_err(unknown)?.is_some() {
            others.push(version);
        }
    }
    // Objects outlive a removed version while another one is served, so the kind is not gone.
    Err(match others.is_empty() {
        true => Resolution::Gone,
        false => Resolution::UnknownVersion(format!("the hub serves {}", others.join(", "))),
    })
}

fn usable(found: &APIResource) -> Result<KindInfo, Resolution> {
    if !found.namespaced {
        return Err(cluster_scoped(Role::Resource));
    }
    match VERBS.iter().find(|verb| !found.verbs.iter().any(|offered| offered == *verb)) {
        Some(verb) => Err(Resolution::NotSyncable(format!("the hub has no {verb} for it"))),
        None => Ok(KindInfo::named(&found.kind)),
    }
}

/// The discovery entry of `gvr`, `None` if the hub does not serve it.
async fn served(client: &Client, gvr: &GroupVersionResource) -> Result<Option<APIResource>, kube::Error> {
    let list = answered(served_beside(client, gvr)).await?;
    let mut resources = list.into_iter().flat_map(|list| list.resources);
    Ok(resources.find(|found| *found.name == *gvr.kind.resource))
}

/// The versions of the group of `gvr` that the hub serves.
async fn versions(client: &Client, gvr: &GroupVersionResource) -> Result<Vec<String>, kube::Error> {
    if gvr.kind.group.is_empty() {
        return Ok(answered(client.list_core_api_versions()).await?.versions);
    }
    let groups = answered(client.list_api_groups()).await?.groups;
    let group = groups.into_iter().find(|group| *group.name == *gvr.kind.group);
    Ok(group.into_iter().flat_map(|group| group.versions).map(|version| version.version).collect())
}
