//! The status of a hub Gateway, which the controller computes from the status of the copies, and the grace period
//! of an unplaced Gateway.

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use policy_sync_api::annotations::{GRACE_TIMEOUT, UNPLACED_SINCE};
use policy_sync_api::work::ManifestWork;
use policy_sync_testenv::fixtures::{gateway, rate_limit_policy};
use policy_sync_testenv::tenant::Tenant;
use policy_sync_testenv::wait;
use serde_json::{Value, json};

use crate::{LIMIT, tenant, until_copied, until_gone};

/// Waits until the hub's Gateway is programmed in its present generation, on this number of clusters.
async fn until_programmed(tenant: &Tenant<'_>, web: &Value, clusters: usize) -> Result<Value> {
    let expected = format!("programmed on all of its clusters: {clusters}");
    wait::until("the Gateway is programmed", LIMIT, || async {
        let found = serde_json::to_value(tenant.get(web).await?)?;
        let conditions = found["status"]["conditions"].as_array().context("no conditions")?;
        let programmed = conditions
            .iter()
            .find(|condition| condition["type"] == "Programmed")
            .context("no condition Programmed")?;
        let current = programmed["observedGeneration"] == found["metadata"]["generation"];
        ensure!(current && programmed["message"] == *expected, "status: {}", found["status"]);
        Ok(found)
    })
    .await
}

#[tokio::test]
async fn gateway_status_combines_the_statuses_of_its_copies() -> Result<()> {
    let (tenant, fleet) = tenant("status", &["eu-1", "us-1"]).await?;
    let controller = tenant.controller().await?;
    let mut web = gateway(tenant.name(), "web", tenant.name(), Some("all"));
    web["spec"]["listeners"][0]["allowedRoutes"] = json!({"kinds": [{"kind": "HTTPRoute"}]});
    let other = json!({"name": "other.example", "port": 8080, "protocol": "HTTP"});
    web["spec"]["listeners"].as_array_mut().context("no listeners")?.push(other);
    tenant.apply(&web).await?;
    let found = until_programmed(&tenant, &web, 2).await?;

    let expected = ["eu-1", "us-1"].map(|cluster| {
        [("IP", "192.0.2.1"), ("Hostname", "web.kuadrant-status.example.com")].map(|(kind, value)| {
            json!({"type": format!("kuadrant.io/MultiCluster{kind}Address"), "value": format!("{cluster}/{value}")})
        })
    });
    ensure!(found["status"]["addresses"] == json!(expected.concat()), "{}", found["status"]);
    let listeners = found["status"]["listeners"].as_array().context("no listeners")?;
    let names: Vec<&str> = listeners.iter().filter_map(|listener| listener["name"].as_str()).collect();
    let both = ["eu-1.http", "eu-1.other.example", "us-1.http", "us-1.other.example"];
    ensure!(names == both, "{names:?}");
    for listener in listeners {
        let conditions = listener["conditions"].as_array().context("no conditions")?;
        let statuses: Vec<String> = conditions
            .iter()
            .map(|condition| format!("{}={}", condition["type"], condition["status"]).replace('"', ""))
            .collect();
        ensure!(
            statuses == ["Accepted=True", "Conflicted=False", "Programmed=True", "ResolvedRefs=True"],
            "{statuses:?}"
        );
        ensure!(listener["attachedRoutes"] == 0, "{listener}");
        let kinds = listener["supportedKinds"].as_array().map_or(0, Vec::len);
        ensure!(
            kinds == if listener["name"] == "eu-1.http" || listener["name"] == "us-1.http" { 1 } else { 2 },
            "{listener}"
        );
    }
    tenant.settled(&controller).await?;

    web["spec"]["listeners"].as_array_mut().context("no listeners")?.pop();
    tenant.apply(&web).await?;
    for cluster in ["eu-1", "us-1"] {
        let spoke = fleet.spoke(cluster)?.client()?;
        until_copied(&spoke, &web, |copy| copy.data["spec"]["listeners"].as_array().map(Vec::len) == Some(1))
            .await?;
    }
    let found = until_programmed(&tenant, &web, 2).await?;
    ensure!(found["status"]["listeners"].as_array().map(Vec::len) == Some(2), "{}", found["status"]);
    tenant.place("all", &["eu-1"]).await?;
    let found = until_programmed(&tenant, &web, 1).await?;
    ensure!(found["status"]["addresses"].as_array().map(Vec::len) == Some(2), "{}", found["status"]);
    tenant.settled(&controller).await.map(drop)
}

#[tokio::test]
async fn unplaced_gateway_serves_until_its_grace_period_ends() -> Result<()> {
    let (tenant, fleet) = tenant("grace", &["eu-1", "us-1"]).await?;
    let controller = tenant.controller().await?;
    let mut limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    let web = gateway(tenant.name(), "web", tenant.name(), Some("all"));
    let grace = |seconds: &str| json!({"metadata": {"annotations": {GRACE_TIMEOUT: seconds}}});
    tenant.merge(&web, &grace("3600")).await?;
    until_programmed(&tenant, &web, 2).await?;
    let spoke = fleet.spoke("us-1")?.client()?;
    let served = until_copied(&spoke, &web, |_| true).await?.uid();
    let is_displaced = |work: &ManifestWork| work.annotations().contains_key(UNPLACED_SINCE);

    tenant.place("all", &["eu-1"]).await?;
    tenant.until_work("us-1", "gateway-web", |work| is_displaced(work)).await?;
    // A controller that starts during the grace period keeps the Gateway and its policy up to date.
    controller.kill();
    let controller = tenant.controller().await?;
    limits["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(7);
    tenant.apply(&limits).await?;
    until_copied(&spoke, &limits, |copy| copy.data["spec"]["limits"]["all"]["rates"][0]["limit"] == 7)
        .await?;
    tenant.settled(&controller).await?;
    ensure!(until_copied(&spoke, &web, |_| true).await?.uid() == served, "the Gateway was recreated");

    tenant.place("all", &["eu-1", "us-1"]).await?;
    tenant.until_work("us-1", "gateway-web", |work| !is_displaced(work)).await?;
    tenant.settled(&controller).await?;
    ensure!(until_copied(&spoke, &web, |_| true).await?.uid() == served, "the Gateway was recreated");

    tenant.merge(&web, &grace("2")).await?;
    tenant.place("all", &["eu-1"]).await?;
    until_gone(&spoke, &web).await?;
    until_gone(&spoke, &limits).await?;
    until_programmed(&tenant, &web, 1).await?;
    tenant.settled(&controller).await.map(drop)
}
