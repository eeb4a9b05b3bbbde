//! The steps about audit: a Rego policy is created after objects that violate it.

use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use kube::Client;
use kube::api::DeleteParams;
use policy_sync_testenv::apply::{api_for, apply};
use policy_sync_testenv::{crds, fixtures, wait};
use serde_json::{Value, json};

use super::{LIMIT, SHOP};
use crate::demo::Demo;
use crate::look;
use crate::placement::POLICIES;
use crate::report::Report;

/// The published Rego policy.
const LABELS: &str = include_str!("../../../../docs/examples/rego/gates/required-labels.rego");

/// A Namespace that violates the Rego policy, in addition to [`SHOP`].
const LEGACY: &str = "legacy";
/// Namespaces that the controller exempts. The controller's own namespace is `default`, as in the kubeconfig.
const EXEMPT: &str = "kube-*,default";

/// Runs all steps.
pub(super) async fn run_steps(demo: &Demo, hub: &Client, report: &Report) -> Result<()> {
    report.step("A policy is created after objects that violate it: Namespaces without an owner label");
    crds::install(hub, &crds::reports()?).await?;
    apply(hub, &fixtures::namespace(LEGACY)).await?;
    apply(hub, &policy()).await?;
    report.print(&format!("ConfigMap {POLICIES}/labels: required-labels.rego"));
    let table = until_reported(demo, hub, &[LEGACY, SHOP]).await?;
    report.print(&format!("$ policy-sync audit --rego-namespace {POLICIES} --exempt-namespaces '{EXEMPT}'"));
    report.excerpt(&table.trim().into());
    report
        .print_result("the ClusterReport policy-sync and the metric policy_sync_violations have the same 4");

    report.step("One violation is fixed");
    let labelled = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": SHOP, "labels": {"team": SHOP, "cost-center": "7"}}});
    apply(hub, &labelled).await?;
    until_reported(demo, hub, &[LEGACY]).await?;
    report.print_result("it disappears from all three");
    let (api, name) = api_for(hub, &policy()).await?;
    api.delete(&name, &DeleteParams::default()).await?;
    look::gone(hub, "the report is deleted with the policy", &cluster_report()).await
}

fn policy() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "labels", "namespace": POLICIES},
        "data": {"required-labels.rego": LABELS}})
}

fn cluster_report() -> Value {
    json!({"apiVersion": "openreports.io/v1alpha1", "kind": "ClusterReport", "metadata": {"name": "policy-sync"}})
}

/// Waits until the report, the metric and the command show exactly the two missing labels of each of these
/// Namespaces. Returns the command's output.
async fn until_reported(demo: &Demo, hub: &Client, namespaces: &[&str]) -> Result<String> {
    let count = 2 * namespaces.len();
    look::there(hub, "the ClusterReport has all violations", &cluster_report(), |report| {
        ensure!(report.data["summary"]["fail"] == count, "{}", report.data["summary"]);
        Ok(())
    })
    .await?;
    wait::until("the metric counts all violations", LIMIT, || async {
        let metrics = demo.metrics().await?;
        let found = metrics.value("policy_sync_violations", &[("enforcement", "deny")])?;
        ensure!(found == count as f64, "the value is {found}");
        Ok(())
    })
    .await?;
    let Output { status, stdout, stderr } = Command::new(demo.program())
        .args(["audit", "--rego-namespace", POLICIES, "--exempt-namespaces", EXEMPT, "--kubeconfig"])
        .arg(demo.kubeconfig())
        .output()
        .context("running policy-sync")?;
    let (table, stderr) = (String::from_utf8(stdout)?, String::from_utf8_lossy(&stderr).into_owned());
    ensure!(status.code() == Some(1), "the command exited with {status}: {stderr}");
    let rows = table.lines().skip(1).map(|row| row.split_whitespace().nth(3).unwrap_or_default());
    let expected = namespaces.iter().flat_map(|namespace| [*namespace; 2]);
    ensure!(rows.eq(expected), "{table}");
    Ok(table)
}
