//! The private key of a Secret appears only in the work: not in logs, metrics, Events, conditions or command
//! output.

use std::path::Path;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams};
use policy_sync_testenv::fixtures::tls_secret;
use policy_sync_testenv::tenant::Tenant;
use policy_sync_testenv::{Controller, wait};
use serde_json::json;

use super::{copying, output_of, until_secrets_in_work, web};

/// Each key as text and in base64.
const KEYS: [(&str, &str); 2] = [
    ("the-first-private-key", "dGhlLWZpcnN0LXByaXZhdGUta2V5"),
    ("another-private-key", "YW5vdGhlci1wcml2YXRlLWtleQ=="),
];

/// The stdout and stderr of a command against the tenant's hub, with all log lines.
fn command_output(tenant: &Tenant<'_>, arguments: &[&str]) -> Result<String> {
    output_of(tenant, arguments, &[("RUST_LOG", "trace")])
}

fn check_no_key(what: &str, text: &str) -> Result<()> {
    for (key, encoded) in KEYS {
        // The end of base64 text depends on the bytes that follow.
        for shown in [key, encoded.trim_end_matches('=')] {
            let at = text.find(shown);
            let around = at.map(|at| text[..at].chars().rev().take(200).collect::<Vec<_>>());
            let around: Option<String> = around.map(|around| around.into_iter().rev().collect());
            ensure!(at.is_none(), "{what} contains {shown:?} after {around:?}");
        }
    }
    Ok(())
}

async fn check_no_leak(tenant: &Tenant<'_>, controller: &Controller) -> Result<()> {
    let log = controller.log()?;
    ensure!(log.contains("TRACE"), "the log has no TRACE lines");
    check_no_key("the log", &log)?;
    check_no_key("/metrics", &controller.metrics().await?.to_string())?;
    check_no_key("/readyz", &controller.readiness().await?.1)?;
    let events = Api::<Event>::namespaced(tenant.client().clone(), tenant.name());
    check_no_key("an Event", &serde_json::to_string(&events.list(&ListParams::default()).await?.items)?)?;
    let mut gateway = tenant.get(&web(tenant, &[])).await?;
    gateway.metadata.managed_fields = None;
    check_no_key("the Gateway", &serde_json::to_string(&gateway)?)?;
    for arguments in [
        &["plan", "--diff"][..],
        &["plan", "--diff", "-o", "json"],
        &["plan", "--diff", "-o", "yaml"],
        &["plan", "--diff", "-o", "table"],
        &["status", "-A"],
        &["status", "-A", "-o", "wide"],
        &["status", "-A", "-o", "json"],
        &["status", "-A", "-o", "yaml"],
        &["status", "cluster", "eu-1"],
        &["status", "cluster", "eu-1", "-o", "json"],
        &["explain", "gateway", "web", "-n", tenant.name()],
        &["explain", "gateway", "web", "-n", tenant.name(), "-o", "yaml"],
    ] {
        check_no_key(&arguments.join(" "), &command_output(tenant, arguments)?)?;
    }
    Ok(())
}

#[tokio::test]
async fn contents_of_secrets_are_shown_nowhere() -> Result<()> {
    let tenant = copying("leaks").await?;
    let (first, second) = (KEYS[0], KEYS[1]);
    let secret = |key: &str| {
        let mut secret = tls_secret(tenant.name(), "a", key);
        let whole = json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"tls.key": key}}).to_string();
        for annotation in ["kubectl.kubernetes.io/last-applied-configuration", "example.com/original"] {
            secret["metadata"]["annotations"][annotation] = whole.as_str().into();
        }
        secret
    };
    tenant.apply(&secret(first.0)).await?;
    tenant.apply(&web(&tenant, &[json!({"name": "a"}), json!({"name": "missing"})])).await?;
    // Neither `plan --diff` before the first write nor any command after it prints the key.
    let created = command_output(&tenant, &["plan", "--diff"])?;
    ensure!(created.contains("tls.key: <hidden, blake3 "), "{created}");
    check_no_key("plan --diff", &created)?;
    let controller = traced(&tenant).await?;
    let work = until_secrets_in_work(&tenant, &["Secret kuadrant-leaks/a"]).await?;
    ensure!(serde_json::to_string(&work)?.contains(first.1), "the key is missing");
    check_no_leak(&tenant, &controller).await?;

    // The key is rotated. At first, the new key is only planned. Then the Secret is too large for a work. At last, the
    // new key is written.
    tenant.settled(&controller).await?;
    controller.terminate().await?;
    tenant.apply(&secret(second.0)).await?;
    let changed = command_output(&tenant, &["plan", "--diff"])?;
    ensure!(changed.contains("tls.key: <hidden, blake3 "), "{changed}");
    check_no_key("plan --diff", &changed)?;
    let huge = tls_secret(tenant.name(), "a", &second.0.repeat(30_000));
    tenant.apply(&huge).await?;
    let controller = traced(&tenant).await?;
    wait::until("the work is too large", policy_sync_testenv::tenant::LIMIT, || async {
        ensure!(controller.metrics().await?.problems("TooLarge") > 0.0, "no problem TooLarge");
        Ok(())
    })
    .await?;
    check_no_leak(&tenant, &controller).await?;
    tenant.apply(&secret(second.0)).await?;
    tenant.until_work("eu-1", "gateway-web", |work| super::key_of(work) == second.1).await?;
    check_no_leak(&tenant, &controller).await
}

/// A controller that logs everything, including the logs of its libraries.
async fn traced(tenant: &Tenant<'_>) -> Result<Controller> {
    let name = format!("--controller-name={}", tenant.controller_name());
    let binary = Path::new(env!("CARGO_BIN_EXE_policy-sync"));
    let mut controller = Controller::launch_traced(binary, tenant.hub(), &[&name])?;
    controller.ready().await?;
    controller.leads().await?;
    Ok(controller)
}
