//! What users do: create, change, place, unplace, retarget, select, label clusters, update definitions, change parameters,
//! delete.

use std::time::Duration;

use anyhow::Result;
use policy_sync_testenv::fixtures::{auth_policy, gateway, rate_limit_policy, timeout_policy};
use policy_sync_testenv::world::{rate_limit_policies, timeout_policies};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::hub::{Hub, SHOP};
use crate::oracle::State;

/// Between two steps: longer than the controller takes without faults, and shorter than many a fault lasts, so that
/// what follows happens while it does.
const PAUSE: Duration = Duration::from_secs(12);

/// What is there before the controller starts.
pub(crate) async fn prepare(hub: &Hub) -> Result<()> {
    hub.works_can_be_scraped(false).await?;
    hub.place("all", &["eu-1", "us-1"]).await?;
    hub.place("edge", &["us-1"]).await?;
    hub.apply(&gateway(SHOP, "web", SHOP, Some("all"))).await?;
    hub.apply(&gateway(SHOP, "api", SHOP, Some("edge"))).await
}

/// How it was at the end of a step, and when that was.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) at: Instant,
    pub(crate) state: State,
}

/// What happens while it runs; returns how each step ended.
pub(crate) async fn play(hub: &Hub) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    let mut pause = async || {
        sleep(PAUSE).await;
        steps.push(Step { at: Instant::now(), state: State::of(hub) });
    };
    pause().await;

    hub.works_can_be_scraped(true).await?;
    pause().await;

    let mut limits = rate_limit_policy(SHOP, "limits", "web");
    let mut timeouts = timeout_policy(SHOP, "timeouts", &["web", "api"]);
    hub.apply(&limits).await?;
    hub.apply(&timeouts).await?;
    hub.apply(&auth_policy(SHOP, "auth", "api")).await?;
    pause().await;

    limits["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(20);
    hub.apply(&limits).await?;
    pause().await;

    hub.place("all", &["eu-1"]).await?;
    pause().await;

    hub.place("all", &["eu-1", "us-1"]).await?;
    pause().await;

    limits["spec"]["targetRef"]["name"] = json!("api");
    hub.apply(&limits).await?;
    pause().await;

    timeouts["metadata"]["annotations"] = json!({"kuadrant.io/cluster-selector": "region=eu"});
    hub.apply(&timeouts).await?;
    pause().await;

    hub.locate("us-1", "eu").await?;
    pause().await;

    hub.locate("us-1", "us").await?;
    pause().await;

    // AuthPolicies are synced no more, and what comes with the others is another value.
    let mut limits_kind = rate_limit_policies();
    limits_kind["statusFields"] = json!([{"name": "generation", "path": ".status.observedGeneration"}]);
    hub.parameters(&json!({"policiesToSync": [limits_kind, timeout_policies()]})).await?;
    pause().await;

    timeouts["metadata"]["annotations"] = json!({});
    hub.apply(&timeouts).await?;
    hub.delete(&limits).await?;
    pause().await;

    hub.delete(&gateway(SHOP, "api", SHOP, Some("edge"))).await?;
    pause().await;
    Ok(steps)
}
