//! The status, labels and annotation of a hub Gateway, which summarize its clusters.

mod leaving;
mod many;
mod order;

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use kube::api::{Patch, PatchParams};
use policy_sync_testenv::apply::api_for;
use policy_sync_testenv::fixtures::{gateway, gateway_class, managed_cluster, namespace};
use policy_sync_testenv::tenant::{LIMIT, Tenant, WorkReport, all_kinds};
use policy_sync_testenv::{Controller, wait};
use serde_json::{Value, json};

use crate::tenant;

/// The tenant's Gateway.
fn web(tenant: &Tenant<'_>) -> Value {
    gateway(tenant.name(), "web", tenant.name(), Some("all"))
}

/// A tenant with clusters that no other test uses, and its controller.
async fn own(name: &str, clusters: &[&str]) -> Result<(Tenant<'static>, Controller)> {
    let tenant = tenant(name, clusters).await?;
    for cluster in clusters {
        tenant.apply(&namespace(cluster)).await?;
        tenant.apply(&managed_cluster(cluster, &BTreeMap::new())).await?;
    }
    let controller = tenant.controller().await?;
    Ok((tenant, controller))
}

/// Waits until `fits` accepts the Gateway, and returns it.
async fn until_gateway(tenant: &Tenant<'_>, fits: impl Fn(&Value) -> Result<()>) -> Result<Value> {
    wait::until("the Gateway is as expected", LIMIT, || async {
        let found = serde_json::to_value(tenant.get(&web(tenant)).await?)?;
        fits(&found).with_context(|| found["status"].to_string())?;
        Ok(found)
    })
    .await
}

/// `<status> <reason>: <message>` of a condition.
fn condition(gateway: &Value, name: &str) -> String {
    let mut conditions = gateway["status"]["conditions"].as_array().into_iter().flatten();
    let found = conditions.find(|found| found["type"] == name).cloned().unwrap_or_default();
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    format!("{} {}: {}", text("status"), text("reason"), text("message"))
}

async fn until_programmed(tenant: &Tenant<'_>, begins: &str) -> Result<Value> {
    until_gateway(tenant, |found| {
        ensure!(condition(found, "Programmed").starts_with(begins), "expected {begins}");
        let observed = &found["status"]["conditions"][1]["observedGeneration"];
        ensure!(
            *observed == found["metadata"]["generation"],
            "observedGeneration of Programmed is {observed}"
        );
        Ok(())
    })
    .await
}

/// Feedback of a cluster that has programmed the Gateway at `address`, with one route attached to the
/// listener.
fn programmed(address: &str) -> WorkReport {
    WorkReport::applied()
        .condition("Accepted", "True", "Accepted", "")
        .condition("Programmed", "True", "Programmed", "")
        .value("_address_0", json!(address))
        .value("_listener_http_attachedRoutes", json!(1))
        .value("_listener_http_kind_HTTPRoute", json!("gateway.networking.k8s.io"))
        .value("_listener_http_Programmed_status", json!("True"))
        .value("_listener_http_Programmed_reason", json!("Programmed"))
        .value("_listener_http_Programmed_message", json!(""))
}

async fn report(tenant: &Tenant<'_>, cluster: &str, report: &WorkReport) -> Result<()> {
    let work = tenant.until_work(cluster, "gateway-web", |_| true).await?;
    tenant.report(&work, report).await
}

#[tokio::test]
async fn gateway_is_programmed_once_all_clusters_report_it() -> Result<()> {
    let (tenant, controller) = own("told", &["told-eu", "told-us"]).await?;
    let pending = "False Pending: not programmed on 2 of 2 clusters: told-eu (pending); told-us (pending)";
    let found = until_programmed(&tenant, pending).await?;
    ensure!(condition(&found, "Accepted").starts_with("True Accepted"), "{found}");
    ensure!(
        found["metadata"]["annotations"]["kuadrant.io/gateway-clusters"] == r#"["told-eu","told-us"]"#,
        "{found}"
    );

    report(&tenant, "told-eu", &programmed("192.0.2.1")).await?;
    let found =
        until_programmed(&tenant, "False Pending: not programmed on 1 of 2 clusters: told-us").await?;
    ensure!(found["status"]["addresses"][0]["value"] == "told-eu/192.0.2.1", "{found}");
    report(&tenant, "told-us", &programmed("us.example.com")).await?;
    let found = until_programmed(&tenant, "True Programmed").await?;
    let expected = json!([
        {"type": "kuadrant.io/MultiClusterIPAddress", "value": "told-eu/192.0.2.1"},
        {"type": "kuadrant.io/MultiClusterHostnameAddress", "value": "told-us/us.example.com"},
    ]);
    ensure!(found["status"]["addresses"] == expected, "{found}");
    let listener = &found["status"]["listeners"][1];
    ensure!(listener["name"] == "told-us.http" && listener["attachedRoutes"] == 1, "{listener}");
    ensure!(listener["supportedKinds"][0]["kind"] == "HTTPRoute", "{listener}");
    ensure!(listener["conditions"][0]["status"] == "True", "{listener}");

    // After a change of the Gateway, a cluster with feedback from before the change does not count as programmed.
    let mut changed = web(&tenant);
    changed["spec"]["listeners"][0]["hostname"] = json!("shop.example.com");
    tenant.apply(&changed).await?;
    let found = until_programmed(&tenant, "False Pending").await?;
    ensure!(found["status"]["addresses"] == expected, "the addresses changed: {found}");
    let refused = WorkReport::refused("conflict with kubectl");
    report(&tenant, "told-eu", &refused).await?;
    let expected = "False NotProgrammed: not programmed on 2 of 2 clusters: told-eu (conflict with kubectl); told-us (pending)";
    until_programmed(&tenant, expected).await?;
    for write in tenant.settled(&controller).await? {
        ensure!(!write.is_rejected(), "the hub rejected {write:?}");
    }
    Ok(())
}

