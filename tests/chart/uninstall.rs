//! Uninstalling leaves the spokes unchanged, and a new release takes over. The commands for withdrawal in
//! `docs/operations.md` remove everything from the spokes.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use policy_sync_api::annotations::CONTROLLER;
use policy_sync_api::names::ControllerName;
use policy_sync_api::work::ManifestWork;
use policy_sync_testenv::apply::{api_for, apply_all, apply_with_status};
use policy_sync_testenv::audit::{ObjectRef, Request};
use policy_sync_testenv::{ControlPlane, Fleet, FleetOptions, fixtures, wait};
use serde_json::{Value, json};

use crate::helm::{Helm, Release, required};
use crate::kubectl::{kubectl, refused};
use crate::rights;

const LIMIT: Duration = Duration::from_secs(120);
const OPERATIONS: &str = include_str!("../../docs/operations.md");
const RELEASE: Release<'_> = Release("policy-sync", "policy-sync");
/// Kinds whose objects stay after an uninstall.
const KEPT: [&str; 4] = ["GatewayClass", "ConfigMap", "Namespace", "CustomResourceDefinition"];

/// The uid and the generation of each work of the controller, by the work's namespace and name.
async fn works(hub: &ControlPlane) -> Result<BTreeMap<String, (Option<String>, Option<i64>)>> {
    let works: Api<ManifestWork> = Api::all(hub.client()?);
    let found = works.list(&ListParams::default().labels(&selector())).await?;
    let described = |work: ManifestWork| {
        let place = format!("{}/{}", work.namespace().unwrap_or_default(), work.name_any());
        (place, (work.metadata.uid, work.metadata.generation))
    };
    Ok(found.into_iter().map(described).collect())
}

fn controller_hash() -> String {
    ControllerName::new("kuadrant.io/policy-sync").hash().to_string()
}

fn selector() -> String {
    format!("{CONTROLLER}={}", controller_hash())
}

/// Waits until an annotation of `object` has `text`.
async fn until_annotated(hub: &ControlPlane, object: &Value, text: &str) -> Result<()> {
    let (api, name) = api_for(&hub.client()?, object).await?;
    wait::until(&format!("an annotation of {name} contains {text}"), LIMIT, || async {
        let found = api.get(&name).await?;
        ensure!(found.annotations().values().any(|value| value.contains(text)), "{:?}", found.annotations());
        Ok(())
    })
    .await
}

// Worker threads run the agents while the test waits for Helm and kubectl.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uninstall_keeps_objects_on_spokes_and_withdrawal_removes_them() -> Result<()> {
    let fleet = Fleet::start(FleetOptions::spokes(["eu-1", "us-1"])).await?;
    let hub = fleet.hub();
    let client = hub.client()?;
    let helm = Helm::of(hub).await?;
    let mut values = required();
    let kind = json!({ "group": "kuadrant.io", "version": "v1", "resource": "ratelimitpolicies" });
    values["gatewayClass"] = json!({ "create": true, "parameters": { "policiesToSync": [kind] } });
    let rendered = helm.template(RELEASE, &values)?;
    helm.install(RELEASE, &values)?;
    let controller = rights::controller(hub, RELEASE, &rendered).await?;

    let policy = fixtures::rate_limit_policy("shop", "limits", "web");
    let gateway = fixtures::gateway("shop", "web", "multi-cluster", Some("everywhere"));
    apply_all(&client, [&fixtures::namespace("shop")]).await?;
    apply_with_status(&client, &fixtures::placement_decision("shop", "everywhere", 1, &["eu-1", "us-1"]))
        .await?;
    apply_with_status(&client, &fixtures::placement("shop", "everywhere", 2)).await?;
    apply_all(&client, [&gateway, &policy]).await?;
    until_annotated(hub, &policy, r#""applied":2"#).await?;
    until_annotated(hub, &gateway, "eu-1").await?;
    controller.settled(hub).await?;
    let before = works(hub).await?;
    ensure!(before.len() == 6, "{before:?}");

    // After the uninstall, the pods still run for a while, but nothing is deleted. The GatewayClass still exists.
    // A controller withdraws works only after the class has been missing for a minute. Rego policies stay as
    // well, but are not evaluated.
    let kept = async || {
        let mut uids = Vec::new();
        for object in KEPT.into_iter().flat_map(|kind| rendered.all(kind)) {
            let (api, name) = api_for(&client, object).await?;
            uids.push(api.get(&name).await.with_context(|| format!("{name} is missing"))?.metadata.uid);
        }
        anyhow::Ok(uids)
    };
    let before_it = kept().await?;
    ensure!(before_it.len() == KEPT.len(), "{before_it:?}");
    helm.run(&["uninstall", RELEASE.0, "--namespace", RELEASE.1], None)?;
    let until = tokio::time::Instant::now() + Duration::from_secs(10);
    while tokio::time::Instant::now() < until {
        ensure!(works(hub).await? == before, "works changed: {:?}", works(hub).await?);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    controller.terminate().await?;
    ensure!(works(hub).await? == before, "works changed: {:?}", works(hub).await?);

    ensure!(kept().await? == before_it, "kept objects were recreated");
    for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "Service", "Secret"] {
        let (api, name) = api_for(&client, rendered.one(kind)?).await?;
        ensure!(api.get_opt(&name).await?.is_none(), "the {kind} {name} exists");
    }

    // A new release takes over.
    let begun = MicroTime(Timestamp::now());
    helm.install(RELEASE, &values)?;
    let controller = rights::controller(hub, RELEASE, &rendered).await?;
    let mut writes = controller.settled(hub).await?;
    writes.retain(|write| write.stage_timestamp > begun);
    let allowed = |write: &Request| {
        let ObjectRef { resource, subresource, .. } = write.object();
        // The uninstall has deleted the certificate of the webhooks.
        let of_webhooks = [("secrets", ""), ("selfsubjectreviews", "")];
        let place = (resource.as_str(), subresource.as_str());
        place == ("gatewayclasses", "status") || of_webhooks.contains(&place)
    };
    ensure!(writes.iter().all(allowed), "the new release wrote {writes:#?}");
    ensure!(works(hub).await? == before, "works changed: {:?}", works(hub).await?);

    withdraw(&fleet, &policy, &gateway).await
}

