//! Objects with invalid inputs are frozen on placed clusters and still removed from clusters that are no
//! longer placed.

use std::time::Duration;

use anyhow::{Result, ensure};
use policy_sync_testenv::fixtures::{gateway_class, params_config_map, rate_limit_policy};
use policy_sync_testenv::tenant::{Tenant, all_kinds, rate_limit_policies};
use policy_sync_testenv::{fixtures, wait};
use serde_json::{Value, json};

use crate::{ON_BOTH, ON_EU, limit_of, synced, tenant};

/// Waits until the tenant's class has `reason` in `condition`, and returns the message.
pub(crate) async fn until_class_condition(
    tenant: &Tenant<'_>,
    condition: &str,
    reason: &str,
) -> Result<String> {
    until_class(tenant, tenant.name(), condition, reason).await
}

/// Like [`until_class_condition`], for the class `name`.
pub(crate) async fn until_class(
    tenant: &Tenant<'_>,
    name: &str,
    condition: &str,
    reason: &str,
) -> Result<String> {
    let class = gateway_class(name, &tenant.controller_name(), None);
    wait::until(&format!("{condition} is {reason}"), Duration::from_secs(60), || async {
        let class = tenant.get(&class).await?;
        let conditions = class.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|found| found["type"] == condition && found["reason"] == reason);
        let found = found.ok_or_else(|| anyhow::anyhow!("found {conditions:?}"))?;
        ensure!(found["observedGeneration"] == class.metadata.generation.unwrap_or_default(), "{found}");
        Ok(found["message"].as_str().unwrap_or_default().to_owned())
    })
    .await
}

pub(crate) async fn until_message(tenant: &Tenant<'_>, policy: &Value, part: &str) -> Result<()> {
    wait::until(&format!("the message contains {part:?}"), Duration::from_secs(60), || async {
        let annotations = tenant.annotations(policy).await?;
        let message = annotations.get("kuadrant.io/policy-sync-message").cloned().unwrap_or_default();
        ensure!(message.contains(part), "found {message:?}");
        Ok(())
    })
    .await
}

