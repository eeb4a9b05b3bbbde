//! A deleted GatewayClass: if it is recreated within a minute, works are unchanged; otherwise, the works are withdrawn.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use policy_sync_sync::CLASS_DELETION_DELAY;
use policy_sync_testenv::fixtures::{gateway, gateway_class, rate_limit_policy};
use policy_sync_testenv::memory::Faultless;
use policy_sync_testenv::tenant::all_kinds;
use serde_json::Value;
use tokio::time::sleep;

use crate::hub::{CONTROLLER, Hub, SHOP};

const WORKS: [&str; 3] = ["eu-1/access", "eu-1/gateway-web", "eu-1/ratelimitpolicy-limits"];

fn class(controller: &str) -> Value {
    gateway_class(SHOP, controller, Some((SHOP, "params")))
}

async fn settled() -> Result<Hub> {
    let hub = Hub::new(&all_kinds()).await?;
    hub.place("all", &["eu-1"]).await?;
    hub.apply(&gateway(SHOP, "web", SHOP, Some("all"))).await?;
    hub.apply(&rate_limit_policy(SHOP, "limits", "web")).await?;
    hub.controller(Faultless)?;
    hub.settled().await?;
    ensure!(hub.works() == WORKS, "{:?}", hub.works());
    Ok(hub)
}

/// The conditions of the Gateway: `<type> <status>`.
fn conditions(hub: &Hub) -> Result<Vec<String>> {
    let mut objects = hub.server.objects().into_iter();
    let (_, web) = objects
        .find(|(name, _)| name.ends_with(&format!("gateways.gateway.networking.k8s.io {SHOP}/web")))
        .context("the Gateway does not exist")?;
    let conditions = web["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let text = |condition: &Value, field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    Ok(conditions
        .iter()
        .map(|condition| format!("{} {}", text(condition, "type"), text(condition, "status")))
        .collect())
}

#[tokio::test(start_paused = true)]
async fn replaced_class_causes_no_write_of_a_work() -> Result<()> {
    let hub = settled().await?;
    let before = hub.writes().len();
    hub.delete(&class(CONTROLLER)).await?;
    hub.apply(&class(CONTROLLER)).await?;
    hub.settled().await?;
    let writes = &hub.writes()[before..];
    ensure!(writes.iter().all(|request| request.resource == "gatewayclasses"), "{writes:?}");
    ensure!(hub.works() == WORKS, "{:?}", hub.works());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn deleted_class_is_withdrawn_after_a_minute() -> Result<()> {
    let hub = settled().await?;
    hub.delete(&class(CONTROLLER)).await?;
    sleep(CLASS_DELETION_DELAY - Duration::from_secs(1)).await;
    ensure!(hub.works() == WORKS, "{:?}", hub.works());
    ensure!(conditions(&hub)? == ["Accepted Unknown", "Programmed False"], "{:?}", conditions(&hub)?);
    hub.settled().await?;
    ensure!(hub.works().is_empty(), "{:?}", hub.works());
    ensure!(conditions(&hub)? == ["Programmed Unknown"], "{:?}", conditions(&hub)?);
    hub.apply(&class(CONTROLLER)).await?;
    hub.settled().await?;
    ensure!(hub.works() == WORKS, "{:?}", hub.works());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn class_recreated_for_another_controller_is_withdrawn_at_once() -> Result<()> {
    let hub = settled().await?;
    hub.delete(&class(CONTROLLER)).await?;
    hub.apply(&class("example.com/other")).await?;
    sleep(CLASS_DELETION_DELAY / 2).await;
    ensure!(hub.works().is_empty(), "{:?}", hub.works());
    hub.settled().await?;
    ensure!(conditions(&hub)?.is_empty(), "{:?}", conditions(&hub)?);
    Ok(())
}
