//! Reports that depend only on the passing of time, on an otherwise idle hub.

use std::time::Duration;

use anyhow::{Result, ensure};
use policy_sync_testenv::fixtures::{gateway, rate_limit_policy};
use policy_sync_testenv::memory::{Faultless, Interposer, RequestInfo, RequestOutcome};
use policy_sync_testenv::tenant::rate_limit_policies;
use serde_json::json;

use crate::hub::{Hub, SHOP};

/// A duration that is longer than the interval of any periodic check.
const MINUTE: Duration = Duration::from_secs(60);
const GATEWAY: &str = "gateways.gateway.networking.k8s.io shop/web";

/// A Gateway and a policy on `eu-1`, whose agent never reports.
async fn unanswered(wait: u64) -> Result<Hub> {
    let hub = empty(wait).await?;
    fill(&hub).await?;
    Ok(hub)
}

async fn empty(wait: u64) -> Result<Hub> {
    let parameters = json!({
        "policiesToSync": [rate_limit_policies()], "policyWaitSeconds": wait, "policyWaitAction": "hold",
    });
    let hub = Hub::silent(&parameters).await?;
    hub.place("all", &["eu-1"]).await?;
    Ok(hub)
}

async fn fill(hub: &Hub) -> Result<()> {
    hub.apply(&rate_limit_policy(SHOP, "limits", "web")).await?;
    hub.apply(&gateway(SHOP, "web", SHOP, Some("all"))).await
}

fn is_reported(hub: &Hub, reason: &str) -> bool {
    hub.events().iter().any(|event| event.starts_with(&format!("{reason}: ")))
}

/// The reason of the Gateway's condition `Programmed`.
fn programmed(hub: &Hub) -> String {
    let gateway = hub.object(GATEWAY);
    let conditions = gateway["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let programmed =
        conditions.into_iter().find(|condition| condition["type"] == "Programmed").unwrap_or_default();
    programmed["reason"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(start_paused = true)]
async fn held_gateway_is_reported_when_its_wait_is_over() -> Result<()> {
    for wait in [0, 10, 120] {
        let hub = empty(wait).await?;
        let controller = hub.controller(Faultless)?;
        tokio::time::sleep(MINUTE).await;
        fill(&hub).await?;
        let counts = |_: &Hub| {
            controller
                .metrics()
                .contains(r#"policy_sync_problems{category="PoliciesPending",freezes="false"} 1"#)
        };
        let (wait, soon) = (Duration::from_secs(wait), Duration::from_secs(5));
        tokio::time::sleep(wait.saturating_sub(soon)).await;
        ensure!(wait.is_zero() || !is_reported(&hub, "PoliciesPending"), "{:?}", hub.events());
        hub.until(soon * 2, |hub| is_reported(hub, "PoliciesPending")).await?;
        hub.until(soon, counts).await?;
        hub.until(soon, |hub| programmed(hub) == "PoliciesPending").await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn stuck_policy_is_reported_after_five_minutes() -> Result<()> {
    let hub = unanswered(10).await?;
    hub.controller(Faultless)?;
    tokio::time::sleep(MINUTE * 5 - Duration::from_secs(5)).await;
    ensure!(!is_reported(&hub, "Stuck"), "{:?}", hub.events());
    hub.until(Duration::from_secs(10), |hub| is_reported(hub, "Stuck")).await.map(drop)
}

/// Never responds to lists of RateLimitPolicies.
struct HangingLists;

impl Interposer for HangingLists {
    fn request(&self, request: &RequestInfo) -> RequestOutcome {
        let hangs = request.verb == "list" && request.resource == "ratelimitpolicies";
        if hangs { RequestOutcome::Lost } else { RequestOutcome::Served }
    }
}

#[tokio::test(start_paused = true)]
async fn gateway_that_waits_for_a_hanging_list_is_reported() -> Result<()> {
    let hub = unanswered(10).await?;
    let controller = hub.controller(HangingLists)?;
    // The controller learns of the failure only when the list times out, and nothing else happens.
    hub.until(Duration::from_secs(20), |hub| is_reported(hub, "PoliciesPending")).await?;
    hub.until(Duration::from_secs(5), |hub| programmed(hub) == "PoliciesPending").await?;
    let metrics = controller.metrics();
    ensure!(
        metrics.contains(r#"policy_sync_problems{category="PoliciesPending",freezes="false"} 1"#),
        "{metrics}"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn revoked_patch_permission_is_reported_within_a_minute() -> Result<()> {
    let hub = unanswered(10).await?;
    hub.controller(Faultless)?;
    let resolved = |hub: &Hub| {
        let class = hub.object("gatewayclasses.gateway.networking.k8s.io /shop");
        let conditions = class["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let condition = conditions
            .into_iter()
            .find(|condition| condition["type"] == "PoliciesResolved")
            .unwrap_or_default();
        format!(
            "{}: {}",
            condition["reason"].as_str().unwrap_or_default(),
            condition["message"].as_str().unwrap_or_default()
        )
    };
    tokio::time::sleep(MINUTE * 5).await;
    assert_eq!(resolved(&hub), "Resolved: 1 kinds are synced");
    hub.server.deny("patch", "kuadrant.io", "ratelimitpolicies");
    hub.until(MINUTE, |hub| resolved(hub).starts_with("Forbidden: ")).await?;
    let words = "kuadrant.io/v1 ratelimitpolicies: the controller has no right to patch it, so it cannot write annotations";
    assert_eq!(resolved(&hub), format!("Forbidden: {words}"));
    ensure!(hub.works().iter().any(|work| work.contains("limits")), "{:?}", hub.works());
    Ok(())
}
