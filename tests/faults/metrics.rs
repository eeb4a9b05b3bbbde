//! The number of metric series does not grow with the number of objects on the hub.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, ensure};
use policy_sync_testenv::fixtures::{gateway, namespace, rate_limit_policy};
use policy_sync_testenv::memory::Faultless;
use policy_sync_testenv::metrics::Metrics;
use policy_sync_testenv::tenant::rate_limit_policies;
use serde_json::json;

use crate::hub::{Hub, Running, SHOP};

const CLUSTERS: usize = 100;
const POLICIES: usize = 1_000;

/// The name and labels of every series, without the `rest_client` series.
fn series(controller: &Running) -> Result<BTreeSet<String>> {
    let metrics = Metrics::parse(controller.metrics())?;
    let all = metrics.series().iter().filter(|series| !series.name.starts_with("rest_client"));
    Ok(all.map(|series| format!("{} {:?}", series.name, series.labels)).collect())
}

#[tokio::test(start_paused = true)]
async fn number_of_series_does_not_grow_with_policies_and_clusters() -> Result<()> {
    let hub = Hub::silent(&json!({"policiesToSync": [rate_limit_policies()]})).await?;
    hub.place("all", &["eu-1", "us-1"]).await?;
    hub.apply(&gateway(SHOP, "web", SHOP, Some("all"))).await?;
    let controller = hub.controller(Faultless)?;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let at_first = series(&controller)?;
    hub.apply(&rate_limit_policy(SHOP, "limits", "web")).await?;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let few = series(&controller)?;
    let later = few.difference(&at_first).filter(|series| !series.starts_with("policy_sync_watch_up"));
    let later: Vec<&String> = later.collect();
    ensure!(later.is_empty(), "series were added after the start: {later:?}");

    // The restarted controller plans the Gateway once. Without the restart, the controller would plan the Gateway
    // again for each new policy.
    controller.terminate().await?;
    let clusters: Vec<String> = (0..CLUSTERS).map(|number| format!("c-{number}")).collect();
    for (number, cluster) in clusters.iter().enumerate() {
        hub.apply(&namespace(cluster)).await?;
        hub.locate(cluster, &format!("r-{number}")).await?;
    }
    for number in 0..POLICIES {
        let mut policy = rate_limit_policy(SHOP, &format!("limits-{number}"), "web");
        policy["metadata"]["annotations"] = match number % 10 {
            0 => json!({"kuadrant.io/cluster-selector": "(("}),
            _ => json!({"kuadrant.io/cluster-selector": format!("region=r-{}", number % CLUSTERS)}),
        };
        hub.apply(&policy).await?;
    }
    let names: Vec<&str> = clusters.iter().map(String::as_str).collect();
    hub.place("all", &names).await?;
    let controller = hub.controller(Faultless)?;
    tokio::time::sleep(Duration::from_secs(120)).await;
    let metrics = Metrics::parse(controller.metrics())?;
    let frozen = metrics.value("policy_sync_policies", &[("state", "frozen")])?;
    ensure!(frozen == 100.0 && metrics.problems("BadSelector") == frozen, "{metrics}");
    ensure!(metrics.value("policy_sync_policies", &[("state", "pending")])? == 901.0, "{metrics}");
    ensure!(metrics.sum("policy_sync_clusters", &[]) == 100.0, "{metrics}");
    let many = series(&controller)?;
    let more: Vec<&String> = many.difference(&few).collect();
    ensure!(more.is_empty(), "additional series: {more:?}");
    Ok(())
}
