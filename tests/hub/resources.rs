//! Resources (`resourcesToSync`): objects that are copied to the clusters of a Placement in the same namespace.
//!
//! A class selects all objects of a kind, in every namespace, so each test here uses different kinds.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use policy_sync_api::work::ManifestWork;
use policy_sync_testenv::fixtures::{deployment, gateway, namespace, placed_config_map, resources, workload};
use policy_sync_testenv::tenant::{Tenant, WorkReport, rate_limit_policies};
use policy_sync_testenv::wait;
use serde_json::{Value, json};

use crate::kinds::until_resolved;
use crate::tenant;

const PLACEMENT: &str = "cluster.open-cluster-management.io/placement";
const PREFERENCES: &str = "federation.kubernetes.io/replica-set-preferences";

/// The copy of the object in a work.
fn copy(work: &ManifestWork) -> &Value {
    &work.spec.workload.manifests[1].0
}

fn replicas(work: &ManifestWork) -> &Value {
    &copy(work)["spec"]["replicas"]
}

/// A tenant without a Gateway, whose class lists these kinds of resources.
async fn with_resources(name: &str, clusters: &[&str], kinds: &[Value]) -> Result<Tenant<'static>> {
    let tenant = tenant(name, clusters).await?;
    tenant.parameters(&json!({"resourcesToSync": kinds})).await?;
    tenant.delete(&gateway(tenant.name(), "web", tenant.name(), Some("all"))).await?;
    Ok(tenant)
}

