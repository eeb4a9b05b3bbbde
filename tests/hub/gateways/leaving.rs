//! Clusters that leave the fleet.

use anyhow::{Result, ensure};
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use policy_sync::api::work::ManifestWork;
use policy_sync_testenv::fixtures::{managed_cluster, namespace, rate_limit_policy};
use policy_sync_testenv::world::World;
use serde_json::json;

use super::{own, web};
use crate::bad_input::until_event;

/// Lets the Gateway serve on for ten minutes where it is no longer placed.
async fn lasts(world: &World<'_>) -> Result<()> {
    let grace = json!({"metadata": {"annotations": {"kuadrant.io/grace-timeout": "600"}}});
    world.merge(&web(world), &grace).await.map(drop)
}

fn works(cluster: &str) -> [String; 3] {
    ["access", "gateway-web", "ratelimitpolicy-limits"].map(|name| format!("{cluster}/{name}"))
}

async fn until_works_of(world: &World<'_>, clusters: &[&str]) -> Result<()> {
    let expected: Vec<String> = clusters.iter().flat_map(|cluster| works(cluster)).collect();
    world.until_works(&expected.iter().map(String::as_str).collect::<Vec<_>>()).await
}

#[tokio::test]
async fn a_cluster_that_is_deleted_is_left_without_grace() -> Result<()> {
    let (world, _controller) = own("left", &["left-a", "left-b", "left-c"]).await?;
    lasts(&world).await?;
    world.apply(&rate_limit_policy(world.name(), "limits", "web")).await?;
    until_works_of(&world, &["left-a", "left-b", "left-c"]).await?;
    // Before the decisions know of it.
    let gone = |name: &str| managed_cluster(name, &Default::default());
    world.delete(&gone("left-a")).await?;
    world.place("all", &["left-b", "left-c"]).await?;
    until_works_of(&world, &["left-b", "left-c"]).await?;
    // While it is served on.
    world.place("all", &["left-c"]).await?;
    let displaced = |work: &ManifestWork| {
        let annotations = work.metadata.annotations.as_ref();
        annotations.is_some_and(|annotations| annotations.contains_key("kuadrant.io/displaced-since"))
    };
    world.until_work("left-b", "gateway-web", displaced).await?;
    world.delete(&gone("left-b")).await?;
    until_works_of(&world, &["left-c"]).await
}

#[tokio::test]
async fn a_cluster_whose_namespace_ends_holds_up_no_other_and_is_cleaned_up() -> Result<()> {
    let (world, _controller) = own("ends", &["ends-a", "ends-b"]).await?;
    world.apply(&rate_limit_policy(world.name(), "limits", "web")).await?;
    until_works_of(&world, &["ends-a", "ends-b"]).await?;
    // An agent that never answers again holds one of the works.
    let held = world.work("ends-a", "gateway-web").await?.metadata.name.unwrap_or_default();
    let api: Api<ManifestWork> = Api::namespaced(world.client().clone(), "ends-a");
    let hold =
        json!({"metadata": {"finalizers": ["cluster.open-cluster-management.io/manifest-work-cleanup"]}});
    api.patch(&held, &PatchParams::default(), &Patch::Merge(hold)).await?;
    // The hub deletes all works there, and lets nobody make another.
    let (namespaces, name) =
        policy_sync_testenv::apply::api_for(world.client(), &namespace("ends-a")).await?;
    namespaces.delete(&name, &DeleteParams::default()).await?;

    let other = rate_limit_policy(world.name(), "other", "web");
    world.apply(&other).await?;
    world.until_work("ends-b", "ratelimitpolicy-other", |_| true).await?;
    let (reason, note) = until_event(&world, &other, "ends-a").await?;
    ensure!(reason == "WriteRefused" && note.contains("being terminated"), "{reason}: {note}");

    // What can go has gone, and what is left goes as soon as it can.
    world.place("all", &["ends-b"]).await?;
    world
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
    world
        .until_works(&[
            "ends-b/access",
            "ends-b/gateway-web",
            "ends-b/ratelimitpolicy-limits",
            "ends-b/ratelimitpolicy-other",
        ])
        .await
}
