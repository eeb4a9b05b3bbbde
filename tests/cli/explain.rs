//! `policy-sync explain` on a real hub with a controller. The tests write the status of works in place of the
//! agents.

mod refusals;
mod steps;

use std::path::Path;

use anyhow::{Context, Result, ensure};
use policy_sync_testenv::fixtures::{gateway, managed_cluster, namespace};
use policy_sync_testenv::tenant::{LIMIT, Tenant};
use policy_sync_testenv::{Fleet, wait};
use serde_json::{Value, json};

use crate::run::{CommandOutput, command, finish};

/// Creates a tenant with its own clusters, on the hub that the tests with controllers share.
async fn tenant(name: &str, clusters: &[&str], placed: &[&str]) -> Result<Tenant<'static>> {
    let fleet = Fleet::shared_hub().await?;
    let tenant = Tenant::new(fleet.hub(), Path::new(env!("CARGO_BIN_EXE_policy-sync")), name, placed).await?;
    for cluster in clusters {
        tenant.apply(&namespace(cluster)).await?;
        tenant.apply(&managed_cluster(cluster, &Default::default())).await?;
    }
    Ok(tenant)
}

/// The Gateway of a tenant.
fn web(tenant: &Tenant<'_>) -> Value {
    gateway(tenant.name(), "web", tenant.name(), Some("all"))
}

fn explain_as(kubeconfig: &Path, tenant: &Tenant<'_>, arguments: &[&str]) -> CommandOutput {
    let mut command =
        command(&["explain", "--controller-name", &tenant.controller_name(), "-n", tenant.name()]);
    command.args(arguments).arg("--kubeconfig").arg(kubeconfig);
    finish(command, "")
}

/// Returns the explanation of `object` on `cluster`: the exit code, and the lines below the name of the cluster.
fn why(tenant: &Tenant<'_>, object: &[&str], cluster: &str) -> Result<(i32, Vec<String>)> {
    let ran = explain_as(tenant.hub().kubeconfig(), tenant, &[object, &["--cluster", cluster]].concat());
    ensure!(ran.stderr.is_empty(), "{ran:#?}");
    let (_, explanation) = ran.stdout.rsplit_once("\n\n").with_context(|| format!("{ran:#?}"))?;
    let mut lines = explanation.lines();
    ensure!(lines.next().is_some_and(|line| line.ends_with(&format!("on {cluster}:"))), "{ran:#?}");
    Ok((ran.code, lines.map(|line| line.trim().to_owned()).collect()))
}

const LIMITS: [&str; 2] = ["ratelimitpolicy", "limits"];

/// Checks that `limits` is not in force on `cluster`, for the reason `says`, and that the explanation names the object
/// `change`.
fn check_not_in_force(tenant: &Tenant<'_>, cluster: &str, says: &str, change: &str) -> Result<()> {
    ends_with(tenant, cluster, 1, says, change)
}

/// Like [`check_not_in_force`], with this exit code.
fn ends_with(tenant: &Tenant<'_>, cluster: &str, expected_code: i32, says: &str, change: &str) -> Result<()> {
    let (code, lines) = why(tenant, &LIMITS, cluster)?;
    let expected = [format!("- {says}."), format!("To change: {change}")];
    ensure!(
        code == expected_code && lines.len() >= 2 && lines[..2] == expected,
        "expected {expected:#?}, found exit code {code} and {lines:#?}"
    );
    Ok(())
}

/// Waits until the explanation of `object` on `cluster` contains this reason.
async fn until(
    tenant: &Tenant<'_>,
    object: &[&str],
    cluster: &str,
    code: i32,
    says: &str,
) -> Result<Vec<String>> {
    wait::until(&format!("{says} on {cluster}"), LIMIT, || async {
        let (found, lines) = why(tenant, object, cluster)?;
        ensure!(
            found == code && lines.iter().any(|line| line.contains(says)),
            "found exit code {found} and {lines:#?}"
        );
        Ok(lines)
    })
    .await
}

/// Sets the availability of a cluster on the hub.
pub(crate) async fn silence(tenant: &Tenant<'_>, cluster: &str, status: &str) -> Result<()> {
    let managed = managed_cluster(cluster, &Default::default());
    let (clusters, name) = policy_sync_testenv::apply::api_for(tenant.client(), &managed).await?;
    let available = json!({"type": "ManagedClusterConditionAvailable", "status": status, "reason": "R", "message": "",
        "lastTransitionTime": "2026-01-02T00:00:00Z"});
    let patch = kube::api::Patch::Merge(json!({"status": {"conditions": [available]}}));
    clusters.patch_status(&name, &Default::default(), &patch).await?;
    Ok(())
}
