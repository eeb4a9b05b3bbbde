//! A mistake in a Placement that is corrected while works are deleted: the remaining deletes are not sent.

use std::time::Duration;

use anyhow::{Result, ensure};
use policy_sync_testenv::fixtures::{gateway, namespace};
use policy_sync_testenv::memory::{Interposer, RequestInfo, RequestOutcome};
use policy_sync_testenv::tenant::all_kinds;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::hub::{Hub, LIMIT, SHOP};

/// A number of clusters above the number of concurrent deletes.
const CLUSTERS: usize = 100;

/// Delays deletes.
struct SlowDeletes;

impl Interposer for SlowDeletes {
    fn request(&self, request: &RequestInfo) -> RequestOutcome {
        if request.verb == "delete" {
            RequestOutcome::Late(Duration::from_millis(50))
        } else {
            RequestOutcome::Served
        }
    }
}

/// The number of deletes of the Gateway's works.
fn deletes(hub: &Hub) -> usize {
    let of_gateway =
        |request: &&RequestInfo| request.verb == "delete" && request.name.starts_with("gateway-");
    hub.writes().iter().filter(of_gateway).count()
}

/// A hub with a Gateway without grace period on all `clusters`.
async fn placed(clusters: &[&str]) -> Result<Hub> {
    let hub = Hub::new(&all_kinds()).await?;
    for cluster in clusters {
        hub.apply(&namespace(cluster)).await?;
        hub.locate(cluster, "eu").await?;
    }
    hub.place("all", clusters).await?;
    let mut web = gateway(SHOP, "web", SHOP, Some("all"));
    web["metadata"]["annotations"] = json!({"kuadrant.io/grace-timeout": "0"});
    hub.apply(&web).await?;
    hub.controller(SlowDeletes)?;
    hub.settled().await?;
    ensure!(hub.works().len() == 2 * clusters.len(), "{:?}", hub.works());
    Ok(hub)
}

#[tokio::test(start_paused = true)]
async fn correcting_a_placement_stops_the_remaining_deletes() -> Result<()> {
    let names: Vec<String> = (0..CLUSTERS).map(|n| format!("c{n:03}")).collect();
    let clusters: Vec<&str> = names.iter().map(String::as_str).collect();
    let hub = placed(&clusters).await?;
    hub.place("all", &clusters[..1]).await?;
    let start = Instant::now();
    while deletes(&hub) == 0 {
        ensure!(start.elapsed() < LIMIT, "no delete was sent");
        sleep(Duration::from_millis(1)).await;
    }
    hub.place("all", &clusters).await?;
    hub.settled().await?;
    let deleted = deletes(&hub);
    ensure!(deleted < CLUSTERS / 2, "{deleted} of {CLUSTERS} works were deleted");
    ensure!(hub.works().len() == 2 * CLUSTERS, "the deleted works were not recreated");
    // If the change is intended, all works on the other clusters are deleted.
    hub.place("all", &clusters[..1]).await?;
    hub.settled().await?;
    ensure!(hub.works() == ["c000/access", "c000/gateway-web"], "{:?}", hub.works());
    Ok(())
}
