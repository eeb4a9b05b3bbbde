//! Invalid placements and grace periods of Gateways.

use anyhow::{Context, Result, ensure};
use policy_sync_testenv::apply::apply_with_status;
use policy_sync_testenv::fixtures::{gateway, namespace, placement_decision, rate_limit_policy};
use policy_sync_testenv::tenant::{LIMIT, Tenant};
use policy_sync_testenv::wait;
use serde_json::{Value, json};

use super::page::{Row, holds};
use super::{syncs_changes, until_event, until_gateway_message};
use crate::tenant;

/// A placed Gateway of the tenant's class with this grace period.
fn lasting(tenant: &Tenant<'_>, name: &str, grace: &str) -> Value {
    let mut gateway = gateway(tenant.name(), name, tenant.name(), Some("all"));
    gateway["metadata"]["annotations"]["kuadrant.io/grace-timeout"] = json!(grace);
    gateway
}

/// Waits until the Gateway's `Programmed` is false with reason `NotPlaced`, and returns the message.
async fn until_not_placed(tenant: &Tenant<'_>, gateway: &Value) -> Result<String> {
    wait::until(&format!("{} is not placed", gateway["metadata"]["name"]), LIMIT, || async {
        let found = serde_json::to_value(tenant.get(gateway).await?)?;
        let mut conditions = found["status"]["conditions"].as_array().into_iter().flatten();
        let programmed =
            conditions.find(|found| found["type"] == "Programmed").context("no condition Programmed")?;
        ensure!(programmed["status"] == "False" && programmed["reason"] == "NotPlaced", "{programmed}");
        Ok(programmed["message"].as_str().unwrap_or_default().to_owned())
    })
    .await
}

#[tokio::test]
async fn messages_for_invalid_gateways() -> Result<()> {
    let tenant = tenant("owners", &["eu-1"]).await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    tenant.apply(&namespace("owners-of-others")).await?;
    apply_with_status(tenant.client(), &placement_decision("owners-of-others", "theirs", 1, &["eu-1"]))
        .await?;
    tenant.place("nowhere", &[]).await?;
    let _controller = tenant.controller().await?;
    let mut rows = Vec::new();

    let place = "Event on the Gateway, message of its `Accepted`; the grace period is 600 s";
    for (input, name, grace) in [
        ("a grace period with a unit", "unit", "10m"),
        ("a negative grace period", "negative", "-1"),
        ("a grace period with a fraction", "fraction", "1.5"),
        ("an empty grace period", "empty", ""),
        ("a grace period of more than a year", "years", "31536001"),
    ] {
        let gateway = lasting(&tenant, name, grace);
        tenant.apply(&gateway).await?;
        let (reason, message) = until_event(&tenant, &gateway, "grace-timeout").await?;
        until_gateway_message(&tenant, &gateway, &message).await?;
        // The Gateway is synced in spite of the invalid grace period.
        tenant.until_work("eu-1", &format!("gateway-{name}"), |_| true).await?;
        rows.push(Row { input, place, reason, message });
    }

    for (input, name, placement) in [
        ("no label with a Placement", "unlabelled", None),
        ("an empty label for the Placement", "unnamed", Some("")),
        ("a Placement that does not exist", "missing", Some("none")),
        ("a Placement name in the wrong case", "capital", Some("All")),
        ("a Placement in another namespace", "theirs", Some("theirs")),
        ("a Placement that selects no cluster", "nowhere", Some("nowhere")),
    ] {
        let gateway = gateway(tenant.name(), name, tenant.name(), placement);
        tenant.apply(&gateway).await?;
        let message = until_not_placed(&tenant, &gateway).await?;
        let (place, reason) = ("Gateway, `Programmed=False`", "NotPlaced".to_owned());
        rows.push(Row { input, place, reason, message });
    }
    syncs_changes(&tenant, &limits).await?;
    holds("gateways", &rows)
}
