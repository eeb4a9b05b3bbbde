//! The sample manifests: applied with kubectl, they allow a policy to be synced, and the controller uses
//! exactly the rights of the chart.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::{Api, ResourceExt};
use policy_sync_api::annotations::{POLICIES_SYNCED_SUMMARY, Summary};
use policy_sync_api::cluster::PLACEMENT_LABEL;
use policy_sync_api::names::ControllerName;
use policy_sync_testenv::apply::{api_for, apply_all, apply_status, apply_with_status};
use policy_sync_testenv::ports::Port;
use policy_sync_testenv::{ControlPlane, Fleet, fixtures, wait};
use serde_json::{Value, json};

use crate::helm::{Helm, Release, required};
use crate::kubectl::kubectl;
use crate::{rego, rights};

const LIMIT: Duration = Duration::from_secs(60);

/// Applies `folder` with kubectl. The calls are serialized, because kubectl fails if another process creates the same
/// object.
fn kubectl_apply(plane: &ControlPlane, folder: &str) -> Result<()> {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    kubectl(plane, &["apply", "--validate=strict", "-k", &path(folder)]).map(drop)
}

/// The objects of a folder.
fn objects_of(plane: &ControlPlane, folder: &str) -> Result<Vec<Value>> {
    Ok(serde_saphyr::from_multiple(&kubectl(plane, &["kustomize", &path(folder)])?)?)
}

fn path(folder: &str) -> String {
    format!("{}/{folder}", env!("CARGO_MANIFEST_DIR"))
}

/// Whether `found` contains all fields of `wanted`.
fn has(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => {
            wanted.iter().all(|(key, wanted)| found.get(key).is_some_and(|found| has(found, wanted)))
        }
        (Value::Array(found), Value::Array(wanted)) => {
            found.len() == wanted.len() && found.iter().zip(wanted).all(|(found, wanted)| has(found, wanted))
        }
        (found, wanted) => found == wanted,
    }
}

#[tokio::test]
async fn ocm_manifests_apply_to_a_hub_unchanged() -> Result<()> {
    let fleet = Fleet::shared().await?;
    let (hub, eu) = (fleet.hub(), fleet.spoke("eu-1")?);
    let mut kinds = BTreeSet::new();
    for (folder, plane) in [("ocm-manifests/placement", hub), ("ocm-manifests/spoke", eu.control_plane())] {
        // Applying the folder twice causes no error.
        kubectl_apply(plane, folder)?;
        kubectl_apply(plane, folder)?;
        for object in objects_of(plane, folder)? {
            let (api, name) = api_for(&plane.client()?, &object).await?;
            let found = serde_json::to_value(api.get(&name).await?)?;
            ensure!(has(&found, &object), "{folder}: {object} became {found}");
            kinds.insert(object["kind"].as_str().unwrap_or_default().to_owned());
        }
    }
    for kind in ["ManagedClusterSet", "ManagedClusterSetBinding", "Placement", "ClusterRole"] {
        ensure!(kinds.contains(kind), "no {kind} in {kinds:?}");
    }
    Ok(())
}

