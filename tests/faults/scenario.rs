//! What users do: create, change, place, unplace, retarget, select, change parameters, delete.

use std::time::Duration;

use anyhow::Result;
use policy_sync_testenv::fixtures::{auth_policy, gateway, rate_limit_policy, timeout_policy};
use policy_sync_testenv::world::{rate_limit_policies, timeout_policies};
use serde_json::json;
use tokio::time::sleep;

use crate::hub::{Hub, SHOP};

/// Between two steps: longer than the controller takes without faults, and shorter than many a fault lasts, so that
/// what follows happens while it does.
const PAUSE: Duration = Duration::from_secs(12);

/// What is there before the controller starts.
pub(crate) async fn prepare(hub: &Hub) -> Result<()> {
    hub.place("all", &["eu-1", "us-1"]).await?;
    hub.place("edge", &["us-1"]).await?;
    hub.apply(&gateway(SHOP, "web", SHOP, Some("all"))).await?;
    hub.apply(&gateway(SHOP, "api", SHOP, Some("edge"))).await
}

/// What happens while it runs.
pub(crate) async fn play(hub: &Hub) -> Result<()> {
    sleep(PAUSE).await;
    let mut limits = rate_limit_policy(SHOP, "limits", "web");
    let mut timeouts = timeout_policy(SHOP, "timeouts", &["web", "api"]);
    hub.apply(&limits).await?;
    hub.apply(&timeouts).await?;
    hub.apply(&auth_policy(SHOP, "auth", "api")).await?;
    sleep(PAUSE).await;

    limits["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(20);
    hub.apply(&limits).await?;
    sleep(PAUSE).await;

    hub.place("all", &["eu-1"]).await?;
    sleep(PAUSE).await;

    hub.place("all", &["eu-1", "us-1"]).await?;
    sleep(PAUSE).await;

    limits["spec"]["targetRef"]["name"] = json!("api");
    hub.apply(&limits).await?;
    sleep(PAUSE).await;

    timeouts["metadata"]["annotations"] = json!({"kuadrant.io/cluster-selector": "region=eu"});
    hub.apply(&timeouts).await?;
    sleep(PAUSE).await;

    // AuthPolicies are synced no more, and what comes with the others is another value.
    let mut limits_kind = rate_limit_policies();
    limits_kind["statusFields"] = json!([{"name": "generation", "path": ".status.observedGeneration"}]);
    hub.parameters(&json!({"policiesToSync": [limits_kind, timeout_policies()]})).await?;
    sleep(PAUSE).await;

    timeouts["metadata"]["annotations"] = json!({});
    hub.apply(&timeouts).await?;
    hub.delete(&limits).await?;
    sleep(PAUSE).await;

    hub.delete(&gateway(SHOP, "api", SHOP, Some("edge"))).await?;
    sleep(PAUSE).await;
    Ok(())
}
