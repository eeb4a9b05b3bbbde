//! What a hub's users must never see: stories that are easily got wrong, each named after what holds.
//!
//! Others of their kind stand where they belong: one class's parameters never end another's watches in `kinds`, a
//! spoke's namespace outlives the last work in `tests/ocm`, and a reference keeps its `sectionName` and names never
//! collide in the library's own tests.

use anyhow::{Result, ensure};
use policy_sync_testenv::fixtures::{gateway, namespace, placement, rate_limit_policy};
use policy_sync_testenv::world::{all_kinds, rate_limit_policies};
use serde_json::json;

use crate::{ON_BOTH, ON_EU, limit_of, synced, world};

#[tokio::test]
async fn every_gateway_is_followed_and_its_deletion_too() -> Result<()> {
    let (world, _controller, limits) = synced("every").await?;
    let api = gateway(world.name(), "api", world.name(), Some("all"));
    let other = rate_limit_policy(world.name(), "other", "api");
    world.apply(&api).await?;
    world.apply(&other).await?;
    world.until_work("us-1", "ratelimitpolicy-other", |_| true).await?;
    // Both go on being followed, and each goes alone.
    for policy in [&limits, &other] {
        let mut changed = policy.clone();
        changed["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(20);
        world.apply(&changed).await?;
    }
    for work in ["ratelimitpolicy-limits", "ratelimitpolicy-other"] {
        world.until_work("us-1", work, |work| limit_of(work) == 20).await?;
    }
    world.delete(&api).await?;
    world.until_works(&ON_BOTH).await
}

#[tokio::test]
async fn a_write_that_the_hub_refuses_is_tried_until_it_succeeds() -> Result<()> {
    let world = world("retries", &["eu-1", "late-1"]).await?;
    let _controller = world.controller().await?;
    world.apply(&rate_limit_policy(world.name(), "limits", "web")).await?;
    world.until_works(&ON_EU).await?;
    world.apply(&namespace("late-1")).await?;
    world.until_work("late-1", "ratelimitpolicy-limits", |_| true).await?;
    world.until_work("late-1", "gateway-web", |_| true).await?;
    world.until_work("late-1", "access", |_| true).await.map(drop)
}

#[tokio::test]
async fn a_change_of_the_parameters_reaches_every_copy() -> Result<()> {
    let (world, _controller, _) = synced("rolls-out").await?;
    let class_of = |work: &policy_sync::api::work::ManifestWork| {
        work.spec.workload.manifests[1].0["spec"]["gatewayClassName"].as_str().unwrap_or_default().to_owned()
    };
    let mut parameters = all_kinds();
    for class in ["cilium", "envoy"] {
        parameters["downstreamClass"] = class.into();
        world.parameters(&parameters).await?;
        for cluster in ["eu-1", "us-1"] {
            world.until_work(cluster, "gateway-web", |work| class_of(work) == class).await?;
        }
    }
    // Parameters that do not say have a class all the same.
    world.parameters(&json!({"policiesToSync": [rate_limit_policies()]})).await?;
    world.until_work("us-1", "gateway-web", |work| class_of(work) == "istio").await.map(drop)
}

#[tokio::test]
async fn a_placement_deleted_before_its_gateway_leaves_no_works_behind() -> Result<()> {
    // No agent runs here: these works are cleaned up although nobody ever applied them.
    let (world, _controller, limits) = synced("orphans").await?;
    world.delete(&placement(world.name(), "all", 0)).await?;
    world.decide("all", 1, &[]).await?;
    world.until_works(&[]).await?;
    world.delete(&gateway(world.name(), "web", world.name(), Some("all"))).await?;
    world.until_works(&[]).await?;
    ensure!(world.get(&limits).await.is_ok(), "the policy is the user's");
    Ok(())
}

#[tokio::test]
async fn one_gateway_that_leaves_a_cluster_takes_no_access_from_another() -> Result<()> {
    let (world, _controller, _) = synced("displaced").await?;
    world.place("some", &["eu-1"]).await?;
    world.apply(&gateway(world.name(), "api", world.name(), Some("some"))).await?;
    world.apply(&rate_limit_policy(world.name(), "other", "api")).await?;
    world.until_work("eu-1", "ratelimitpolicy-other", |_| true).await?;
    let access = world.work("eu-1", "access").await?;
    world.place("some", &[]).await?;
    world.until_works(&ON_BOTH).await?;
    let after = world.work("eu-1", "access").await?;
    ensure!(after.metadata.uid == access.metadata.uid && after.spec == access.spec, "{:?}", after.spec);
    Ok(())
}