#[tokio::test]
async fn samples_are_sufficient_to_sync_a_policy() -> Result<()> {
    let fleet = Fleet::shared().await?;
    let hub = fleet.hub();
    for folder in ["gatewayclass-params", "ocm-manifests/placement"] {
        kubectl_apply(hub, folder)?;
    }
    let client = hub.client()?;
    let release = Release("policy-sync", "policy-sync");
    let mut values = required();
    values["rbac"] = json!({
        "policyKinds": [{ "group": "kuadrant.io", "resources": ["authpolicies", "ratelimitpolicies"] }],
        "tlsSecrets": true,
    });
    values["rego"] = json!({ "kinds": [{ "group": "", "resources": ["services"] }] });
    let helm = Helm::of(hub).await?;
    helm.install(release, &values)?;
    let rendered = helm.template(release, &values)?;
    // The decision of Open Cluster Management's placement controller.
    let decision = fixtures::placement_decision("shop", "everywhere", 1, &["eu-1", "us-1"]);
    apply_with_status(&client, &decision).await?;
    apply_status(&client, &fixtures::placement("shop", "everywhere", 2)).await?;

    rights::route_across_namespaces(hub).await?;
    let port = Port::reserve()?;
    let controller = rights::reviewer(hub, release, &rendered, &port).await?;

    let class = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": { "name": "multi-cluster" }
    });
    for condition in ["Accepted", "PoliciesResolved"] {
        condition_is_true(hub, &class, condition).await?;
    }
    let policy = fixtures::rate_limit_policy("shop", "limits", "web");
    let auth = fixtures::auth_policy("shop", "everyone", "web");
    let gateway = fixtures::gateway("shop", "web", "multi-cluster", Some("everywhere"));
    apply_all(&client, [&gateway, &policy, &auth]).await?;
    access_work_has_sample_role(hub, fleet).await?;
    let (policies, name) = api_for(&client, &policy).await?;
    wait::until("both spokes enforce the policy", LIMIT, || async {
        let found = policies.get(&name).await?;
        let text = found.annotations().get(POLICIES_SYNCED_SUMMARY).context("no summary")?;
        let summary: Summary = serde_json::from_str(text)?;
        ensure!(summary.synced && summary.enforced == 2, "{text}");
        Ok(())
    })
    .await?;
    condition_is_true(hub, &gateway, "Programmed").await?;
    rights::check_viewer_permissions(hub, &rendered).await?;
    policies.delete(&name, &Default::default()).await?;
    let (copies, _) = api_for(
        &fleet.spoke("eu-1")?.client()?,
        &fixtures::rate_limit_policy("kuadrant-shop", "limits", "web"),
    )
    .await?;
    wait::until("the copy on eu-1 is deleted", LIMIT, || async {
        ensure!(copies.get_opt(&name).await?.is_none(), "the copy exists");
        Ok(())
    })
    .await?;

    secret_is_copied(fleet).await?;
    rego::check_evaluation(hub, release, &rendered, &port).await?;
    rights::exercise_rare_operations(hub, &policy, &auth).await?;

    let (code, readiness) = controller.readiness().await?;
    ensure!(code == 200 && !readiness.contains("[!]"), "{readiness}");
    rights::check_used_permissions(hub, release, &rendered)
}

/// Checks that the access work has the role in the sample manifests.
async fn access_work_has_sample_role(hub: &ControlPlane, fleet: &Fleet) -> Result<()> {
    let [written] = &objects_of(hub, "ocm-manifests/spoke")?[..] else {
        anyhow::bail!("the sample does not have exactly one object")
    };
    let name = format!("policy-sync-{}", ControllerName::new("kuadrant.io/policy-sync").hash());
    let shipped: Api<ClusterRole> = Api::all(fleet.spoke("us-1")?.client()?);
    wait::until("the agent's role is as in the sample", LIMIT, || async {
        let shipped = serde_json::to_value(shipped.get(&name).await?)?;
        ensure!(shipped["rules"] == written["rules"], "role: {shipped}");
        ensure!(shipped["metadata"]["labels"] == written["metadata"]["labels"], "role: {shipped}");
        Ok(())
    })
    .await
}

/// Checks that a Secret is copied after the parameters of the sample class enable the copying of Secrets.
async fn secret_is_copied(fleet: &Fleet) -> Result<()> {
    let client = fleet.hub().client()?;
    let text = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("gatewayclass-params/parameters.yaml"),
    )?;
    let mut parameters: Value = serde_saphyr::from_str(&text)?;
    let mut params: Value =
        serde_json::from_str(parameters["data"]["params"].as_str().context("no params")?)?;
    params["tlsSecrets"] = json!("copy");
    parameters["data"]["params"] = params.to_string().into();
    let secret = fixtures::tls_secret("shop", "certificate", "a key");
    let mut gateway =
        fixtures::https_gateway("shop", "secure", "multi-cluster", &[json!({ "name": "certificate" })]);
    gateway["metadata"]["labels"][PLACEMENT_LABEL] = "everywhere".into();
    apply_all(&client, [&parameters, &secret, &gateway]).await?;
    let copy = fixtures::tls_secret("kuadrant-shop", "certificate", "");
    let (copies, name) = api_for(&fleet.spoke("eu-1")?.client()?, &copy).await?;
    wait::until("the Secret exists on eu-1", LIMIT, || async {
        ensure!(copies.get_opt(&name).await?.is_some(), "no Secret");
        Ok(())
    })
    .await
}

async fn condition_is_true(hub: &ControlPlane, object: &Value, condition: &str) -> Result<()> {
    let (api, name) = api_for(&hub.client()?, object).await?;
    wait::until(&format!("{condition} of {name} is True"), LIMIT, || async {
        let found = api.get(&name).await?;
        let conditions = found.data["status"]["conditions"].as_array().context("no conditions")?;
        let reported = conditions.iter().find(|c| c["type"] == condition).context("no such condition")?;
        ensure!(reported["status"] == "True", "{reported}");
        Ok(())
    })
    .await
}
