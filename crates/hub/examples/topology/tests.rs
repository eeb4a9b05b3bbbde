//! Tests the controller on a real API server.

use std::time::Duration;

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, DynamicObject};
use policy_sync_testenv::apply::{api_for, apply};
use policy_sync_testenv::{Fleet, fixtures, wait};
use serde_json::Value;

use super::*;

const LIMIT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn topology_and_conditions_follow_the_objects() -> Result<()> {
    let fleet = Fleet::shared_hub().await?;
    let client = fleet.hub().client()?;
    let stop = CancellationToken::new();
    let _watching = start(client.clone(), Clock::start(), stop.clone())?;
    let gateway = fixtures::gateway("default", "web", "topology-example", None);
    apply(&client, &fixtures::gateway_class("topology-example", "example.com/topology", None)).await?;
    apply(&client, &gateway).await?;
    let policy = fixtures::rate_limit_policy("default", "limits", "web");
    apply(&client, &policy).await?;
    let config_maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let (gateways, _) = api_for(&client, &gateway).await?;
    let edge =
        "\"ratelimitpolicy.kuadrant.io:default/limits\" -> \"gateway.gateway.networking.k8s.io:default/web\"";
    until(&config_maps, &gateways, "default/limits", |dot| dot.contains(edge)).await?;
    let (policies, name) = api_for(&client, &policy).await?;
    policies.delete(&name, &DeleteParams::default()).await?;
    until(&config_maps, &gateways, "", |dot| !dot.contains("ratelimitpolicy")).await?;
    stop.cancel();
    Ok(())
}

/// Waits until `is_right` holds for the ConfigMap, and the Gateway's condition names `policies`.
async fn until(
    config_maps: &Api<ConfigMap>,
    gateways: &Api<DynamicObject>,
    policies: &str,
    is_right: impl Fn(&str) -> bool,
) -> Result<()> {
    wait::until("the topology is written", LIMIT, || async {
        let config_map = config_maps.get("topology").await?;
        let dot = config_map.data.unwrap_or_default().remove("topology").unwrap_or_default();
        ensure!(is_right(&dot), "the ConfigMap has {dot}");
        let gateway = gateways.get("web").await?;
        let conditions = gateway.data["status"]["conditions"].as_array().context("no conditions")?.clone();
        let mut found = conditions.iter().filter(|condition| condition["type"] == "example.com/Policies");
        let message = found.next().map_or(Value::Null, |condition| condition["message"].clone());
        ensure!(message == policies, "the condition names {message}");
        Ok(())
    })
    .await
}
