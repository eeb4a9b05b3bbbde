//! TLS Secrets of Gateways are copied and rotated. They are withdrawn when the reference or the ReferenceGrant is
//! removed. Secrets that policies refer to are not copied.

mod external;
mod leaks;
pub(crate) mod rights;

use std::process::Command;

use anyhow::{Context, Result, ensure};
use policy_sync_api::work::ManifestWork;
use policy_sync_testenv::Controller;
use policy_sync_testenv::fixtures::{https_gateway, namespace, reference_grant, tls_secret};
use policy_sync_testenv::tenant::Tenant;
use serde_json::{Value, json};

use crate::tenant;

/// A tenant whose class copies Secrets, with a second namespace `<name>-tls`.
pub(crate) async fn copying(name: &str) -> Result<Tenant<'static>> {
    let tenant = tenant(name, &["eu-1"]).await?;
    tenant.apply(&namespace(&tls(&tenant))).await?;
    tenant.parameters(&json!({"tlsSecrets": "copy"})).await?;
    Ok(tenant)
}

/// The tenant's second namespace, `<name>-tls`.
pub(crate) fn tls(tenant: &Tenant<'_>) -> String {
    format!("{}-tls", tenant.name())
}

/// The Gateway `web` with these certificate references.
pub(crate) fn web(tenant: &Tenant<'_>, references: &[Value]) -> Value {
    https_gateway(tenant.name(), "web", tenant.name(), references)
}

/// The Secrets, and the namespaces of the ReferenceGrants, in a work.
pub(crate) fn secrets_in_work(work: &ManifestWork) -> Vec<String> {
    let manifests = work.spec.workload.manifests.iter().map(|manifest| &manifest.0);
    manifests
        .filter_map(|object| {
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
            match object["kind"].as_str()? {
                "Secret" => Some(format!("Secret {}/{}", text("namespace"), text("name"))),
                "ReferenceGrant" => Some(format!("ReferenceGrant {}", text("namespace"))),
                _ => None,
            }
        })
        .collect()
}

/// Waits until the work of the Gateway `web` has exactly these Secrets and grants.
pub(crate) async fn until_secrets_in_work(tenant: &Tenant<'_>, expected: &[&str]) -> Result<ManifestWork> {
    tenant.until_work("eu-1", "gateway-web", |work| secrets_in_work(work) == expected).await
}

/// The private key of the first Secret in a work, in base64.
fn key_of(work: &ManifestWork) -> Value {
    let mut manifests = work.spec.workload.manifests.iter().map(|manifest| &manifest.0);
    let secret = manifests.find(|object| object["kind"] == "Secret");
    secret.map(|secret| secret["data"]["tls.key"].clone()).unwrap_or_default()
}

/// The stdout and stderr of a command against the tenant's hub, with these environment variables.
fn output_of(tenant: &Tenant<'_>, arguments: &[&str], variables: &[(&str, &str)]) -> Result<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_policy-sync"))
        .args(arguments)
        .args(["--controller-name", &tenant.controller_name()])
        .arg("--kubeconfig")
        .arg(tenant.hub().kubeconfig())
        .envs(variables.iter().copied())
        .output()
        .context("running policy-sync")?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(text(&output.stdout) + &text(&output.stderr))
}

/// The lists and watches of Secrets that a controller has sent.
fn reads_of_secrets(tenant: &Tenant<'_>, controller: &Controller) -> Result<Vec<String>> {
    let requests = controller.requests(tenant.hub())?;
    let secrets = requests.iter().filter(|request| request.object().resource == "secrets");
    Ok(secrets.map(|request| format!("{} {}", request.verb, request.uri)).collect())
}

