//! `--topology`: the graph of Gateways, routes and policies stored in a ConfigMap. Each test has its own hub.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use kube::api::{DynamicObject, Patch};
use policy_sync_testenv::apply::{api_for, apply};
use policy_sync_testenv::certificates::User;
use policy_sync_testenv::crds::{self, ClusterType};
use policy_sync_testenv::fixtures::topology::objects;
use policy_sync_testenv::{ControlPlane, ControlPlaneOptions, Controller, binaries, wait};
use serde_json::{Value, json};

use crate::kinds::{cluster_role, grant};

const LIMIT: Duration = Duration::from_secs(60);
const BINARY: &str = env!("CARGO_BIN_EXE_policy-sync");
const STORED: &str = "policy_sync_topology_stored";

/// A hub with the objects of [`objects`].
pub(crate) async fn hub(name: &str) -> Result<ControlPlane> {
    let binaries = binaries::ensure().await?;
    let mut crds = crds::for_cluster_type(ClusterType::Hub, &binaries)?;
    crds.extend(crds::more_routes(&binaries)?);
    let hub = ControlPlane::start(ControlPlaneOptions { crds, ..ControlPlaneOptions::named(name) }).await?;
    for object in objects() {
        apply(&hub.client()?, &object).await?;
    }
    Ok(hub)
}

async fn controller(hub: &ControlPlane) -> Result<Controller> {
    Controller::start(Path::new(BINARY), hub, &["--topology"]).await
}

/// A controller with `--topology` that runs as user `name`, with the permissions for the sync, for HTTPRoutes, and for
/// the resources `core` of the core group. Other route kinds and all route statuses are forbidden.
pub(crate) async fn launch_as(hub: &ControlPlane, name: &str, core: &[&str]) -> Result<Controller> {
    let rules = json!([
        {"apiGroups": ["gateway.networking.k8s.io"], "resources": ["gatewayclasses", "gateways", "httproutes", "gatewayclasses/status", "gateways/status"], "verbs": ["*"]},
        {"apiGroups": ["cluster.open-cluster-management.io", "work.open-cluster-management.io", "kuadrant.io", "policies.example.com", "apiextensions.k8s.io", "authorization.k8s.io", "events.k8s.io", "coordination.k8s.io"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": core, "verbs": ["*"]},
    ]);
    grant(&hub.client()?, name, &cluster_role(name, &rules)).await?;
    let mut controller = Controller::launch(Path::new(BINARY), hub, &["--topology"], Some(User::new(name)))?;
    controller.ready().await?;
    Ok(controller)
}

/// The fixture of this kind and name.
fn named(kind: &str, name: &str) -> Result<Value> {
    let is_it = |object: &Value| object["kind"] == kind && object["metadata"]["name"] == name;
    objects().into_iter().find(is_it).with_context(|| format!("{kind} {name}"))
}

fn config_map() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "topology", "namespace": "default"}})
}

/// The output of `policy-sync topology` for `hub`.
fn printed(hub: &ControlPlane) -> Result<String> {
    let output = Command::new(BINARY)
        .args(["topology", "-o", "dot", "--kubeconfig"])
        .arg(hub.kubeconfig())
        .output()?;
    Ok(String::from_utf8(output.stdout)?)
}

/// Waits until the ConfigMap has the same graph as the command prints.
pub(crate) async fn until_stored(hub: &ControlPlane) -> Result<DynamicObject> {
    let (maps, name) = api_for(&hub.client()?, &config_map()).await?;
    let printed = printed(hub)?;
    wait::until("the topology is stored", LIMIT, || async {
        let found = maps.get(&name).await?;
        let text = found.data["data"]["topology"].as_str().unwrap_or_default();
        ensure!(text == printed, "stored: {text}\nprinted: {printed}");
        Ok(found)
    })
    .await
}

