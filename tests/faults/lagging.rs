//! The watch of one kind lags behind all other watches: nothing that is still needed may be deleted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use policy_sync_testenv::fixtures::{gateway, gateway_class, managed_cluster, rate_limit_policy};
use policy_sync_testenv::memory::{EventOutcome, Interposer, RequestInfo};
use policy_sync_testenv::tenant::all_kinds;
use serde_json::json;
use tokio::time::sleep;

use crate::hub::{CONTROLLER, Hub, SHOP};

/// The delay of events on a lagging watch.
const LAG: Duration = Duration::from_secs(40);

/// Delays the next event of one kind's watch once `lags` is set.
#[derive(Clone)]
struct DelayedWatch {
    resource: &'static str,
    lags: Arc<AtomicBool>,
}

impl Interposer for DelayedWatch {
    fn event(&self, watch: &RequestInfo, _: &str) -> EventOutcome {
        // Events that arrive during the delay are held back as well, and then delivered together.
        if watch.resource == self.resource && self.lags.swap(false, Ordering::Relaxed) {
            return EventOutcome::Late(LAG);
        }
        EventOutcome::Sent
    }
}

/// A settled hub with the Gateway `web` and its policy `limits` on `eu-1`. The watch of `resource` delays its next
/// event, and then clears the returned flag.
async fn synced(resource: &'static str) -> Result<(Hub, Arc<AtomicBool>)> {
    let hub = Hub::new(&all_kinds()).await?;
    hub.place("all", &["eu-1"]).await?;
    hub.apply(&gateway(SHOP, "web", SHOP, Some("all"))).await?;
    hub.apply(&rate_limit_policy(SHOP, "limits", "web")).await?;
    let lags = Arc::new(AtomicBool::new(false));
    hub.controller(DelayedWatch { resource, lags: lags.clone() })?;
    hub.settled().await?;
    ensure!(hub.works() == ["eu-1/access", "eu-1/gateway-web", "eu-1/ratelimitpolicy-limits"]);
    lags.store(true, Ordering::Relaxed);
    Ok((hub, lags))
}

/// The controller's delete requests, successful or not.
fn deletes(hub: &Hub) -> Vec<String> {
    hub.writes().iter().filter(|request| request.verb == "delete").map(ToString::to_string).collect()
}

/// Checks that nothing is deleted during the lag or after it.
async fn deletes_nothing(hub: &Hub, lags: &AtomicBool) -> Result<()> {
    sleep(LAG / 2).await;
    ensure!(!lags.load(Ordering::Relaxed), "no event was delayed");
    ensure!(deletes(hub).is_empty(), "the controller sent deletes during the lag: {:?}", deletes(hub));
    hub.settled().await?;
    ensure!(deletes(hub).is_empty(), "the controller sent deletes after the lag: {:?}", deletes(hub));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn policy_retargeted_to_a_gateway_with_a_lagging_watch_is_kept() -> Result<()> {
    let (hub, lags) = synced("gateways").await?;
    hub.apply(&gateway(SHOP, "api", SHOP, Some("all"))).await?;
    hub.apply(&rate_limit_policy(SHOP, "limits", "api")).await?;
    // In the mirror, the policy targets no known Gateway; on the hub it targets a placed Gateway.
    deletes_nothing(&hub, &lags).await?;
    let expected = ["eu-1/access", "eu-1/gateway-api", "eu-1/gateway-web", "eu-1/ratelimitpolicy-limits"];
    ensure!(hub.works() == expected, "{:?}", hub.works());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn policy_that_selects_a_label_with_a_lagging_watch_is_kept() -> Result<()> {
    let (hub, lags) = synced("managedclusters").await?;
    let labels = [("region".to_owned(), "eu".to_owned()), ("tier".to_owned(), "edge".to_owned())].into();
    hub.apply(&managed_cluster("eu-1", &labels)).await?;
    let mut limits = rate_limit_policy(SHOP, "limits", "web");
    limits["metadata"]["annotations"] = json!({"kuadrant.io/cluster-selector": "tier=edge"});
    hub.apply(&limits).await?;
    deletes_nothing(&hub, &lags).await?;
    ensure!(hub.works() == ["eu-1/access", "eu-1/gateway-web", "eu-1/ratelimitpolicy-limits"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn gateway_and_policy_are_kept_while_the_watch_of_placements_lags() -> Result<()> {
    for resource in ["placements", "placementdecisions"] {
        let (hub, lags) = synced(resource).await?;
        hub.place("edge", &["eu-1"]).await?;
        hub.apply(&gateway(SHOP, "web", SHOP, Some("edge"))).await?;
        deletes_nothing(&hub, &lags).await?;
        ensure!(hub.works() == ["eu-1/access", "eu-1/gateway-web", "eu-1/ratelimitpolicy-limits"]);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn gateway_and_policy_are_kept_while_the_watch_of_classes_lags() -> Result<()> {
    let (hub, lags) = synced("gatewayclasses").await?;
    hub.apply(&gateway_class("other", CONTROLLER, Some((SHOP, "params")))).await?;
    hub.apply(&gateway(SHOP, "web", "other", Some("all"))).await?;
    deletes_nothing(&hub, &lags).await?;
    ensure!(hub.works() == ["eu-1/access", "eu-1/gateway-web", "eu-1/ratelimitpolicy-limits"]);
    Ok(())
}