#[tokio::test]
async fn resources_are_placed_and_their_feedback_is_written_as_annotations() -> Result<()> {
    let tenant = with_resources(
        "resources",
        &["eu-1", "us-1"],
        &[resources("apps", "deployments"), resources("", "configmaps")],
    )
    .await?;
    let controller = tenant.controller().await?;
    let (web, settings) = (deployment(tenant.name(), "web"), placed_config_map(tenant.name(), "settings"));
    let mut unplaced = deployment(tenant.name(), "elsewhere");
    unplaced["metadata"]["labels"] = json!({});
    for object in [&web, &settings, &unplaced] {
        tenant.apply(object).await?;
    }
    let each = |cluster: &str| {
        ["access", "configmap-settings", "deployment-web"].map(|work| format!("{cluster}/{work}"))
    };
    let works: Vec<String> = ["eu-1", "us-1"].into_iter().flat_map(each).collect();
    tenant.until_works(&works.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    until_resolved(&tenant, tenant.name(), "Resolved", "2 kinds are synced").await?;

    let work = tenant.work("eu-1", "configmap-settings").await?;
    ensure!(
        copy(&work)["data"]["greeting"] == "hello" && copy(&work)["binaryData"]["logo"] == "aGk=",
        "{work:?}"
    );
    ensure!(work.metadata.labels.context("no labels")?["kuadrant.io/work-for"] == "resource");
    // The permissions for the second kind may follow in a second write.
    let has_both = |work: &ManifestWork| {
        let access = json!(work.spec).to_string();
        ["deployments", "configmaps"].iter().all(|resource| access.contains(resource))
    };
    tenant.until_work("eu-1", "access", has_both).await?;

    let work = tenant.work("eu-1", "deployment-web").await?;
    ensure!(*replicas(&work) == 4, "{work:?}");
    tenant.report(&work, &WorkReport::applied().value("readyReplicas", json!(3))).await?;
    let (entries, summary) = tenant.until_folded(&web, |entries, _| !entries[0].fields.is_empty()).await?;
    ensure!(entries[0].fields["readyReplicas"] == 3, "{entries:?}");
    ensure!((summary.clusters, summary.applied, summary.synced) == (2, 1, false), "{summary:?}");
    // An object without a Placement gets no annotations.
    let annotations = tenant.annotations(&unplaced).await?;
    ensure!(annotations.keys().all(|key| !key.starts_with("kuadrant.io/")), "{annotations:?}");

    let before = tenant.settled(&controller).await?.len();
    tenant.merge(&web, &json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "registry.example/web:2"}]}}}})).await?;
    let image = |work: &ManifestWork| {
        copy(work)["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example/web:2"
    };
    for cluster in ["eu-1", "us-1"] {
        tenant.until_work(cluster, "deployment-web", image).await?;
    }
    let writes = tenant.settled(&controller).await?;
    let of_works = writes[before..].iter().filter(|write| write.uri.contains("/manifestworks/")).count();
    ensure!(of_works == 2, "expected one write per cluster: {:?}", &writes[before..]);

    drop(controller);
    let again = tenant.controller().await?;
    ensure!(tenant.settled(&again).await?.is_empty(), "the restarted controller wrote");
    tenant.merge(&web, &json!({"metadata": {"labels": {PLACEMENT: null}}})).await?;
    tenant.delete(&settings).await?;
    tenant.until_works(&[]).await?;
    wait::until("the annotations are removed", Duration::from_secs(60), || async {
        let annotations = tenant.annotations(&web).await?;
        ensure!(annotations.keys().all(|key| !key.starts_with("kuadrant.io/polic")), "{annotations:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn replicas_are_split_and_move_only_when_needed() -> Result<()> {
    let kinds = [resources("apps", "statefulsets")];
    let tenant = with_resources("shares", &["eu-1", "us-1"], &kinds).await?;
    tenant.apply(&namespace("shares-ap")).await?;
    let controller = tenant.controller().await?;
    let mut web = workload("StatefulSet", tenant.name(), "web");
    web["metadata"]["annotations"][PREFERENCES] =
        json!(r#"{"clusters": {"eu-1": {"weight": 3}, "us-1": {"weight": 1}, "shares-ap": {"weight": 2}}}"#);
    tenant.apply(&web).await?;
    for (cluster, share) in [("eu-1", 3), ("us-1", 1)] {
        tenant.until_work(cluster, "statefulset-web", |work| *replicas(work) == share).await?;
    }
    // A spoke's agent cannot raise the spoke's share of the replicas.
    let greedy = tenant.work("us-1", "statefulset-web").await?;
    let manifest =
        json!([{"op": "replace", "path": "/spec/workload/manifests/1/spec/replicas", "value": 100}]);
    patch(&tenant, &greedy, manifest).await?;
    tenant.until_work("us-1", "statefulset-web", |work| *replicas(work) == 1).await?;
    let eu = tenant.work("eu-1", "statefulset-web").await?;
    ensure!(*replicas(&eu) == 3 && eu.metadata.generation == Some(1), "{eu:?}");

    tenant.place("all", &["eu-1", "shares-ap", "us-1"]).await?;
    tenant.until_work("shares-ap", "statefulset-web", |work| *replicas(work) == 0).await?;
    ensure!(tenant.work("eu-1", "statefulset-web").await?.metadata.generation == Some(1), "the work changed");
    tenant.settled(&controller).await?;
    drop(controller);
    let controller = tenant.controller().await?;
    let writes = tenant.settled(&controller).await?;
    ensure!(writes.is_empty(), "the restarted controller wrote {writes:?}");

    tenant.merge(&web, &json!({"spec": {"replicas": 10}})).await?;
    let total = || async {
        let mut total = 0;
        for cluster in ["eu-1", "shares-ap", "us-1"] {
            total +=
                replicas(&tenant.work(cluster, "statefulset-web").await?).as_u64().context("no replicas")?;
        }
        ensure!(total == 10, "the total is {total}");
        Ok(())
    };
    wait::until("all replicas are distributed", Duration::from_secs(60), total).await?;

    tenant.merge(&web, &json!({"metadata": {"annotations": {PREFERENCES: r#"{"clusters": {"eu-1": {"weight": "1"}}}"#}}})).await?;
    let message = "annotation federation.kubernetes.io/replica-set-preferences.clusters.eu-1.weight: expected a whole number \
                   from 0, found \"1\"";
    wait::until("the message rejects the weight", Duration::from_secs(60), || async {
        let annotations = tenant.annotations(&web).await?;
        let reported = annotations.get("kuadrant.io/policy-sync-message");
        ensure!(reported.is_some_and(|reported| reported == message), "{annotations:?}");
        Ok(())
    })
    .await?;
    total().await
}

#[tokio::test]
async fn kinds_that_cannot_be_synced_are_rejected_and_block_no_others() -> Result<()> {
    let tenant = with_resources("not-syncable", &["eu-1"], &[resources("apps", "replicasets")]).await?;
    let kind = |group: &str, version: &str, resource: &str| json!({"group": group, "version": version, "resource": resource});
    let refused = [
        (
            "NotSyncable",
            kind("", "v1", "secrets"),
            "v1 secrets: Secrets are not copied to spokes as resources",
        ),
        ("NotSyncable", kind("", "v1", "nodes"), "v1 nodes: it is cluster-scoped"),
        ("NotSyncable", kind("", "v1", "bindings"), "v1 bindings: the hub does not support get for it"),
        (
            "NotSyncable",
            kind("kuadrant.io", "v1", "ratelimitpolicies"),
            "kuadrant.io/v1 ratelimitpolicies: GatewayClass not-syncable lists it in policiesToSync",
        ),
        (
            "UnknownResource",
            kind("apps", "v1beta1", "deployments"),
            "apps/v1beta1 deployments: the hub serves v1",
        ),
        (
            "UnknownResource",
            kind("apps", "v1", "deployment"),
            "apps/v1 deployment: the hub has no such custom resource",
        ),
    ];
    let _controller = tenant.controller().await?;
    tenant.apply(&workload("ReplicaSet", tenant.name(), "web")).await?;
    for (reason, kind, message) in refused {
        tenant
            .parameters(
                &json!({"policiesToSync": [rate_limit_policies()], "resourcesToSync": [kind, resources("apps", "replicasets")]}),
            )
            .await?;
        until_resolved(&tenant, tenant.name(), reason, message).await?;
        tenant.until_works(&["eu-1/access", "eu-1/replicaset-web"]).await?;
    }
    // A kind that is no longer listed is withdrawn.
    tenant.parameters(&json!({"policiesToSync": [rate_limit_policies()]})).await?;
    tenant.until_works(&[]).await
}

/// Changes a work as its spoke's agent could.
async fn patch(tenant: &Tenant<'_>, work: &ManifestWork, patch: Value) -> Result<()> {
    use kube::ResourceExt;
    use kube::api::{Api, Patch, PatchParams};
    let works: Api<ManifestWork> =
        Api::namespaced(tenant.client().clone(), &work.namespace().unwrap_or_default());
    let patch: Patch<()> = Patch::Json(serde_json::from_value(patch)?);
    works.patch(&work.name_any(), &PatchParams::default(), &patch).await?;
    Ok(())
}
