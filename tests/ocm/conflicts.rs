//! Conflicts on the spoke: the spoke's own objects win, unless the class specifies `overwrite`.

use anyhow::{Result, ensure};
use policy_sync_api::annotations::Synced;
use policy_sync_testenv::apply::apply;
use policy_sync_testenv::fixtures::{namespace, rate_limit_policy};
use policy_sync_testenv::tenant::rate_limit_policies;
use serde_json::json;

use crate::{downstream, tenant, until_copied};

#[tokio::test]
async fn object_of_the_spokes_users_is_kept_and_reported() -> Result<()> {
    let (tenant, fleet) = tenant("theirs", &["eu-1"]).await?;
    let _controller = tenant.controller().await?;
    let spoke = fleet.spoke("eu-1")?.client()?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    let mut theirs = downstream(&limits);
    theirs["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(7);
    apply(&spoke, &namespace("kuadrant-theirs")).await?;
    apply(&spoke, &theirs).await?;

    tenant.apply(&limits).await?;
    // Before the agent gets its permissions, it reports that the permissions are missing.
    let conflicts =
        |entry: &Synced| entry.message.as_ref().is_some_and(|message| message.contains("conflict"));
    let (entries, _) = tenant.until_folded(&limits, |entries, _| entries.iter().any(conflicts)).await?;
    ensure!(!entries[0].applied, "{entries:?}");
    until_copied(&spoke, &limits, |copy| copy.data["spec"]["limits"]["all"]["rates"][0]["limit"] == 7)
        .await?;

    tenant.delete(&limits).await?;
    tenant.until_works(&["eu-1/access", "eu-1/gateway-web"]).await?;
    until_copied(&spoke, &limits, |copy| copy.data["spec"]["limits"]["all"]["rates"][0]["limit"] == 7)
        .await?;
    Ok(())
}

#[tokio::test]
async fn overwrite_replaces_objects_of_the_spokes_users() -> Result<()> {
    let (tenant, fleet) = tenant("ours", &["eu-1"]).await?;
    tenant.parameters(&json!({"conflicts": "overwrite", "policiesToSync": [rate_limit_policies()]})).await?;
    let _controller = tenant.controller().await?;
    let spoke = fleet.spoke("eu-1")?.client()?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    let mut theirs = downstream(&limits);
    theirs["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(7);
    apply(&spoke, &namespace("kuadrant-ours")).await?;
    apply(&spoke, &theirs).await?;
    tenant.apply(&limits).await?;
    until_copied(&spoke, &limits, |copy| copy.data["spec"]["limits"]["all"]["rates"][0]["limit"] == 10)
        .await?;
    tenant.until_folded(&limits, |_, summary| summary.enforced == 1).await?;
    Ok(())
}

/// An edit of a copy by the spoke's users stays, and the next change on the hub reports a conflict.
#[tokio::test]
async fn edited_copy_is_kept_and_reported_at_the_next_change() -> Result<()> {
    let (tenant, fleet) = tenant("copies", &["eu-1"]).await?;
    let _controller = tenant.controller().await?;
    let spoke = fleet.spoke("eu-1")?.client()?;
    let mut limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    tenant.until_folded(&limits, |_, summary| summary.enforced == 1).await?;

    let mut edited = downstream(&limits);
    edited["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(7);
    apply(&spoke, &edited).await?;
    limits["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(20);
    tenant.apply(&limits).await?;
    let (entries, _) = tenant
        .until_folded(&limits, |entries, _| entries.iter().any(|entry| entry.message.is_some()))
        .await?;
    ensure!(!entries[0].applied && entries[0].conditions.is_empty(), "{entries:?}");
    until_copied(&spoke, &limits, |copy| copy.data["spec"]["limits"]["all"]["rates"][0]["limit"] == 7)
        .await?;

    tenant.parameters(&json!({"conflicts": "overwrite", "policiesToSync": [rate_limit_policies()]})).await?;
    until_copied(&spoke, &limits, |copy| copy.data["spec"]["limits"]["all"]["rates"][0]["limit"] == 20)
        .await?;
    tenant.until_folded(&limits, |_, summary| summary.enforced == 1).await?;
    Ok(())
}

#[tokio::test]
async fn labels_and_annotations_removed_on_the_hub_leave_the_spoke() -> Result<()> {
    let (tenant, fleet) = tenant("sheds", &["eu-1"]).await?;
    let _controller = tenant.controller().await?;
    let spoke = fleet.spoke("eu-1")?.client()?;
    let mut limits = rate_limit_policy(tenant.name(), "limits", "web");
    limits["metadata"]["labels"] = json!({"team": "shop", "tier": "gold"});
    limits["metadata"]["annotations"] = json!({"example.com/note": "hello"});
    tenant.apply(&limits).await?;
    let labels = |copy: &kube::api::DynamicObject| copy.metadata.labels.clone().unwrap_or_default().len();
    until_copied(&spoke, &limits, |copy| labels(copy) == 2).await?;
    limits["metadata"]["labels"] = json!({"team": "shop"});
    limits["metadata"]["annotations"] = json!({});
    tenant.apply(&limits).await?;
    let copy = until_copied(&spoke, &limits, |copy| labels(copy) == 1).await?;
    ensure!(!copy.metadata.annotations.unwrap_or_default().contains_key("example.com/note"));
    Ok(())
}
