//! The steps about authorization: a Rego policy denies requests of a user.

use std::process::Output;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use kube::Client;
use kube::api::DeleteParams;
use policy_sync_testenv::apply::{api_for, apply};
use policy_sync_testenv::certificates::User;
use policy_sync_testenv::rights::everything;
use policy_sync_testenv::wait;
use serde_json::{Value, json};

use super::{LIMIT, SHOP};
use crate::demo::Demo;
use crate::placement::POLICIES;
use crate::report::Report;

/// The published Rego policy.
const EXEC: &str = include_str!("../../../../docs/examples/rego/gates/exec.rego");
/// The message of the Rego policy's denials.
const WORDS: &str = "exec: no exec in pods of kube-system";
/// The API server's error for an allowed exec in a pod that no node runs.
const LET_IN: &str = "does not have a host assigned";
/// A user with all rights, subject to Rego policies.
const JANE: &str = "jane";

/// Runs all steps.
pub(super) async fn run_steps(demo: &Demo, hub: &Client, report: &Report) -> Result<()> {
    report.step("The API server authorizes each request with the controller first");
    for namespace in ["kube-system", SHOP] {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "dns", "namespace": namespace},
            "spec": {"containers": [{"name": "dns", "image": "registry.example/dns:1"}]}});
        apply(hub, &pod).await?;
    }
    apply(hub, &everything(JANE)).await?;
    demo.authorize().await?;
    report.print("kube-apiserver --authorization-config=ocm-manifests/authorize/authorization.yaml");
    until_denied(demo, "kube-system", LET_IN).await?;
    report
        .print_result("without a policy the controller has no opinion, and jane has the rights of her roles");

    report.step("An administrator denies commands in pods of the system");
    apply(hub, &policy()).await?;
    report.print(&format!("ConfigMap {POLICIES}/access: exec.rego"));
    let output = until_denied(demo, "kube-system", WORDS).await?;
    report.print("$ kubectl exec -n kube-system dns -- ls    # as jane");
    report.excerpt(&output.trim().into());
    until_denied(demo, SHOP, LET_IN).await?;
    report.print_result("in other namespaces jane may run commands");

    report.step("The policy is deleted");
    let (api, name) = api_for(hub, &policy()).await?;
    let began = Instant::now();
    api.delete(&name, &DeleteParams::default()).await?;
    until_denied(demo, "kube-system", LET_IN).await?;
    report
        .print_result(&format!("jane may run commands there, too, after {} ms", began.elapsed().as_millis()));

    report.step("The controller is stopped");
    demo.stop_controller().await?;
    let list = ["get", "pods", "-n", SHOP, "--request-timeout=10s"];
    let output = wait::until("jane is denied", LIMIT, || async {
        let (succeeds, output) = kubectl(demo, Some(JANE), &list)?;
        ensure!(!succeeds, "her request is allowed: {output}");
        Ok(output)
    })
    .await?;
    report.print_result("users that authorization.yaml names are denied everything, as configured:");
    report.excerpt(&output.lines().next_back().unwrap_or_default().into());
    let (succeeds, output) = kubectl(demo, None, &list)?;
    ensure!(succeeds, "an administrator is denied: {output}");
    report.print_result("no others are denied: not the group system:masters, and no component of Kubernetes");
    Ok(())
}

fn policy() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "access", "namespace": POLICIES},
        "data": {"exec.rego": EXEC}})
}

/// Waits until `kubectl exec` by jane in a pod of `namespace` fails with this text.
async fn until_denied(demo: &Demo, namespace: &str, words: &str) -> Result<String> {
    wait::until("kubectl exec has a result", LIMIT, || async {
        let (_, output) = kubectl(demo, Some(JANE), &["exec", "-n", namespace, "dns", "--", "ls"])?;
        ensure!(output.contains(words), "{output}");
        Ok(output)
    })
    .await
}

/// Runs `kubectl` as a user or an administrator. Returns whether the command succeeded, and its standard error output.
fn kubectl(demo: &Demo, user: Option<&str>, arguments: &[&str]) -> Result<(bool, String)> {
    let mut kubectl = match user {
        Some(user) => demo.kubectl_as(&User::new(user))?,
        None => demo.kubectl(),
    };
    let Output { status, stderr, .. } = kubectl.args(arguments).output().context("running kubectl")?;
    Ok((status.success(), String::from_utf8_lossy(&stderr).into_owned()))
}
