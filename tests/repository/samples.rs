//! What the samples say works as they say it: applied with kubectl, they let the controller do its work with the rights
//! that they give it, and with no request refused.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::{Api, ResourceExt};
use policy_sync::api::annotations::{POLICIES_SYNCED_SUMMARY, Summary};
use policy_sync::api::cluster::PLACEMENT_LABEL;
use policy_sync::api::names::ControllerName;
use policy_sync_testenv::apply::{api_for, apply_all, apply_status, apply_with_status};
use policy_sync_testenv::certificates::User;
use policy_sync_testenv::{ControlPlane, Controller, Fleet, fixtures, wait};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(60);

/// As the ServiceAccount of `ocm-manifests/hub` is known to the API server.
fn service_account() -> User {
    User::new("system:serviceaccount:policy-sync:policy-sync").in_group("system:serviceaccounts")
}

/// Lets kubectl do something with a folder, on a cluster.
fn kubectl(plane: &ControlPlane, arguments: &[&str], folder: &Path) -> Result<String> {
    let cache = tempfile::tempdir()?;
    let output = Command::new(&plane.binaries().kubectl)
        .arg(format!("--kubeconfig={}", plane.kubeconfig().display()))
        .arg(format!("--cache-dir={}", cache.path().display()))
        .args(arguments)
        .arg(folder)
        .output()
        .context("running kubectl")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {said}", folder.display());
    Ok(String::from_utf8(output.stdout)?)
}

/// One at a time: of two that create the same object, kubectl lets one fail.
fn kubectl_apply(plane: &ControlPlane, folder: &str) -> Result<()> {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    kubectl(plane, &["apply", "--validate=strict", "-k"], &folder).map(drop)
}

/// The objects of a folder.
fn objects_of(plane: &ControlPlane, folder: &str) -> Result<Vec<Value>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    Ok(serde_saphyr::from_multiple(&kubectl(plane, &["kustomize"], &folder)?)?)
}

/// Whether `found` has all that `wanted` says.
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
async fn all_that_open_cluster_management_needs_applies_to_a_hub_and_stays_as_it_is_written() -> Result<()> {
    let fleet = Fleet::shared().await?;
    let (hub, eu) = (fleet.hub(), fleet.spoke("eu-1")?);
    let mut kinds = BTreeSet::new();
    for (folder, plane) in [("ocm-manifests", hub), ("ocm-manifests/spoke", eu.control_plane())] {
        // Whoever applies it twice sees no error either.
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
        ensure!(kinds.contains(kind), "{kind} is not among {kinds:?}");
    }
    Ok(())
}

#[tokio::test]
async fn the_samples_let_a_policy_travel() -> Result<()> {
    let fleet = Fleet::shared().await?;
    let hub = fleet.hub();
    for folder in ["ocm-manifests", "gatewayclass-params"] {
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
    let auth = fixtures::auth_policy("shop", "everyone", "web");
    let gateway = fixtures::gateway("shop", "web", "multi-cluster", Some("everywhere"));
    apply_all(&client, [&gateway, &policy, &auth]).await?;
    shipped_as_it_is_written(hub, fleet).await?;
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

    a_secret_travels(fleet).await?;

    let (code, readiness) = controller.readiness().await?;
    ensure!(code == 200 && !readiness.contains("[!]"), "{readiness}");
    let requests = controller.requests(hub)?;
    ensure!(!requests.is_empty(), "no request of the controller is in the audit log");
    let refused: Vec<_> = requests.iter().filter(|request| matches!(request.code(), 401 | 403)).collect();
    ensure!(refused.is_empty(), "{refused:#?}");
    Ok(())
}

/// The role in the access work is the one that stands beside the samples.
async fn shipped_as_it_is_written(hub: &ControlPlane, fleet: &Fleet) -> Result<()> {
    let [written] = &objects_of(hub, "ocm-manifests/spoke")?[..] else {
        anyhow::bail!("one role is written")
    };
    let name = format!("policy-sync-{}", ControllerName::new("kuadrant.io/policy-sync").hash());
    let shipped: Api<ClusterRole> = Api::all(fleet.spoke("us-1")?.client()?);
    wait::until("the agent has all of its rights", LIMIT, || async {
        let shipped = serde_json::to_value(shipped.get(&name).await?)?;
        ensure!(shipped["rules"] == written["rules"], "it is {shipped}");
        ensure!(shipped["metadata"]["labels"] == written["metadata"]["labels"], "it is {shipped}");
        Ok(())
    })
    .await
}

/// Once the parameters of the sample class say so, with the rights for it applied before.
async fn a_secret_travels(fleet: &Fleet) -> Result<()> {
    let (hub, client) = (fleet.hub(), fleet.hub().client()?);
    kubectl_apply(hub, "ocm-manifests/hub-tls-secrets")?;
    let text = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("gatewayclass-params/parameters.yaml"),
    )?;
    let mut parameters: Value = serde_saphyr::from_str(&text)?;
    let mut params: Value = serde_json::from_str(parameters["data"]["params"].as_str().context("params")?)?;
    params["tlsSecrets"] = json!("copy");
    parameters["data"]["params"] = params.to_string().into();
    let secret = fixtures::tls_secret("shop", "certificate", "a key");
    let mut gateway =
        fixtures::https_gateway("shop", "secure", "multi-cluster", &[json!({ "name": "certificate" })]);
    gateway["metadata"]["labels"][PLACEMENT_LABEL] = "everywhere".into();
    apply_all(&client, [&parameters, &secret, &gateway]).await?;
    let copy = fixtures::tls_secret("kuadrant-shop", "certificate", "");
    let (copies, name) = api_for(&fleet.spoke("eu-1")?.client()?, &copy).await?;
    wait::until("the Secret is on eu-1", LIMIT, || async {
        ensure!(copies.get_opt(&name).await?.is_some(), "it is not there");
        Ok(())
    })
    .await
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

/// With these the controller reads Secrets, and nothing else.
#[test]
fn the_rights_for_secrets_are_only_to_read_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("ocm-manifests/hub-tls-secrets");
    let text = std::fs::read_to_string(folder.join("tls-secrets.yaml")).unwrap();
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let rules: Vec<&Value> =
        objects.iter().filter_map(|object| object["rules"].as_array()).flatten().collect();
    let read = json!(["list", "watch"]);
    let expected = [
        json!({"apiGroups": [""], "resources": ["secrets"], "verbs": read}),
        json!({"apiGroups": ["gateway.networking.k8s.io"], "resources": ["referencegrants"], "verbs": read}),
    ];
    assert_eq!(rules, expected.iter().collect::<Vec<_>>());
}

/// Rights that would let who controls the controller give themselves any other.
#[test]
fn the_roles_have_no_way_up() {
    let files = |folder: &str| std::fs::read_dir(format!("{}/{folder}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let mut rules = 0;
    for file in ["ocm-manifests/hub", "ocm-manifests/spoke"].into_iter().flat_map(files) {
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
