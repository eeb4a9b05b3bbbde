//! What the samples say works as they say it: applied with kubectl, they let the controller do its work with the rights
//! that they give it, and with no request refused.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use policy_sync::api::annotations::{POLICIES_SYNCED_SUMMARY, Summary};
use policy_sync_testenv::apply::{api_for, apply_all, apply_status, apply_with_status};
use policy_sync_testenv::certificates::User;
use policy_sync_testenv::{ControlPlane, Controller, Fleet, fixtures, wait};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(60);

/// As the ServiceAccount of `ocm-manifests/hub` is known to the API server.
fn service_account() -> User {
    User::new("system:serviceaccount:policy-sync:policy-sync").in_group("system:serviceaccounts")
}

fn kubectl_apply(hub: &ControlPlane, folder: &str) -> Result<()> {
    let cache = tempfile::tempdir()?;
    let output = Command::new(&hub.binaries().kubectl)
        .arg(format!("--kubeconfig={}", hub.kubeconfig().display()))
        .arg(format!("--cache-dir={}", cache.path().display()))
        .args(["apply", "-k"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder))
        .output()
        .context("running kubectl")?;
    ensure!(output.status.success(), "{folder}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

#[tokio::test]
async fn the_samples_let_a_policy_travel() -> Result<()> {
    let fleet = Fleet::shared().await?;
    let hub = fleet.hub();
    for folder in ["ocm-manifests/hub", "ocm-manifests/placement", "gatewayclass-params"] {
        kubectl_apply(hub, folder)?;
    }
    let client = hub.client()?;
    // What Open Cluster Management's placement controller would write.
    let decision = fixtures::placement_decision("shop", "everywhere", 1, &["eu-1", "us-1"]);
    apply_with_status(&client, &decision).await?;
    apply_status(&client, &fixtures::placement("shop", "everywhere", 2)).await?;

    let binary = Path::new(env!("CARGO_BIN_EXE_policy-sync"));
    let namespace = ["--leader-elect-namespace=policy-sync"];
    let mut controller = Controller::launch(binary, hub, &namespace, Some(service_account()))?;
    controller.ready().await?;

    let class = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": { "name": "multi-cluster" }
    });
    for condition in ["Accepted", "PoliciesResolved"] {
        condition_is_true(hub, &class, condition).await?;
    }
    let policy = fixtures::rate_limit_policy("shop", "limits", "web");
    let gateway = fixtures::gateway("shop", "web", "multi-cluster", Some("everywhere"));
    apply_all(&client, [&gateway, &policy]).await?;
    let (policies, name) = api_for(&client, &policy).await?;
    wait::until("both spokes enforce the policy", LIMIT, || async {
        let found = policies.get(&name).await?;
        let text = found.annotations().get(POLICIES_SYNCED_SUMMARY).context("no summary")?;
        let summary: Summary = serde_json::from_str(text)?;
        ensure!(summary.synced && summary.enforced == 2, "{text}");
        Ok(())
    })
    .await?;
    policies.delete(&name, &Default::default()).await?;
    let (copies, _) = api_for(
        &fleet.spoke("eu-1")?.client()?,
        &fixtures::rate_limit_policy("kuadrant-shop", "limits", "web"),
    )
    .await?;
    wait::until("the copy leaves eu-1", LIMIT, || async {
        ensure!(copies.get_opt(&name).await?.is_none(), "it is still there");
        Ok(())
    })
    .await?;

    let (code, readiness) = controller.readiness().await?;
    ensure!(code == 200 && !readiness.contains("[!]"), "{readiness}");
    let requests = controller.requests(hub)?;
    ensure!(!requests.is_empty(), "no request of the controller is in the audit log");
    let refused: Vec<_> = requests.iter().filter(|request| matches!(request.code(), 401 | 403)).collect();
    ensure!(refused.is_empty(), "{refused:#?}");
    Ok(())
}

async fn condition_is_true(hub: &ControlPlane, object: &Value, condition: &str) -> Result<()> {
    let (api, name) = api_for(&hub.client()?, object).await?;
    wait::until(&format!("{name} is {condition}"), LIMIT, || async {
        let found = api.get(&name).await?;
        let conditions = found.data["status"]["conditions"].as_array().context("no conditions")?;
        let said = conditions.iter().find(|c| c["type"] == condition).context("not said yet")?;
        ensure!(said["status"] == "True", "{said}");
        Ok(())
    })
    .await
}

/// Rights that would let who controls the controller give themselves any other.
#[test]
fn the_hub_role_has_no_way_up() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("ocm-manifests/hub");
    let mut rules = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        for rule in objects.iter().filter_map(|object| object["rules"].as_array()).flatten() {
            rules += 1;
            let words = ["apiGroups", "resources", "verbs"].map(|key| rule[key].as_array().unwrap());
            for word in words.into_iter().flatten() {
                let word = word.as_str().unwrap();
                let forbidden = ["*", "escalate", "bind", "impersonate", "secrets", "deletecollection"];
                assert!(!forbidden.contains(&word), "{rule}");
            }
        }
    }
    assert!(rules > 0);
}