#[tokio::test]
async fn unchanged_gateway_status_is_not_written_again() -> Result<()> {
    let (tenant, controller) = own("told-once", &["once-eu", "once-us"]).await?;
    let labels = BTreeMap::from([("kuadrant.io/region".to_owned(), "eu".to_owned())]);
    tenant.apply(&managed_cluster("once-eu", &labels)).await?;
    for cluster in ["once-eu", "once-us"] {
        report(&tenant, cluster, &programmed("192.0.2.1")).await?;
    }
    until_programmed(&tenant, "True").await?;
    let settled = tenant.settled(&controller).await?.len();
    // The cluster repeats its feedback, and other clients add conditions and a listener to the status.
    let work = tenant.until_work("once-us", "gateway-web", |_| true).await?;
    tenant.report(&work, &programmed("192.0.2.1")).await?;
    let (api, name) = api_for(tenant.client(), &web(&tenant)).await?;
    let theirs = json!({"type": "example.com/Affected", "status": "True", "reason": "Policy", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let patch = json!([
        {"op": "add", "path": "/status/conditions/-", "value": theirs},
        {"op": "add", "path": "/status/listeners/-", "value": {"name": "theirs", "attachedRoutes": 0, "conditions": []}},
        {"op": "add", "path": "/status/listeners/0/conditions/-", "value": theirs},
    ]);
    let patch: Patch<()> = Patch::Json(serde_json::from_value(patch)?);
    api.patch_status(&name, &PatchParams::default(), &patch).await?;
    let writes = tenant.settled(&controller).await?;
    ensure!(writes.len() == settled, "the controller wrote {:?}", &writes[settled..]);
    controller.terminate().await?;
    let controller = tenant.controller().await?;
    let writes = tenant.settled(&controller).await?;
    ensure!(writes.is_empty(), "the restarted controller wrote {writes:?}");

    // The controller restores its own fields, and keeps the fields of other clients.
    let patch = json!({"metadata": {"annotations": {"kuadrant.io/gateway-clusters": "[]"},
        "labels": {"clusters.kuadrant.io/once-eu_region": "us", "clusters.kuadrant.io/invented": "x"}}});
    tenant.merge(&web(&tenant), &patch).await?;
    let patch = json!([{"op": "replace", "path": "/status/addresses", "value": []}]);
    let patch: Patch<()> = Patch::Json(serde_json::from_value(patch)?);
    api.patch_status(&name, &PatchParams::default(), &patch).await?;
    until_gateway(&tenant, |found| {
        let metadata = &found["metadata"];
        ensure!(
            metadata["annotations"]["kuadrant.io/gateway-clusters"] == r#"["once-eu","once-us"]"#,
            "{metadata}"
        );
        ensure!(metadata["labels"]["clusters.kuadrant.io/once-eu_region"] == "eu", "{metadata}");
        ensure!(metadata["labels"].get("clusters.kuadrant.io/invented").is_none(), "{metadata}");
        ensure!(
            found["status"]["addresses"].as_array().map(Vec::len) == Some(2),
            "the addresses were not restored"
        );
        ensure!(
            found["status"].to_string().contains("example.com/Affected"),
            "the condition of the other client was removed"
        );
        Ok(())
    })
    .await?;
    tenant.settled(&controller).await.map(drop)
}

#[tokio::test]
async fn cluster_attributes_are_labels_of_the_hub_gateway_only() -> Result<()> {
    let (tenant, controller) = own("attributed", &["attr-eu", "attr-us"]).await?;
    let region = |value: &str| BTreeMap::from([("kuadrant.io/region".to_owned(), value.to_owned())]);
    let label = |found: &Value| found["metadata"]["labels"]["clusters.kuadrant.io/attr-eu_region"].clone();
    tenant.until_work("attr-eu", "gateway-web", |_| true).await?;
    tenant.settled(&controller).await?;
    let before = tenant.work("attr-eu", "gateway-web").await?;
    for value in ["eu", "EU"] {
        tenant.apply(&managed_cluster("attr-eu", &region(value))).await?;
        until_gateway(&tenant, |found| {
            ensure!(label(found) == value, "{}", found["metadata"]);
            Ok(())
        })
        .await?;
    }
    let mut long = region("eu");
    long.insert(format!("kuadrant.io/{}", "a".repeat(60)), "x".to_owned());
    tenant.apply(&managed_cluster("attr-eu", &long)).await?;
    until_gateway(&tenant, |found| {
        let accepted = condition(found, "Accepted");
        ensure!(accepted.contains("the label attr-eu_aaa"), "{accepted}");
        Ok(())
    })
    .await?;
    let after = tenant.work("attr-eu", "gateway-web").await?;
    ensure!(after.spec == before.spec, "the label changed the copy: {:?}", after.spec);

    // If a cluster is unplaced, the cluster's labels are removed from the Gateway. If the class changes, all labels are
    // removed.
    tenant.apply(&managed_cluster("attr-us", &region("us"))).await?;
    tenant.place("all", &["attr-us"]).await?;
    until_gateway(&tenant, |found| {
        ensure!(
            label(found).is_null() && condition(found, "Programmed").contains("of 1"),
            "{}",
            found["metadata"]
        );
        Ok(())
    })
    .await?;
    tenant.apply(&gateway_class("attributed-theirs", "example.com/theirs", None)).await?;
    let mut theirs = web(&tenant);
    theirs["spec"]["gatewayClassName"] = json!("attributed-theirs");
    tenant.apply(&theirs).await?;
    until_gateway(&tenant, |found| {
        let text = found["metadata"]["labels"].to_string() + &found["metadata"]["annotations"].to_string();
        ensure!(!text.contains("clusters.kuadrant.io") && !text.contains("gateway-clusters"), "{text}");
        Ok(())
    })
    .await?;
    // The controller removes its part of the status, so that the other class's controller can write the status.
    until_gateway(&tenant, |found| {
        ensure!(!condition(found, "Programmed").starts_with("False"), "{}", found["status"]);
        Ok(())
    })
    .await?;
    let writes = tenant.settled(&controller).await?.len();
    ensure!(tenant.settled(&controller).await?.len() == writes, "writes do not end");
    Ok(())
}

/// The API server rejects a whole status if one item is invalid.
#[tokio::test]
async fn invalid_feedback_of_one_spoke_does_not_block_another() -> Result<()> {
    let (tenant, controller) = own("told-oddly", &["odd-1", "odd-2"]).await?;
    report(&tenant, "odd-2", &programmed("192.0.2.2")).await?;
    let controls: String = (0..0xa0).filter_map(char::from_u32).collect();
    for (round, text) in
        [controls + "\u{feff}\u{2028}\u{ffff}😀", "é".repeat(5_000), "\"'\\{}[]\n- a: b # c".to_owned()]
            .iter()
            .enumerate()
    {
        let hostile = WorkReport::applied()
            .condition("Programmed", "False", text, text)
            .value("_address_0", json!(text))
            .value("_address_1", json!(format!("192.0.2.{round}")))
            .value("_address_2", json!("a".repeat(253)))
            .value("_listener_http_attachedRoutes", json!(1))
            .value("_listener_http_Accepted_status", json!("True"))
            .value("_listener_http_Accepted_reason", json!(text))
            .value("_listener_http_ResolvedRefs_status", json!(text))
            .value("_listener_http_Conflicted_status", json!("False"))
            .value("_listener_http_Conflicted_reason", json!("NoConflicts"))
            .value("_listener_http_Conflicted_message", json!(text))
            .value("_listener_http_kind_GRPCRoute", json!(text));
        report(&tenant, "odd-1", &hostile).await?;
        let expected = format!("odd-1/192.0.2.{round}");
        let found = until_gateway(&tenant, |found| {
            let first = &found["status"]["addresses"][0]["value"];
            ensure!(*first == expected, "the first address is {first}");
            Ok(())
        })
        .await?;
        ensure!(found["status"]["addresses"][1]["value"] == "odd-2/192.0.2.2", "{found}");
        let message = condition(&found, "Programmed");
        ensure!(message.ends_with("2 addresses, 2 kinds and conditions of listeners"), "{message}");
    }
    for write in tenant.settled(&controller).await? {
        ensure!(!write.is_rejected(), "the hub rejected {write:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_gateway_whose_parameters_are_invalid_is_not_accepted() -> Result<()> {
    let (tenant, _controller) = own("told-frozen", &["frozen-1"]).await?;
    report(&tenant, "frozen-1", &programmed("192.0.2.1")).await?;
    until_programmed(&tenant, "True").await?;
    tenant.parameters(&json!({"downstreamClass": 5})).await?;
    let found = until_programmed(&tenant, "False Pending").await?;
    ensure!(
        condition(&found, "Accepted").starts_with("False InvalidParameters: GatewayClass told-frozen"),
        "{found}"
    );
    ensure!(found["status"]["addresses"][0]["value"] == "frozen-1/192.0.2.1", "{found}");
    tenant.parameters(&all_kinds()).await?;
    until_programmed(&tenant, "True").await?;
    tenant.place("all", &[]).await?;
    let found = until_programmed(
        &tenant,
        &format!("False NotPlaced: Placement {}/all has selected no cluster", tenant.name()),
    )
    .await?;
    ensure!(
        found["status"]["addresses"] == json!([])
            && found["status"].get("listeners").is_none_or(|l| *l == json!([])),
        "{found}"
    );
    Ok(())
}