#[tokio::test]
async fn renamed_release_takes_over_the_class_with_take_ownership() -> Result<()> {
    let hub = Fleet::shared_hub().await?.hub();
    let helm = Helm::of(hub).await?;
    let mut values = required();
    values["controller"] = json!({ "name": "example.com/moves" });
    values["gatewayClass"] = json!({ "create": true, "name": "moves" });
    values["rego"] = json!({ "namespace": { "name": "moves-policies" } });
    // Another release of the shared hub has installed the CustomResourceDefinition.
    values["crds"] = json!({ "enabled": false });
    let (first, second) = (Release("policy-sync", "moves"), Release("hub-policy-sync", "moves"));
    helm.install(first, &values)?;
    helm.run(&["uninstall", first.0, "--namespace", first.1], None)?;
    let error = helm.refused(&second.arguments("install"), Some(&values))?;
    ensure!(error.contains("invalid ownership metadata"), "{error}");
    let takes = "--take-ownership";
    let command =
        "helm install hub-policy-sync charts/policy-sync --namespace policy-sync --values values.yaml";
    ensure!(
        OPERATIONS.contains(&format!("    {command} {takes}\n")),
        "docs/operations.md does not contain the command"
    );
    helm.run(&[&second.arguments("install")[..], &[takes]].concat(), Some(&values))?;
    let class = fixtures::gateway_class("moves", "example.com/moves", None);
    let (classes, name) = api_for(&hub.client()?, &class).await?;
    let class = classes.get(&name).await?;
    ensure!(class.annotations()["meta.helm.sh/release-name"] == second.0, "{:?}", class.annotations());
    ensure!(class.data["spec"]["parametersRef"]["name"] == "hub-policy-sync-parameters", "{:?}", class.data);
    let (namespaces, name) = api_for(&hub.client()?, &fixtures::namespace("moves-policies")).await?;
    let namespace = namespaces.get(&name).await?;
    ensure!(
        namespace.annotations()["meta.helm.sh/release-name"] == second.0,
        "{:?}",
        namespace.annotations()
    );
    Ok(())
}

/// Withdraws everything with the commands in `docs/operations.md`. One spoke does not respond at first.
async fn withdraw(fleet: &Fleet, policy: &Value, gateway: &Value) -> Result<()> {
    let hub = fleet.hub();
    let us = fleet.spoke("us-1")?;
    us.stop_agent().await;
    let selected = "manifestworks --all-namespaces --selector kuadrant.io/controller=<hash>";
    let [waiting, getting] =
        [format!("wait --for=delete {selected} --timeout=5m"), format!("get {selected}")];
    for command in ["delete gatewayclass multi-cluster", &waiting, &getting] {
        ensure!(
            OPERATIONS.contains(&format!("    kubectl {command}\n")),
            "docs/operations.md does not contain {command}"
        );
    }
    let with_hash = |command: &str| command.replace("<hash>", &controller_hash());
    let (waiting, getting) = (with_hash(&waiting), with_hash(&getting));
    kubectl(hub, &["delete", "gatewayclass", "multi-cluster"])?;
    wait::until("the works of eu-1 are deleted", LIMIT, || async {
        let left = works(hub).await?;
        ensure!(!left.is_empty() && left.keys().all(|work| work.starts_with("us-1/")), "{left:?}");
        Ok(())
    })
    .await?;
    refused(hub, &waiting.replace("5m", "1s").split(' ').collect::<Vec<_>>())?;
    let named = kubectl(hub, &getting.split(' ').collect::<Vec<_>>())?;
    for work in works(hub).await?.keys() {
        let (cluster, name) = work.split_once('/').context("the key has no namespace")?;
        let is_named = |line: &str| line.split_whitespace().take(2).eq([cluster, name]);
        ensure!(named.lines().any(is_named), "{work} is not listed: {named}");
    }
    us.start_agent().await?;
    kubectl(hub, &waiting.split(' ').collect::<Vec<_>>())?;
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": { "name": format!("policy-sync-{}", controller_hash()) },
    });
    let mut copies = [gateway.clone(), policy.clone()];
    copies.iter_mut().for_each(|copy| copy["metadata"]["namespace"] = "kuadrant-shop".into());
    for spoke in fleet.spokes() {
        for object in copies.iter().chain([&role]) {
            let (api, name) = api_for(&spoke.client()?, object).await?;
            ensure!(api.get_opt(&name).await?.is_none(), "{name} exists on {}", spoke.name());
        }
    }
    for object in [policy, gateway] {
        wait::until("the hub's objects have no annotations of the controller", LIMIT, || async {
            let (api, name) = api_for(&hub.client()?, object).await?;
            let found = api.get(&name).await?;
            let found = json!([found.labels(), found.annotations()]);
            let written = ["labels", "annotations"].map(|part| match &object["metadata"][part] {
                Value::Null => json!({}),
                written => written.clone(),
            });
            ensure!(found == json!(written), "{name} has {found}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}
