//! Log lines for failed requests.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use policy_sync_hub::telemetry::logs;
use policy_sync_testenv::fixtures::gateway;
use policy_sync_testenv::memory::{Interposer, RequestInfo, RequestOutcome};
use policy_sync_testenv::tenant::all_kinds;
use serde_json::Value;

use crate::hub::{Hub, SHOP};

/// Resets the connection of each request that creates a work.
struct ResetCreates;

impl Interposer for ResetCreates {
    fn request(&self, request: &RequestInfo) -> RequestOutcome {
        let breaks = request.verb == "create" && request.resource == "manifestworks";
        if breaks { RequestOutcome::Reset } else { RequestOutcome::Served }
    }
}

#[tokio::test(start_paused = true)]
async fn failed_reconcile_is_logged_with_its_causes() -> Result<()> {
    // `tracing` caches for each callsite whether it is enabled. If the process has only one dispatcher, the first
    // thread that logs decides for all threads, and it may belong to another test. With two dispatchers, both are
    // queried.
    let _other = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::new());
    let log = tempfile::NamedTempFile::new()?;
    let _logging = tracing::subscriber::set_default(logs::json(
        Arc::new(log.reopen()?),
        logs::default_filter(tracing::Level::INFO),
    ));
    let hub = Hub::new(&all_kinds()).await?;
    hub.place("all", &["eu-1"]).await?;
    hub.apply(&gateway(SHOP, "web", SHOP, Some("all"))).await?;
    hub.controller(ResetCreates)?;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let text = std::fs::read_to_string(log.path())?;
    let lines = text.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
    let failed = lines
        .iter()
        .find(|line| line["message"] == "reconcile failed, retrying")
        .context("the log has no line for the failed reconcile")?;
    let error = failed["error"].as_str().context("the log line has no error")?;
    ensure!(error.starts_with("cannot create ManifestWork eu-1/"), "{failed}");
    ensure!(error.contains(": no response: ") && error.ends_with("connection reset"), "{failed}");
    Ok(())
}
