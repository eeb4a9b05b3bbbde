//! Cluster overrides: a change writes only the affected works, and an invalid override freezes the policy.

use anyhow::{Result, ensure};
use policy_sync_api::work::ManifestWork;
use policy_sync_testenv::fixtures::managed_cluster;
use policy_sync_testenv::tenant::LIMIT;
use policy_sync_testenv::wait;
use policy_sync_testenv::{Controller, Tenant};
use serde_json::{Value, json};

use crate::kinds::{apply_once_served, definition_of};
use crate::{ON_EU, limit_of, synced, tenant};

/// The annotation with the message for the policy's owner.
const MESSAGE: &str = "kuadrant.io/policy-sync-message";

/// Metadata with these overrides.
fn overrides(overrides: &Value) -> Value {
    json!({"metadata": {"annotations": {"kuadrant.io/cluster-overrides": overrides.to_string()}}})
}

/// An override of the limit in the policy `limits`.
fn limit(selector: &str, limit: u32) -> Value {
    let patch = json!({"limits": {"all": {"rates": [{"limit": limit, "window": "10s"}]}}});
    json!({"clusterSelector": selector, "patch": patch})
}

/// The definition of the kind `TypedPolicy`, whose field `spec.rate` has this schema.
pub(crate) fn typed_definition(group: &str, rate: &Value) -> Value {
    let reference = ["group", "kind", "name"].map(|key| (key.to_owned(), json!({"type": "string"})));
    let reference = json!({"type": "object", "properties": serde_json::Map::from_iter(reference)});
    let spec =
        json!({"type": "object", "required": ["rate"], "properties": {"targetRef": reference, "rate": rate}});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    let versions = json!([{"name": "v1", "served": true, "storage": true, "schema": schema}]);
    definition_of(group, "TypedPolicy", "typedpolicies", &versions)
}

/// A `TypedPolicy` for the Gateway `web`.
pub(crate) fn typed_policy(group: &str, namespace: &str, name: &str) -> Value {
    let target = json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "web"});
    json!({
        "apiVersion": format!("{group}/v1"), "kind": "TypedPolicy",
        "metadata": {"name": name, "namespace": namespace}, "spec": {"targetRef": target, "rate": 10},
    })
}

/// Waits until the copies on `eu-1` and `us-1` have these limits.
async fn until_limits(tenant: &Tenant<'_>, eu: i64, us: i64) -> Result<()> {
    for (cluster, wanted) in [("eu-1", eu), ("us-1", us)] {
        tenant.until_work(cluster, "ratelimitpolicy-limits", |work| limit_of(work) == wanted).await?;
    }
    Ok(())
}

/// Waits until the controller is idle, and returns the clusters of the works written since `before`. Advances
/// `before`.
async fn written(tenant: &Tenant<'_>, controller: &Controller, before: &mut usize) -> Result<Vec<String>> {
    let writes = tenant.settled(controller).await?;
    let works = writes[*before..].iter().filter(|write| write.object().resource == "manifestworks");
    let clusters = works.map(|write| write.object().namespace).collect();
    *before = writes.len();
    Ok(clusters)
}

#[tokio::test]
async fn change_of_overrides_writes_only_the_affected_works() -> Result<()> {
    let (tenant, controller, limits) = synced("overrides").await?;
    let mut seen = tenant.settled(&controller).await?.len();

    tenant
        .merge(&limits, &overrides(&json!([limit("region=us", 5), limit("overrides-story in (x)", 3)])))
        .await?;
    until_limits(&tenant, 10, 5).await?;
    ensure!(written(&tenant, &controller, &mut seen).await? == ["us-1"], "an override for us-1");
    let annotations = tenant.work("us-1", "ratelimitpolicy-limits").await?;
    let annotations = annotations.spec.workload.manifests[1].0["metadata"]["annotations"].clone();
    ensure!(annotations["kuadrant.io/cluster-overrides"].is_null(), "{annotations}");

    let eu = managed_cluster("eu-1", &Default::default());
    let label = |value: Value| json!({"metadata": {"labels": {"overrides-story": value}}});
    tenant.merge(&eu, &label("x".into())).await?;
    until_limits(&tenant, 3, 5).await?;
    ensure!(written(&tenant, &controller, &mut seen).await? == ["eu-1"], "a new label of eu-1");
    tenant.merge(&eu, &label(Value::Null)).await?;
    until_limits(&tenant, 10, 5).await?;
    ensure!(written(&tenant, &controller, &mut seen).await? == ["eu-1"], "a removed label of eu-1");

    let path = "/limits/all/rates/0/limit";
    let operations =
        json!([{"op": "test", "path": path, "value": 10}, {"op": "replace", "path": path, "value": 7}]);
    let item = json!([{"clusterSelector": "region=us", "jsonPatch": operations}]);
    tenant.merge(&limits, &overrides(&item)).await?;
    until_limits(&tenant, 10, 7).await?;
    ensure!(written(&tenant, &controller, &mut seen).await? == ["us-1"], "a JSON patch for us-1");

    let none = json!({"metadata": {"annotations": {"kuadrant.io/cluster-overrides": null}}});
    tenant.merge(&limits, &none).await?;
    until_limits(&tenant, 10, 10).await?;
    ensure!(written(&tenant, &controller, &mut seen).await? == ["us-1"], "removed overrides");
    Ok(())
}

