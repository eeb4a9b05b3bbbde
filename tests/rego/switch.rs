//! `--rego-namespace` enables the Rego part of the controller.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Result, ensure};
use policy_sync_testenv::audit::all_requests_of;
use policy_sync_testenv::certificates::User;
use policy_sync_testenv::webhooks::Webhooks;
use policy_sync_testenv::{Controller, wait};
use serde_json::json;

use crate::world::{BINARY, LIMIT, World, denies};

/// Prefixes of the metrics of the Rego part.
const OF_REGO: [&str; 6] = [
    "policy_sync_rego_",
    "policy_sync_webhook_",
    "policy_sync_certificate_",
    "policy_sync_placement_",
    "policy_sync_audit_",
    "policy_sync_violations",
];

#[tokio::test]
async fn served_rego_metrics_are_those_in_the_documentation() -> Result<()> {
    let world = World::alone("rego-metrics").await?;
    let reads = "package admission\ndeny[\"x\"] { data.kubernetes.services[_][_].bad }\n";
    world.write("one", json!({"a.rego": reads})).await?;
    let webhooks = Webhooks::new("rego-metrics")?;
    webhooks.install(&world.client).await?;
    let arguments = webhooks.arguments();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let controller = world.controller(&arguments).await?;
    world.until_ok("one").await?;
    let metrics = controller.metrics().await?;
    metrics.lint().await?;
    let page = include_str!("../../docs/metrics.md");
    let is_of_rego = |name: &&str| OF_REGO.iter().any(|prefix| name.starts_with(prefix));
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let documented: BTreeSet<&str> = rows.map(|(name, _)| name).filter(is_of_rego).collect();
    let served: BTreeSet<&str> = metrics.names().into_iter().filter(is_of_rego).collect();
    ensure!(served == documented, "{served:?} are served, {documented:?} are on the page");
    let states = metrics.labels("policy_sync_rego_modules", "state");
    ensure!(states == BTreeSet::from(["ignored", "loaded", "pending", "refused"]), "{states:?}");
    let keys = metrics.labels("workqueue_adds_total", "name");
    for name in keys
        .iter()
        .filter(|name| ["rego", "webhook", "placement", "audit"].iter().any(|of| name.starts_with(of)))
    {
        ensure!(page.contains(&format!("`{name}`")), "{name} is not on the page");
    }
    let (_, text) = controller.readiness().await?;
    ensure!(text.contains("[+]rego ok") && text.contains("[+]webhooks ok"), "{text}");
    let left = metrics.value("policy_sync_certificate_expiry_seconds", &[])?;
    ensure!(left > 89.0 * 86_400.0 && left < 90.0 * 86_400.0, "{left}");
    webhooks.uninstall(&world.client).await?;
    Ok(())
}

#[tokio::test]
async fn without_the_flag_no_rego_resources_are_watched_or_served() -> Result<()> {
    let world = World::new("rego-off").await?;
    world.write("one", json!({"a.rego": denies("a")})).await?;
    let user = User::new("rego-off").in_group("system:masters");
    let name = "--controller-name=example.com/rego-off";
    let mut controller = Controller::launch(Path::new(BINARY), world.hub(), &[name], Some(user))?;
    controller.ready().await?;
    controller.leads().await?;
    controller.settled(world.hub()).await?;
    let requests = wait::until("the audit log of the hub has requests", LIMIT, || async {
        let requests = all_requests_of(world.hub(), "rego-off")?;
        ensure!(
            requests.iter().any(|request| request.object().resource == "gateways"),
            "there is no request for Gateways"
        );
        Ok(requests)
    })
    .await?;
    for request in &requests {
        let object = request.object();
        ensure!(
            !["configmaps", "regopolicies", "pods", "secrets", "selfsubjectreviews"]
                .contains(&object.resource.as_str()),
            "{request:?}"
        );
        ensure!(object.namespace != world.namespace, "{request:?}");
    }
    let metrics = controller.metrics().await?;
    let of_rego: Vec<&str> = metrics
        .names()
        .into_iter()
        .filter(|name| OF_REGO.iter().any(|prefix| name.starts_with(prefix)))
        .collect();
    ensure!(of_rego.is_empty(), "{of_rego:?}");
    let (_, text) = controller.readiness().await?;
    ensure!(!text.contains("rego"), "{text}");
    ensure!(world.status("one").await?.is_null());
    Ok(())
}