pub(crate) fn changed(limits: &Value) -> Value {
    let mut changed = limits.clone();
    changed["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(99);
    changed
}

#[tokio::test]
async fn invalid_parameters_freeze_policies_but_not_withdrawal() -> Result<()> {
    let (tenant, controller, limits) = synced("invalid").await?;
    tenant.parameters(&json!({"policiesToSync": [{"group": "kuadrant.io", "version": 2}]})).await?;
    let message = until_class_condition(&tenant, "Accepted", "InvalidParameters").await?;
    ensure!(message.starts_with("parameters invalid/params: policiesToSync[0].version: "), "{message}");

    // A changed policy is not written, but the copy is removed from a cluster that leaves the Placement.
    tenant.apply(&changed(&limits)).await?;
    until_message(&tenant, &limits, "has invalid parameters").await?;
    ensure!(
        limit_of(&tenant.work("eu-1", "ratelimitpolicy-limits").await?) == 10,
        "the limit in the copy changed"
    );
    tenant.place("all", &["eu-1"]).await?;
    tenant.until_works(&ON_EU).await?;

    // A restart does not lose the frozen state.
    tenant.settled(&controller).await?;
    controller.terminate().await?;
    let controller = tenant.controller().await?;
    let writes = tenant.settled(&controller).await?;
    ensure!(writes.is_empty(), "the restarted controller wrote {writes:?}");

    tenant.parameters(&all_kinds()).await?;
    until_class_condition(&tenant, "Accepted", "Accepted").await?;
    tenant.until_work("eu-1", "ratelimitpolicy-limits", |work| limit_of(work) == 99).await?;
    Ok(())
}

#[tokio::test]
async fn a_deleted_gateway_is_withdrawn_although_its_class_is_invalid() -> Result<()> {
    let (tenant, _controller, limits) = synced("rights").await?;
    tenant.parameters(&json!({"downstreamClass": ""})).await?;
    until_class_condition(&tenant, "Accepted", "InvalidParameters").await?;
    tenant.delete(&fixtures::gateway(tenant.name(), "web", tenant.name(), Some("all"))).await?;
    tenant.until_works(&[]).await?;
    ensure!(tenant.get(&limits).await.is_ok(), "the controller deleted the policy itself");
    Ok(())
}

#[tokio::test]
async fn deleted_config_map_freezes_policies_until_it_returns() -> Result<()> {
    let (tenant, controller, limits) = synced("lost").await?;
    tenant.delete(&params_config_map(tenant.name(), "params", &json!({}))).await?;
    let message = until_class_condition(&tenant, "Accepted", "InvalidParameters").await?;
    ensure!(message == "parameters lost/params: the ConfigMap does not exist", "{message}");
    tenant.settled(&controller).await?;
    tenant.until_works(&ON_BOTH).await?;
    // The deletion of a policy takes effect even while the parameters are missing.
    tenant.delete(&limits).await?;
    tenant.until_works(&["eu-1/access", "eu-1/gateway-web", "us-1/access", "us-1/gateway-web"]).await?;
    tenant.apply(&limits).await?;
    tenant.parameters(&all_kinds()).await?;
    tenant.until_works(&ON_BOTH).await
}

#[tokio::test]
async fn a_bad_selector_freezes_the_policy_on_clusters_that_are_still_placed() -> Result<()> {
    let (tenant, _controller, limits) = synced("selector").await?;
    let annotate = |text: Value| json!({"metadata": {"annotations": {"kuadrant.io/cluster-selector": text}}});
    tenant.merge(&limits, &annotate(json!("region in us"))).await?;
    until_message(&tenant, &limits, "annotation kuadrant.io/cluster-selector: not a label key").await?;
    tenant.merge(&limits, &json!({"spec": changed(&limits)["spec"]})).await?;
    tenant.place("all", &["eu-1"]).await?;
    tenant.until_works(&ON_EU).await?;
    ensure!(
        limit_of(&tenant.work("eu-1", "ratelimitpolicy-limits").await?) == 10,
        "the limit in the copy changed"
    );
    tenant.merge(&limits, &annotate(Value::Null)).await?;
    tenant.until_work("eu-1", "ratelimitpolicy-limits", |work| limit_of(work) == 99).await?;
    Ok(())
}

#[tokio::test]
async fn policy_in_the_namespace_system_is_reported_and_not_synced() -> Result<()> {
    // This namespace maps to kuadrant-system, the namespace of Kuadrant on the spokes.
    let tenant = tenant("system", &["eu-1"]).await?;
    let controller = tenant.controller().await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    until_message(
        &tenant,
        &limits,
        "namespace system maps to kuadrant-system on the spokes, which is reserved",
    )
    .await?;
    tenant.settled(&controller).await?;
    tenant.until_works(&[]).await
}

#[tokio::test]
async fn reference_to_another_namespace_is_dropped_and_reported() -> Result<()> {
    let tenant = tenant("crosses", &["eu-1"]).await?;
    let _controller = tenant.controller().await?;
    let mut timeouts = fixtures::timeout_policy(tenant.name(), "timeouts", &["web", "web"]);
    timeouts["spec"]["targetRefs"][1]["namespace"] = json!("crosses-other");
    let other = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "crosses-other"}});
    tenant.apply(&other).await?;
    tenant.apply(&fixtures::gateway("crosses-other", "web", tenant.name(), Some("all"))).await?;
    tenant.apply(&timeouts).await?;
    until_message(&tenant, &timeouts, "the reference to Gateway crosses-other/web is ignored").await?;
    let references = |work: &policy_sync_api::work::ManifestWork| {
        work.spec.workload.manifests[1].0["spec"]["targetRefs"].as_array().map_or(0, Vec::len)
    };
    tenant.until_work("eu-1", "timeoutpolicy-timeouts", |work| references(work) == 1).await?;
    Ok(())
}

#[tokio::test]
async fn class_of_another_controller_withdraws_its_works() -> Result<()> {
    let (tenant, controller, _) = synced("leaving").await?;
    let params = (tenant.name(), "params");
    let ours = gateway_class(tenant.name(), &tenant.controller_name(), Some(params));
    let before = tenant.settled(&controller).await?.len();
    // Deletes and recreates the class as `kubectl replace --force` does. No work may be deleted.
    tenant.delete(&ours).await?;
    tenant.apply(&ours).await?;
    let writes = tenant.settled(&controller).await?;
    let of_works = |write: &&policy_sync_testenv::audit::Request| write.object().resource == "manifestworks";
    let of_works: Vec<_> = writes[before..].iter().filter(of_works).collect();
    ensure!(of_works.is_empty(), "{of_works:?}");

    tenant.delete(&ours).await?;
    tenant.apply(&gateway_class(tenant.name(), "example.com/other", Some(params))).await?;
    tenant.until_works(&[]).await?;
    tenant.delete(&ours).await?;
    tenant.apply(&ours).await?;
    tenant.until_works(&ON_BOTH).await
}

#[tokio::test]
async fn downstream_class_of_the_same_controller_is_rejected() -> Result<()> {
    let (tenant, _controller, _) = synced("loops").await?;
    tenant
        .parameters(&json!({"downstreamClass": "loops", "policiesToSync": [rate_limit_policies()]}))
        .await?;
    let message = until_class_condition(&tenant, "Accepted", "InvalidParameters").await?;
    ensure!(
        message.contains("downstreamClass: \"loops\" is itself a class of example.com/loops"),
        "{message}"
    );
    tenant.until_works(&ON_BOTH).await
}