#[tokio::test]
async fn overrides_survive_a_restart_and_a_change_of_the_policy() -> Result<()> {
    let (tenant, controller, limits) = synced("overrides-stay").await?;
    tenant.merge(&limits, &overrides(&json!([limit("region=us", 5)]))).await?;
    until_limits(&tenant, 10, 5).await?;
    tenant.settled(&controller).await?;
    controller.kill();
    let controller = tenant.controller().await?;
    let writes = tenant.settled(&controller).await?;
    ensure!(writes.is_empty(), "the restarted controller wrote {writes:?}");
    let changed = json!({"spec": {"limits": {"all": {"rates": [{"limit": 20, "window": "10s"}]}}}});
    tenant.merge(&limits, &changed).await?;
    until_limits(&tenant, 20, 5).await?;
    let mut seen = 0;
    ensure!(written(&tenant, &controller, &mut seen).await? == ["eu-1"], "the copy for us-1 is unchanged");
    Ok(())
}

#[tokio::test]
async fn a_bad_override_freezes_the_policy_on_clusters_that_are_still_placed() -> Result<()> {
    let (tenant, controller, limits) = synced("overrides-freeze").await?;
    tenant.merge(&limits, &overrides(&json!([limit("region=us", 5), {"patch": {}}]))).await?;
    let place = "annotation kuadrant.io/cluster-overrides[1]: clusterSelector is required";
    until_message(&tenant, &limits, place).await?;
    tenant.place("all", &["eu-1"]).await?;
    tenant.until_works(&ON_EU).await?;
    tenant.settled(&controller).await?;
    ensure!(
        limit_of(&tenant.work("eu-1", "ratelimitpolicy-limits").await?) == 10,
        "the limit in the copy changed"
    );
    tenant.merge(&limits, &overrides(&json!([limit("region=eu", 7)]))).await?;
    tenant.until_work("eu-1", "ratelimitpolicy-limits", |work| limit_of(work) == 7).await?;
    Ok(())
}

#[tokio::test]
async fn overrides_are_checked_against_the_current_definition() -> Result<()> {
    const GROUP: &str = "changing.example.com";
    let tenant = tenant("overrides-typed", &["eu-1", "us-1"]).await?;
    tenant.apply(&typed_definition(GROUP, &json!({"type": "integer"}))).await?;
    tenant
        .parameters(
            &json!({"policiesToSync": [{"group": GROUP, "version": "v1", "resource": "typedpolicies"}]}),
        )
        .await?;
    let policy = typed_policy(GROUP, tenant.name(), "typed");
    apply_once_served(&tenant, &policy).await?;
    let _controller = tenant.controller().await?;
    tenant.until_work("us-1", "typedpolicy-typed", |_| true).await?;
    let patch = json!({"clusterSelector": "region=us", "patch": {"rate": "5/m"}});
    tenant.merge(&policy, &overrides(&json!([patch]))).await?;
    let place = r#"annotation kuadrant.io/cluster-overrides[0].patch.rate: expected an integer, found "5/m""#;
    until_message(&tenant, &policy, place).await?;
    tenant.apply(&typed_definition(GROUP, &json!({"x-kubernetes-int-or-string": true}))).await?;
    let rate = |work: &ManifestWork| work.spec.workload.manifests[1].0["spec"]["rate"].clone();
    tenant.until_work("us-1", "typedpolicy-typed", |work| rate(work) == "5/m").await?;
    tenant.until_work("eu-1", "typedpolicy-typed", |work| rate(work) == 10).await?;
    Ok(())
}

async fn until_message(tenant: &Tenant<'_>, policy: &Value, message: &str) -> Result<()> {
    wait::until(&format!("the message is {message:?}"), LIMIT, || async {
        let annotations = tenant.annotations(policy).await?;
        ensure!(annotations.get(MESSAGE).is_some_and(|found| found == message), "{annotations:?}");
        Ok(())
    })
    .await
}
