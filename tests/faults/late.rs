//! Requests that arrive after later requests, and changes that happen while a response is outstanding.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use parking_lot::Mutex;
use policy_sync_testenv::fixtures::{gateway, rate_limit_policy};
use policy_sync_testenv::memory::{Interposer, RequestInfo, RequestOutcome};
use policy_sync_testenv::tenant::all_kinds;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::hub::{Hub, SHOP, USER};

const WORK: &str = "eu-1/ratelimitpolicy-limits";
/// A delay that is longer than the request timeout.
const LATE: Duration = Duration::from_secs(45);
/// By this time, the first request has timed out, and its repetition has succeeded. The first request is still in
/// transit.
const RETRIED_AFTER: Duration = Duration::from_secs(35);

/// The fault of the next request with this verb and resource.
struct RequestFault {
    verb: &'static str,
    resource: &'static str,
    outcome: RequestOutcome,
}

/// The fault of the next matching request; `None` if no fault is set.
#[derive(Clone, Default)]
struct NextFault(Arc<Mutex<Option<RequestFault>>>);

impl NextFault {
    fn is(&self, verb: &'static str, resource: &'static str, outcome: RequestOutcome) {
        *self.0.lock() = Some(RequestFault { verb, resource, outcome });
    }
}

impl Interposer for NextFault {
    fn request(&self, request: &RequestInfo) -> RequestOutcome {
        let is_it = |next: &mut RequestFault| request.verb == next.verb && request.resource == next.resource;
        self.0.lock().take_if(is_it).map_or(RequestOutcome::Served, |next| next.outcome)
    }
}

/// A settled hub with the Gateway `web` and its policy `limits` on `eu-1`. The returned [`NextFault`] is still empty.
async fn synced() -> Result<(Hub, NextFault)> {
    let hub = Hub::new(&all_kinds()).await?;
    hub.place("all", &["eu-1"]).await?;
    hub.apply(&gateway(SHOP, "web", SHOP, Some("all"))).await?;
    hub.apply(&limits(10)).await?;
    let next = NextFault::default();
    hub.controller(next.clone())?;
    hub.settled().await?;
    ensure!(hub.works() == ["eu-1/access", "eu-1/gateway-web", WORK], "{:?}", hub.works());
    Ok((hub, next))
}

fn limits(limit: u32) -> Value {
    let mut limits = rate_limit_policy(SHOP, "limits", "web");
    limits["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(limit);
    limits
}

/// The work of the policy `limits`.
fn work(hub: &Hub) -> Result<Value> {
    let mut objects = hub.server.objects().into_iter();
    let found = objects.find(|(name, _)| name.contains(&format!(" {WORK}-")));
    found.map(|(_, work)| work).context("the work does not exist")
}

fn limit_of(work: &Value) -> &Value {
    &work["spec"]["workload"]["manifests"][1]["spec"]["limits"]["all"]["rates"][0]["limit"]
}

/// The response codes of the controller's requests with this verb and resource. The first `before` requests of all
/// users are skipped.
fn codes(hub: &Hub, before: usize, verb: &str, resource: &str) -> Vec<u16> {
    let request = hub.server.requests().into_iter().skip(before).filter(|request| request.user == USER);
    request
        .filter(|request| request.verb == verb && request.resource == resource)
        .map(|request| request.code)
        .collect()
}

#[tokio::test(start_paused = true)]
async fn late_delete_does_not_delete_a_recreated_work() -> Result<()> {
    let (hub, next) = synced().await?;
    let before = hub.server.requests().len();
    next.is("delete", "manifestworks", RequestOutcome::Late(LATE));
    hub.delete(&limits(10)).await?;
    sleep(RETRIED_AFTER).await;
    ensure!(work(&hub).is_err(), "the second request did not delete the work");
    hub.apply(&limits(10)).await?;
    sleep(LATE - RETRIED_AFTER - Duration::from_secs(2)).await;
    let made = work(&hub)?;
    hub.settled().await?;
    ensure!(codes(&hub, before, "delete", "manifestworks") == [409, 200]);
    ensure!(work(&hub)?["metadata"]["uid"] == made["metadata"]["uid"], "the work was recreated");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn late_patch_does_not_undo_a_newer_one() -> Result<()> {
    let (hub, next) = synced().await?;
    let before = hub.server.requests().len();
    next.is("patch", "manifestworks", RequestOutcome::Late(LATE));
    hub.apply(&limits(20)).await?;
    sleep(RETRIED_AFTER / 2).await;
    hub.apply(&limits(30)).await?;
    sleep(RETRIED_AFTER / 2).await;
    ensure!(limit_of(&work(&hub)?) == 30, "the second request did not change the work");
    hub.settled().await?;
    ensure!(codes(&hub, before, "patch", "manifestworks") == [422, 200]);
    ensure!(limit_of(&work(&hub)?) == 30);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn late_annotations_do_not_recreate_a_deleted_policy() -> Result<()> {
    let (hub, next) = synced().await?;
    let before = hub.server.requests().len();
    next.is("patch", "ratelimitpolicies", RequestOutcome::Late(LATE));
    hub.place("all", &["eu-1", "us-1"]).await?;
    sleep(LATE / 2).await;
    hub.delete(&limits(10)).await?;
    hub.settled().await?;
    ensure!(codes(&hub, before, "patch", "ratelimitpolicies").first() == Some(&409));
    ensure!(
        !hub.server.objects().contains_key("ratelimitpolicies.kuadrant.io shop/limits"),
        "the policy exists again"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn changes_during_an_outstanding_request_are_written_after_it() -> Result<()> {
    let (hub, next) = synced().await?;
    next.is("patch", "manifestworks", RequestOutcome::ResponseLate(Duration::from_secs(20)));
    hub.apply(&limits(20)).await?;
    sleep(Duration::from_secs(10)).await;
    ensure!(limit_of(&work(&hub)?) == 20);
    hub.apply(&limits(30)).await?;
    hub.settled().await?;
    ensure!(limit_of(&work(&hub)?) == 30, "{}", limit_of(&work(&hub)?));
    Ok(())
}