#[tokio::test]
async fn secret_is_copied_rotated_and_withdrawn_with_its_reference() -> Result<()> {
    let tenant = copying("secrets").await?;
    for name in ["a", "b", "unnamed"] {
        tenant.apply(&tls_secret(tenant.name(), name, "first")).await?;
    }
    tenant.apply(&web(&tenant, &[json!({"name": "a"}), json!({"name": "b"})])).await?;
    let controller = tenant.controller().await?;
    let both = ["Secret kuadrant-secrets/a", "Secret kuadrant-secrets/b"];
    let work = until_secrets_in_work(&tenant, &both).await?;
    ensure!(key_of(&work) == "Zmlyc3Q=", "{:?}", key_of(&work));
    let order: Vec<&Value> =
        work.spec.workload.manifests.iter().map(|manifest| &manifest.0["kind"]).collect();
    ensure!(order == ["Namespace", "Secret", "Secret", "Gateway"], "{order:?}");
    let settled = tenant.settled(&controller).await?.len();

    tenant.apply(&tls_secret(tenant.name(), "a", "second")).await?;
    tenant.until_work("eu-1", "gateway-web", |work| key_of(work) == "c2Vjb25k").await?;
    tenant.apply(&tls_secret(tenant.name(), "unnamed", "second")).await?;
    let writes = tenant.settled(&controller).await?;
    let works = writes[settled..].iter().filter(|write| write.object().resource == "manifestworks").count();
    ensure!(works == 1, "expected one write per cluster: {:?}", &writes[settled..]);
    for read in reads_of_secrets(&tenant, &controller)? {
        ensure!(read.contains("fieldSelector=type%3Dkubernetes.io%2Ftls"), "{read}");
    }

    tenant.apply(&web(&tenant, &[json!({"name": "b"})])).await?;
    until_secrets_in_work(&tenant, &both[1..]).await?;
    tenant.delete(&tls_secret(tenant.name(), "b", "")).await?;
    until_secrets_in_work(&tenant, &[]).await?;
    tenant.apply(&tls_secret(tenant.name(), "b", "third")).await?;
    until_secrets_in_work(&tenant, &both[1..]).await?;

    // A restart writes nothing.
    tenant.settled(&controller).await?;
    controller.terminate().await?;
    let controller = tenant.controller().await?;
    let writes = tenant.settled(&controller).await?;
    ensure!(writes.is_empty(), "the restarted controller wrote {writes:?}");

    tenant.parameters(&json!({"tlsSecrets": "none"})).await?;
    until_secrets_in_work(&tenant, &[]).await?;
    tenant.settled(&controller).await.map(drop)
}

#[tokio::test]
async fn secret_of_another_namespace_is_copied_while_granted() -> Result<()> {
    let tenant = copying("granted").await?;
    let tls = tls(&tenant);
    tenant.apply(&tls_secret(&tls, "a", "first")).await?;
    tenant.apply(&web(&tenant, &[json!({"name": "a", "namespace": tls})])).await?;
    let controller = tenant.controller().await?;
    until_secrets_in_work(&tenant, &[]).await?;
    let grant = reference_grant(&tls, "for-the-shop", tenant.name(), "a");
    let with_grant = ["Secret kuadrant-granted-tls/a", "ReferenceGrant kuadrant-granted-tls"];
    for _ in 0..2 {
        tenant.apply(&grant).await?;
        let work = until_secrets_in_work(&tenant, &with_grant).await?;
        let spec = &work.spec.workload.manifests[3].0["spec"];
        ensure!(spec["from"][0]["namespace"] == "kuadrant-granted", "{spec}");
        ensure!(spec["to"] == json!([{"group": "", "kind": "Secret", "name": "a"}]), "{spec}");
        let rights = |work: &ManifestWork| work.spec.workload.manifests[0].0["rules"].to_string();
        tenant.until_work("eu-1", "access", |work| rights(work).contains("referencegrants")).await?;

        tenant.delete(&grant).await?;
        until_secrets_in_work(&tenant, &[]).await?;
        // The agent still needs the permission to delete the grant on the spoke.
        tenant.settled(&controller).await?;
        let access = tenant.work("eu-1", "access").await?;
        ensure!(rights(&access).contains("referencegrants"), "{}", rights(&access));
    }
    tenant.place("all", &[]).await?;
    tenant.until_works(&[]).await
}

#[tokio::test]
async fn secrets_are_not_read_unless_copying_is_enabled() -> Result<()> {
    let tenant = tenant("unread", &["eu-1"]).await?;
    tenant.apply(&tls_secret(tenant.name(), "a", "first")).await?;
    tenant.apply(&web(&tenant, &[json!({"name": "a"})])).await?;
    let controller = tenant.controller().await?;
    let is_https =
        |work: &ManifestWork| work.spec.workload.manifests[1].0["spec"]["listeners"][0]["name"] == "https";
    tenant.until_work("eu-1", "gateway-web", is_https).await?;
    tenant.settled(&controller).await?;
    until_secrets_in_work(&tenant, &[]).await?;
    let read = reads_of_secrets(&tenant, &controller)?;
    ensure!(read.is_empty(), "{read:?}");
    let (_, ready) = controller.readiness().await?;
    ensure!(!ready.contains("secrets") && !ready.contains("referencegrants"), "{ready}");
    Ok(())
}
