//! Resources on spokes: they run there with their share of replicas, and their status is reported back.

use anyhow::{Context, Result, ensure};
use kube::Client;
use kube::api::{DynamicObject, Patch, PatchParams};
use policy_sync_testenv::apply::{api_for, apply};
use policy_sync_testenv::fixtures::{deployment, placed_config_map, resources};
use policy_sync_testenv::wait;
use serde_json::{Value, json};

use crate::{LIMIT, downstream, tenant, until_copied, until_gone};

const PREFERENCES: &str = "federation.kubernetes.io/replica-set-preferences";

/// Plays the spoke's controller of Deployments: writes the controller's annotation and a status with `ready` replicas
/// to the copy of `object`.
async fn report_ready(spoke: &Client, object: &Value, ready: u64) -> Result<()> {
    let (api, name) = api_for(spoke, &downstream(object)).await?;
    // The controller of Deployments records each rollout in this annotation, which also increases the
    // generation.
    let patch =
        Patch::Merge(json!({"metadata": {"annotations": {"deployment.kubernetes.io/revision": "1"}}}));
    let copy = api.patch(&name, &PatchParams::default(), &patch).await?;
    let status =
        json!({"observedGeneration": copy.metadata.generation, "replicas": ready, "readyReplicas": ready});
    let patch = Patch::Merge(json!({"status": status}));
    api.patch_status(&name, &PatchParams::default(), &patch).await?;
    Ok(())
}

#[tokio::test]
async fn deployments_run_with_their_share_and_report_ready_replicas() -> Result<()> {
    let (tenant, fleet) = tenant("running", &["eu-1", "us-1"]).await?;
    let kinds = [resources("apps", "deployments"), resources("", "configmaps")];
    tenant.parameters(&json!({"resourcesToSync": kinds})).await?;
    let controller = tenant.controller().await?;
    let (mut web, settings) =
        (deployment(tenant.name(), "web"), placed_config_map(tenant.name(), "settings"));
    web["metadata"]["annotations"] = json!({
        PREFERENCES: r#"{"clusters": {"eu-1": {"weight": 3}, "us-1": {"weight": 1}}}"#,
        "deployment.kubernetes.io/revision": "7",
    });
    tenant.apply(&web).await?;
    tenant.apply(&settings).await?;
    for (cluster, replicas) in [("eu-1", 3), ("us-1", 1)] {
        let spoke = fleet.spoke(cluster)?.client()?;
        let copy = until_copied(&spoke, &web, |copy| copy.data["spec"]["replicas"] == replicas).await?;
        let annotations = copy.metadata.annotations.context("no annotations")?;
        ensure!(!annotations.contains_key(PREFERENCES), "{cluster}: {annotations:?}");
        until_copied(&spoke, &settings, |copy| {
            copy.data["data"]["greeting"] == "hello" && copy.data["binaryData"]["logo"] == "aGk="
        })
        .await?;
        report_ready(&spoke, &web, replicas).await?;
    }
    let ready = |entries: &[policy_sync_api::annotations::Synced]| {
        entries.iter().map(|entry| entry.fields.get("readyReplicas").cloned()).collect::<Vec<_>>()
    };
    let both = [Some(json!(3)), Some(json!(1))];
    let (_, summary) = tenant.until_folded(&web, |entries, _| ready(entries) == both).await?;
    ensure!(summary.synced && summary.pending == 0, "{summary:?}");

    // The controller's annotation does not conflict with the next rollout.
    let image = json!([{"name": "web", "image": "registry.example/web:2"}]);
    tenant.merge(&web, &json!({"spec": {"template": {"spec": {"containers": image}}}})).await?;
    for cluster in ["eu-1", "us-1"] {
        let spoke = fleet.spoke(cluster)?.client()?;
        until_copied(&spoke, &web, |copy| {
            copy.data["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example/web:2"
        })
        .await?;
    }
    tenant.until_folded(&web, |_, summary| summary.synced).await?;

    // If the preferences omit a cluster, its copy is removed, and other clusters get its replicas.
    let one = json!({"metadata": {"annotations": {PREFERENCES: r#"{"clusters": {"us-1": {"weight": 1}}}"#}}});
    tenant.merge(&web, &one).await?;
    until_gone(&fleet.spoke("eu-1")?.client()?, &web).await?;
    until_copied(&fleet.spoke("us-1")?.client()?, &web, |copy| copy.data["spec"]["replicas"] == 4).await?;
    tenant.settled(&controller).await?;
    tenant.delete(&web).await?;
    until_gone(&fleet.spoke("us-1")?.client()?, &web).await
}

#[tokio::test]
async fn resource_of_the_spokes_users_is_not_changed() -> Result<()> {
    let (tenant, fleet) = tenant("occupied", &["eu-1"]).await?;
    let spoke = fleet.spoke("eu-1")?.client()?;
    let mut web = placed_config_map(tenant.name(), "web");
    // No other test of this fleet may sync this kind, because a class selects all objects of a kind.
    (web["apiVersion"], web["kind"]) = ("networking.k8s.io/v1".into(), "NetworkPolicy".into());
    if let Some(web) = web.as_object_mut() {
        web.retain(|field, _| !["data", "binaryData"].contains(&field.as_str()));
    }
    web["spec"] = json!({"podSelector": {"matchLabels": {"app": "web"}}});
    let mut theirs = downstream(&web);
    theirs["spec"]["podSelector"]["matchLabels"]["app"] = "theirs".into();
    let is_theirs = |copy: &DynamicObject| copy.data["spec"]["podSelector"]["matchLabels"]["app"] == "theirs";
    let namespace = theirs["metadata"]["namespace"].as_str().unwrap_or_default();
    apply(&spoke, &policy_sync_testenv::fixtures::namespace(namespace)).await?;
    apply(&spoke, &theirs).await?;
    tenant
        .parameters(&json!({"resourcesToSync": [resources("networking.k8s.io", "networkpolicies")]}))
        .await?;
    let _controller = tenant.controller().await?;
    tenant.apply(&web).await?;
    let (entries, _) = tenant.until_folded(&web, |entries, _| entries[0].message.is_some()).await?;
    ensure!(!entries[0].applied, "{entries:?}");
    until_copied(&spoke, &web, is_theirs).await?;
    tenant.delete(&web).await?;
    wait::until("the work of the workload is deleted", LIMIT, || async {
        let names = tenant.work_names().await?;
        ensure!(names.iter().all(|name| !name.contains("networkpolicy")), "{names:?}");
        Ok(())
    })
    .await?;
    until_copied(&spoke, &web, is_theirs).await.map(drop)
}
