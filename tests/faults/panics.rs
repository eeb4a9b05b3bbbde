//! A panic in any task ends the whole process.

use std::time::Duration;

use anyhow::{Result, ensure};
use policy_sync_testenv::fixtures::{gateway, rate_limit_policy};
use policy_sync_testenv::memory::{Interposer, RequestInfo, RequestOutcome};
use policy_sync_testenv::metrics::Metrics;
use policy_sync_testenv::tenant::all_kinds;
use serde_json::json;

use crate::hub::{Hub, SHOP};

/// Time limit for the end of the controller. Within this time, its outstanding requests complete.
const SOON: Duration = Duration::from_secs(5);

/// Panics in the task that sends a request with this verb and resource.
struct Panics(&'static str, &'static str);

impl Interposer for Panics {
    fn request(&self, request: &RequestInfo) -> RequestOutcome {
        assert!(request.verb != self.0 || request.resource != self.1, "injected panic: {request}");
        RequestOutcome::Served
    }
}

#[tokio::test(start_paused = true)]
async fn panic_in_a_task_is_counted_and_ends_the_process() -> Result<()> {
    for (verb, resource, task) in [
        ("list", "placements", "watch"),
        ("list", "ratelimitpolicies", "watch"),
        ("list", "customresourcedefinitions", "watch"),
        ("create", "manifestworks", "key"),
        ("patch", "ratelimitpolicies", "key"),
        ("create", "events", "events"),
        ("get", "ratelimitpolicies", "causes"),
        ("create", "leases", "election"),
    ] {
        let hub = Hub::new(&all_kinds()).await?;
        hub.place("all", &["eu-1"]).await?;
        hub.apply(&gateway(SHOP, "web", SHOP, Some("all"))).await?;
        let limits = rate_limit_policy(SHOP, "limits", "web");
        hub.apply(&limits).await?;
        let mut bad = rate_limit_policy(SHOP, "bad", "web");
        bad["metadata"]["annotations"] = json!({"kuadrant.io/cluster-selector": "(("});
        hub.apply(&bad).await?;
        let controller = hub.elected(Panics(verb, resource))?;
        let served = controller.served();
        if task == "causes" {
            tokio::time::sleep(SOON * 2).await;
            hub.delete(&limits).await?;
        }
        let ended = tokio::time::timeout(SOON * 2, controller.ended()).await;
        ensure!(matches!(ended, Ok(Err(_))), "{verb} {resource}: the controller ended with {ended:?}");
        let metrics = Metrics::parse(served.metrics())?;
        let counted = metrics.value("policy_sync_panics_total", &[("task", task)])?;
        ensure!(counted > 0.0, "{verb} {resource}: {metrics}");
        let before = hub.server.requests().len();
        tokio::time::sleep(SOON * 12).await;
        let after = hub.server.requests().split_off(before);
        let goes_on = after.iter().find(|request| request.user == crate::hub::USER && request.is_write());
        ensure!(goes_on.is_none(), "{verb} {resource}: the controller still sent {goes_on:?}");
    }
    Ok(())
}
