//! Clusters that leave the fleet.

use anyhow::{Result, ensure};
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use policy_sync_api::work::ManifestWork;
use policy_sync_testenv::fixtures::{managed_cluster, namespace, rate_limit_policy};
use policy_sync_testenv::tenant::Tenant;
use serde_json::json;

use super::{own, web};
use crate::bad_input::until_event;

/// Sets a grace period of ten minutes on the Gateway.
async fn set_grace_period(tenant: &Tenant<'_>) -> Result<()> {
    let grace = json!({"metadata": {"annotations": {"kuadrant.io/grace-timeout": "600"}}});
    tenant.merge(&web(tenant), &grace).await.map(drop)
}

fn works(cluster: &str) -> [String; 3] {
    ["access", "gateway-web", "ratelimitpolicy-limits"].map(|name| format!("{cluster}/{name}"))
}

async fn until_works_of(tenant: &Tenant<'_>, clusters: &[&str]) -> Result<()> {
    let expected: Vec<String> = clusters.iter().flat_map(|cluster| works(cluster)).collect();
    tenant.until_works(&expected.iter().map(String::as_str).collect::<Vec<_>>()).await
}

#[tokio::test]
async fn deleted_cluster_gets_no_grace_period() -> Result<()> {
    let (tenant, _controller) = own("left", &["left-a", "left-b", "left-c"]).await?;
    set_grace_period(&tenant).await?;
    tenant.apply(&rate_limit_policy(tenant.name(), "limits", "web")).await?;
    until_works_of(&tenant, &["left-a", "left-b", "left-c"]).await?;
    // The cluster is deleted before the PlacementDecisions change.
    let gone = |name: &str| managed_cluster(name, &Default::default());
    tenant.delete(&gone("left-a")).await?;
    tenant.place("all", &["left-b", "left-c"]).await?;
    until_works_of(&tenant, &["left-b", "left-c"]).await?;
    // The cluster is deleted during its grace period.
    tenant.place("all", &["left-c"]).await?;
    let unplaced_at = |work: &ManifestWork| {
        let annotations = work.metadata.annotations.as_ref();
        annotations.is_some_and(|annotations| annotations.contains_key("kuadrant.io/displaced-since"))
    };
    tenant.until_work("left-b", "gateway-web", unplaced_at).await?;
    tenant.delete(&gone("left-b")).await?;
    until_works_of(&tenant, &["left-c"]).await
}

#[tokio::test]
async fn terminating_cluster_namespace_is_cleaned_up_and_blocks_no_other_cluster() -> Result<()> {
    let (tenant, _controller) = own("ends", &["ends-a", "ends-b"]).await?;
    tenant.apply(&rate_limit_policy(tenant.name(), "limits", "web")).await?;
    until_works_of(&tenant, &["ends-a", "ends-b"]).await?;
    // One of the works has the finalizer of an agent that never responds again.
    let held = tenant.work("ends-a", "gateway-web").await?.metadata.name.unwrap_or_default();
    let api: Api<ManifestWork> = Api::namespaced(tenant.client().clone(), "ends-a");
    let hold =
        json!({"metadata": {"finalizers": ["cluster.open-cluster-management.io/manifest-work-cleanup"]}});
    api.patch(&held, &PatchParams::default(), &Patch::Merge(hold)).await?;
    // The hub deletes all works in the namespace and rejects new works.
    let (namespaces, name) =
        policy_sync_testenv::apply::api_for(tenant.client(), &namespace("ends-a")).await?;
    namespaces.delete(&name, &DeleteParams::default()).await?;

    let other = rate_limit_policy(tenant.name(), "other", "web");
    tenant.apply(&other).await?;
    tenant.until_work("ends-b", "ratelimitpolicy-other", |_| true).await?;
    let (reason, note) = until_event(&tenant, &other, "ends-a").await?;
    ensure!(reason == "WriteRefused" && note.contains("being terminated"), "{reason}: {note}");

    // All works are deleted, except the work with the agent's finalizer. This work is deleted once the finalizer is
    // removed.
    tenant.place("all", &["ends-b"]).await?;
    tenant
        .until_works(&[
            "ends-a/gateway-web",
            "ends-b/access",
            "ends-b/gateway-web",
            "ends-b/ratelimitpolicy-limits",
            "ends-b/ratelimitpolicy-other",
        ])
        .await?;
    let release = json!({"metadata": {"finalizers": null}});
    api.patch(&held, &PatchParams::default(), &Patch::Merge(release)).await?;
    tenant
        .until_works(&[
            "ends-b/access",
            "ends-b/gateway-web",
            "ends-b/ratelimitpolicy-limits",
            "ends-b/ratelimitpolicy-other",
        ])
        .await
}
