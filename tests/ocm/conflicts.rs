//! Who wins on the spoke: its people, unless the class says otherwise.

use anyhow::{Result, ensure};
use policy_sync_testenv::apply::apply;
use policy_sync_testenv::fixtures::{namespace, rate_limit_policy};
use policy_sync_testenv::world::rate_limit_policies;
use serde_json::json;

use crate::{downstream, until_copied, world};

#[tokio::test]
async fn an_object_of_the_spokes_people_stays_and_is_told() -> Result<()> {
    let (world, fleet) = world("theirs", &["eu-1"]).await?;
    let _controller = world.controller().await?;
    let spoke = fleet.spoke("eu-1")?.client()?;
    let limits = rate_limit_policy(world.name(), "limits", "web");
    let mut theirs = downstream(&limits);
    theirs["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(7);
    apply(&spoke, &namespace("kuadrant-theirs")).await?;
    apply(&spoke, &theirs).await?;

    world.apply(&limits).await?;
    let (entries, _) =
        world.until_folded(&limits, |entries, _| entries.iter().any(|entry| entry.message.is_some())).await?;
    let message = entries[0].message.clone().unwrap_or_default();
    ensure!(!entries[0].applied && message.contains("conflict"), "{entries:?}");
    until_copied(&spoke, &limits, |copy| copy.data["spec"]["limits"]["all"]["rates"][0]["limit"] == 7)
        .await?;

    world.delete(&limits).await?;
    world.until_works(&["eu-1/access", "eu-1/gateway-web"]).await?;
    until_copied(&spoke, &limits, |copy| copy.data["spec"]["limits"]["all"]["rates"][0]["limit"] == 7)
        .await?;
    Ok(())
}

#[tokio::test]
async fn with_overwrite_the_hub_wins() -> Result<()> {
    let (world, fleet) = world("ours", &["eu-1"]).await?;
    world.parameters(&json!({"conflicts": "overwrite", "policiesToSync": [rate_limit_policies()]})).await?;
    let _controller = world.controller().await?;
    let spoke = fleet.spoke("eu-1")?.client()?;
    let limits = rate_limit_policy(world.name(), "limits", "web");
    let mut theirs = downstream(&limits);
    theirs["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(7);
    apply(&spoke, &namespace("kuadrant-ours")).await?;
    apply(&spoke, &theirs).await?;
    world.apply(&limits).await?;
    until_copied(&spoke, &limits, |copy| copy.data["spec"]["limits"]["all"]["rates"][0]["limit"] == 10)
        .await?;
    world.until_folded(&limits, |_, summary| summary.enforced == 1).await?;
    Ok(())
}