async fn until_metric(
    controller: &Controller,
    name: &str,
    labels: &[(&str, &str)],
    value: f64,
) -> Result<()> {
    wait::until(&format!("{name} is {value}"), LIMIT, || async {
        let metrics = controller.metrics().await?;
        let found = metrics.value(name, labels)?;
        ensure!((found - value).abs() < 0.5, "{name} is {found}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn config_map_matches_the_command_and_a_restart_writes_nothing() -> Result<()> {
    let hub = hub("topology-stored").await?;
    let client = hub.client()?;
    let first = controller(&hub).await?;
    let found = until_stored(&hub).await?;
    let labels = found.labels();
    ensure!(labels.get("kuadrant.io/topology").is_some_and(|value| value == "true"), "{labels:?}");
    ensure!(found.annotations()["kuadrant.io/topology-detail"] == "full", "{:?}", found.annotations());
    let text = found.data["data"]["topology"].as_str().context("no topology")?;
    for node in [
        "tcproute.gateway.networking.k8s.io:shop/raw#rule-1",
        "service:backends/api#http",
        "ratelimitpolicy.kuadrant.io:shop/own",
    ] {
        ensure!(text.contains(&format!("\"{node}\"")), "{text}");
    }
    until_metric(&first, STORED, &[], 1.0).await?;
    let metrics = first.metrics().await?;
    metrics.lint().await?;
    ensure!(metrics.value("policy_sync_topology_nodes", &[("kind", "HTTPRoute")])? > 1.5, "{metrics}");
    let refused = [("reason", "NotAllowedByListeners")];
    ensure!(metrics.value("policy_sync_topology_unattached", &refused)? > 0.5, "{metrics}");
    for resource in [
        "httproutes.gateway.networking.k8s.io",
        "services",
        "namespaces",
        "referencegrants.gateway.networking.k8s.io",
    ] {
        ensure!(
            metrics.value("policy_sync_watch_up", &[("resource", resource)])? > 0.5,
            "{resource}: {metrics}"
        );
    }
    let page = include_str!("../../docs/metrics.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `policy_sync_topology_")?.split_once('`'));
    let documented: BTreeSet<String> = rows.map(|(name, _)| format!("policy_sync_topology_{name}")).collect();
    let served = metrics.names().into_iter().filter(|name| name.starts_with("policy_sync_topology_"));
    let served: BTreeSet<String> = served.map(str::to_owned).collect();
    // A metric with no objects to count has no series.
    ensure!(
        served.is_subset(&documented) && documented.len() - served.len() <= 1,
        "{served:?} {documented:?}"
    );

    // A deleted route disappears from the graph.
    let route = named("HTTPRoute", "shop")?;
    let (routes, _) = api_for(&client, &route).await?;
    let before = found.resource_version();
    routes.delete("shop", &Default::default()).await?;
    let after = until_stored(&hub).await?;
    ensure!(after.resource_version() != before, "the ConfigMap was not written");
    first.terminate().await?;

    let second = controller(&hub).await?;
    until_metric(&second, STORED, &[], 1.0).await?;
    second.settled(&hub).await?;
    let writes = second.writes(&hub)?;
    let of_topology = writes.iter().filter(|write| write.object().resource == "configmaps").count();
    ensure!(of_topology == 0, "the restarted controller wrote {writes:#?}");
    let still = until_stored(&hub).await?;
    ensure!(still.resource_version() == after.resource_version(), "{still:?}");

    // Edits of the ConfigMap by other clients are reverted.
    let (maps, name) = api_for(&client, &config_map()).await?;
    maps.patch(&name, &Default::default(), &Patch::Merge(json!({"data": {"topology": "digraph {}"}})))
        .await?;
    until_stored(&hub).await?;
    Ok(())
}

#[tokio::test]
async fn config_map_of_another_owner_is_not_changed() -> Result<()> {
    let hub = hub("topology-foreign").await?;
    let mut theirs = config_map();
    theirs["data"] = json!({"topology": "theirs"});
    apply(&hub.client()?, &theirs).await?;
    let controller = controller(&hub).await?;
    let is_logged = || async {
        let log = controller.log()?;
        ensure!(log.contains("has another owner"), "{log}");
        Ok(())
    };
    wait::until("the foreign ConfigMap is logged", LIMIT, is_logged).await?;
    until_metric(&controller, STORED, &[], 0.0).await?;
    let (maps, name) = api_for(&hub.client()?, &config_map()).await?;
    ensure!(maps.get(&name).await?.data["data"]["topology"] == "theirs");
    // Once the foreign ConfigMap is deleted, the controller creates its own ConfigMap.
    maps.delete(&name, &Default::default()).await?;
    until_stored(&hub).await?;
    until_metric(&controller, STORED, &[], 1.0).await
}

#[tokio::test]
async fn kinds_that_cannot_be_listed_are_unknown_and_block_nothing_else() -> Result<()> {
    let hub = hub("topology-rights").await?;
    let client = hub.client()?;
    // The controller has no permissions for Services and Namespaces.
    let controller = launch_as(&hub, "narrow", &["configmaps"]).await?;
    controller.leads().await?;
    until_metric(&controller, STORED, &[], 1.0).await?;
    let (maps, name) = api_for(&client, &config_map()).await?;
    let found = maps.get(&name).await?;
    let text = found.data["data"]["topology"].as_str().context("no topology")?;
    ensure!(
        text.contains("httproute.gateway.networking.k8s.io:shop/shop\"")
            && text.contains("\"service:backends/api\""),
        "{text}"
    );
    ensure!(!text.contains("tcproute."), "{text}");
    let metrics = controller.metrics().await?;
    ensure!(metrics.value("policy_sync_topology_unknown_kinds", &[])? > 0.5, "{metrics}");
    ensure!(metrics.value("policy_sync_watch_up", &[("resource", "services")])? < 0.5, "{metrics}");
    // The controller still handles the class.
    let (classes, name) = api_for(&client, &named("GatewayClass", "multi")?).await?;
    wait::until("the class is accepted", LIMIT, || async {
        let class = classes.get(&name).await?;
        let conditions = class.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let is_true = |condition: &Value| condition["type"] == "Accepted" && condition["status"] == "True";
        ensure!(conditions.iter().any(is_true), "{conditions:?}");
        Ok(())
    })
    .await
}
