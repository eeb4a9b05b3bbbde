//! Writes that the hub rejects permanently: they are reported, and do not block other objects forever.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use policy_sync_testenv::fixtures::{gateway, rate_limit_policy};
use policy_sync_testenv::memory::{EventOutcome, Interposer, RequestInfo, RequestOutcome};
use policy_sync_testenv::metrics::Metrics;
use policy_sync_testenv::tenant::rate_limit_policies;
use serde_json::{Value, json};

use crate::hub::{Hub, SHOP};

/// How long a Gateway waits for its policies.
const WAIT: Duration = Duration::from_secs(10);
const GATEWAY: &str = "gateways.gateway.networking.k8s.io shop/web";

/// Rejects requests with this verb for objects of `resource` whose name begins with `name`.
#[derive(Clone, Copy)]
struct RejectRequests {
    verb: &'static str,
    resource: &'static str,
    name: &'static str,
    code: u16,
}

impl RejectRequests {
    fn work(verb: &'static str, name: &'static str, code: u16) -> Self {
        Self { verb, resource: "manifestworks", name, code }
    }
}

impl Interposer for RejectRequests {
    fn request(&self, request: &RequestInfo) -> RequestOutcome {
        let is_meant = request.verb == self.verb
            && request.resource == self.resource
            && request.name.starts_with(self.name);
        if is_meant {
            RequestOutcome::Refused { code: self.code, retry_after: None }
        } else {
            RequestOutcome::Served
        }
    }
}

fn parameters(action: &str) -> Value {
    json!({
        "policiesToSync": [rate_limit_policies()],
        "policyWaitSeconds": WAIT.as_secs(),
        "policyWaitAction": action,
    })
}

/// A hub with the policy `limits` for the Gateway `web` on `eu-1`.
async fn shop(action: &str) -> Result<Hub> {
    let hub = Hub::new(&parameters(action)).await?;
    hub.place("all", &["eu-1"]).await?;
    hub.apply(&rate_limit_policy(SHOP, "limits", "web")).await?;
    hub.apply(&gateway(SHOP, "web", SHOP, Some("all"))).await?;
    Ok(hub)
}

fn refusals(hub: &Hub) -> Vec<String> {
    hub.events().into_iter().filter(|event| event.starts_with("WriteRefused")).collect()
}

fn has_gateway(hub: &Hub) -> bool {
    hub.works().iter().any(|work| work == "eu-1/gateway-web")
}

#[tokio::test(start_paused = true)]
async fn rejected_create_is_reported() -> Result<()> {
    let hub = shop("hold").await?;
    let controller = hub.controller(RejectRequests::work("create", "ratelimitpolicy-", 422))?;
    hub.until(Duration::from_secs(30), |hub| !refusals(hub).is_empty()).await?;
    let refusal = refusals(&hub).remove(0);
    ensure!(refusal.contains("cannot create ManifestWork eu-1/ratelimitpolicy-limits-"), "{refusal}");
    ensure!(refusal.ends_with("injected fault: Invalid (422)"), "{refusal}");
    let metrics = Metrics::parse(controller.metrics())?;
    let labels = [("controller", "policy"), ("result", "error")];
    ensure!(metrics.value("controller_runtime_reconcile_total", &labels)? > 0.0, "{metrics}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn rejected_patch_is_reported() -> Result<()> {
    for (refuses, words) in [
        (
            RejectRequests::work("patch", "ratelimitpolicy-", 422),
            "cannot patch ManifestWork eu-1/ratelimitpolicy-",
        ),
        (
            RejectRequests { verb: "patch", resource: "ratelimitpolicies", name: "limits", code: 422 },
            "cannot annotate ratelimitpolicies.kuadrant.io/shop/limits",
        ),
    ] {
        let hub = shop("hold").await?;
        hub.controller(refuses)?;
        hub.until(Duration::from_secs(60), has_gateway).await?;
        let mut changed = rate_limit_policy(SHOP, "limits", "web");
        changed["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(77);
        hub.apply(&changed).await?;
        hub.until(Duration::from_secs(30), |hub| !refusals(hub).is_empty()).await?;
        let refusal = refusals(&hub).remove(0);
        ensure!(refusal.contains(words) && refusal.ends_with("injected fault: Invalid (422)"), "{refusal}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn gateway_is_created_after_the_wait_although_its_policies_are_rejected() -> Result<()> {
    for code in [403, 422, 500] {
        let hub = shop("serve").await?;
        hub.controller(RejectRequests::work("create", "ratelimitpolicy-", code))?;
        let took = hub.until(Duration::from_secs(60), has_gateway).await?;
        ensure!(took >= WAIT && took < WAIT * 2, "{code}: the Gateway was created after {took:?}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn held_gateway_reports_pending_policies_whose_works_are_rejected() -> Result<()> {
    let hub = shop("hold").await?;
    hub.controller(RejectRequests::work("create", "ratelimitpolicy-", 422))?;
    hub.until(Duration::from_secs(60), |hub| {
        let conditions = &hub.object(GATEWAY)["status"]["conditions"];
        conditions.as_array().into_iter().flatten().any(|condition| condition["reason"] == "PoliciesPending")
    })
    .await?;
    hub.until(Duration::from_secs(5), |hub| {
        hub.events().iter().any(|event| event.starts_with("PoliciesPending"))
    })
    .await?;
    ensure!(!has_gateway(&hub));
    Ok(())
}

/// Delays events of works while set.
#[derive(Clone, Default)]
struct DelayEvents(Arc<AtomicBool>);

impl Interposer for DelayEvents {
    fn event(&self, watch: &RequestInfo, _: &str) -> EventOutcome {
        let lags = watch.resource == "manifestworks" && self.0.load(Ordering::Relaxed);
        if lags { EventOutcome::Late(Duration::from_secs(3)) } else { EventOutcome::Sent }
    }
}

#[tokio::test(start_paused = true)]
async fn conflict_with_a_stale_state_is_not_reported_as_rejected() -> Result<()> {
    let hub = shop("hold").await?;
    let lags = DelayEvents::default();
    hub.controller(lags.clone())?;
    hub.settled().await?;
    lags.0.store(true, Ordering::Relaxed);
    let works = hub.server.objects().into_values().filter(|object| object["kind"] == "ManifestWork");
    for work in works.filter(|work| work["metadata"]["name"].to_string().contains("limits")) {
        let name = json!({"name": work["metadata"]["name"], "namespace": work["metadata"]["namespace"]});
        let mut edited = json!({"apiVersion": work["apiVersion"], "kind": "ManifestWork", "metadata": name});
        edited["spec"] = work["spec"].clone();
        edited["spec"]["deleteOption"] = json!({"propagationPolicy": "Orphan"});
        hub.apply(&edited).await?;
    }
    let mut changed = rate_limit_policy(SHOP, "limits", "web");
    changed["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(77);
    hub.apply(&changed).await?;
    tokio::time::sleep(Duration::from_secs(10)).await;
    lags.0.store(false, Ordering::Relaxed);
    hub.settled().await?;
    let stale = hub.server.count(|request| request.verb == "patch" && request.code == 422);
    ensure!(stale > 0, "no patch was rejected as stale");
    ensure!(refusals(&hub).is_empty(), "{:?}", refusals(&hub));
    Ok(())
}
