//! Dry-run creates of apps, which the published placement policy places.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use kube::Client;
use kube::api::PostParams;
use kube::core::request::Request as Requests;
use policy_sync_api::annotations::REPLICA_PREFERENCES;
use policy_sync_testenv::fixtures;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{interval, timeout};

use super::documents::DEPLOYMENTS;
use super::hub::LIMIT;

/// Interval between creates.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// An app that requires PCI certification. The published placement policy places such apps.
pub(super) fn app(namespace: &str, name: &str) -> Value {
    let mut app = fixtures::deployment(namespace, name);
    // Without the label, the app is not synced to any cluster.
    app["metadata"]["labels"] = json!({});
    app["metadata"]["annotations"] = json!({"requires-pci": "true"});
    app
}

/// Creates an app as a dry run, and returns the replica preferences that the placement policy sets.
pub(super) async fn place(hub: &Client, namespace: &str, number: usize) -> Result<String> {
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let body = serde_json::to_vec(&app(namespace, &format!("app-{number}")))?;
    let request = Requests::new(DEPLOYMENTS.within(namespace)).create(&dry, body);
    let placed: Value =
        hub.request(request.context("building a create request")?).await.context("creating an app")?;
    let preferences = placed["metadata"]["annotations"][REPLICA_PREFERENCES].as_str();
    preferences.map(str::to_owned).context("the app is not placed")
}

/// Creates apps at an interval, and returns the time when the first app is placed.
pub(super) async fn placed(hub: &Client, namespace: &'static str) -> Result<Instant> {
    let (mut apps, mut every) = (JoinSet::new(), interval(POLL_INTERVAL));
    let (mut number, mut last) = (0, None);
    let placed = async {
        loop {
            tokio::select! {
                _ = every.tick() => {
                    let hub = hub.clone();
                    apps.spawn(async move { place(&hub, namespace, number).await.map(|_| Instant::now()) });
                    number += 1;
                }
                Some(answer) = apps.join_next() => match answer.context("a request panicked")? {
                    Ok(at) => return Ok(at),
                    Err(error) => last = Some(error),
                },
            }
        }
    };
    match timeout(LIMIT, placed).await {
        Ok(placed) => placed,
        Err(_) => bail!("no app is placed: {last:?}"),
    }
}
