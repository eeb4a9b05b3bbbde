//! The annotation `kuadrant.io/paused`: works are neither created nor changed while it is set, and are still deleted.

use anyhow::{Result, ensure};
use policy_sync_api::annotations::{PAUSED, POLICY_SYNC_MESSAGE, Synced};
use policy_sync_testenv::fixtures::{self, gateway_class, managed_cluster, rate_limit_policy};
use policy_sync_testenv::tenant::Tenant;
use serde_json::{Value, json};

use crate::freezing::{changed, until_message};
use crate::metrics::{on_own_clusters, until};
use crate::secrets::rights::until_accepted;
use crate::{ON_BOTH, ON_EU, limit_of, synced};

fn paused(value: impl Into<Value>) -> Value {
    json!({"metadata": {"annotations": {PAUSED: value.into()}}})
}

/// Waits until exactly the entries of `policy` on these clusters are frozen by a pause.
async fn until_paused_on(tenant: &Tenant<'_>, policy: &Value, clusters: &[&str]) -> Result<()> {
    let is_paused = |entry: &Synced| entry.frozen.as_deref() == Some("Paused");
    let expected = |entries: &[Synced]| {
        entries
            .iter()
            .filter(|entry| is_paused(entry))
            .map(|entry| entry.cluster.to_string())
            .eq(clusters.iter().copied())
    };
    tenant.until_folded(policy, |entries, _| expected(entries)).await.map(drop)
}

#[tokio::test]
async fn paused_policy_is_not_changed_but_withdrawn_and_continues_when_resumed() -> Result<()> {
    let (tenant, controller, limits) = synced("pauses").await?;
    tenant.merge(&limits, &paused("true")).await?;
    until_message(&tenant, &limits, "it is paused").await?;
    tenant.merge(&limits, &json!({"spec": changed(&limits)["spec"]})).await?;
    until_paused_on(&tenant, &limits, &["eu-1", "us-1"]).await?;
    until(&controller, &[("policy_sync_paused", &[("kind", "policy")], 1.0)]).await?;

    // A restart keeps the pause.
    tenant.settled(&controller).await?;
    controller.terminate().await?;
    let controller = tenant.controller().await?;
    let writes = tenant.settled(&controller).await?;
    ensure!(writes.is_empty(), "the restarted controller wrote {writes:?}");
    ensure!(limit_of(&tenant.work("eu-1", "ratelimitpolicy-limits").await?) == 10, "the copy changed");

    tenant.place("all", &["eu-1"]).await?;
    tenant.until_works(&ON_EU).await?;
    tenant.place("all", &["eu-1", "us-1"]).await?;
    // The Gateway is created without the policy once it has waited for `policyWaitSeconds`.
    tenant
        .until_works(&[
            "eu-1/access",
            "eu-1/gateway-web",
            "eu-1/ratelimitpolicy-limits",
            "us-1/access",
            "us-1/gateway-web",
        ])
        .await?;
    tenant.settled(&controller).await?;
    ensure!(
        !tenant.work_names().await?.contains(&"us-1/ratelimitpolicy-limits".to_owned()),
        "a copy was created"
    );

    tenant.merge(&limits, &paused(Value::Null)).await?;
    tenant.until_work("eu-1", "ratelimitpolicy-limits", |work| limit_of(work) == 99).await?;
    tenant.until_works(&ON_BOTH).await?;
    until(&controller, &[("policy_sync_paused", &[("kind", "policy")], 0.0)]).await?;
    let annotations = tenant.annotations(&limits).await?;
    ensure!(!annotations.contains_key(POLICY_SYNC_MESSAGE), "the message stays: {annotations:?}");
    Ok(())
}

#[tokio::test]
async fn paused_class_pauses_its_gateways_and_policies() -> Result<()> {
    let (tenant, controller, limits) = synced("pauses-class").await?;
    let class = gateway_class(tenant.name(), &tenant.controller_name(), None);
    tenant.merge(&class, &paused("true")).await?;
    let web = fixtures::gateway(tenant.name(), "web", tenant.name(), Some("all"));
    until_accepted(&tenant, &web, "False Paused").await?;
    tenant.merge(&limits, &json!({"spec": changed(&limits)["spec"]})).await?;
    until_paused_on(&tenant, &limits, &["eu-1", "us-1"]).await?;
    until(&controller, &[("policy_sync_paused", &[("kind", "class")], 1.0)]).await?;
    tenant.settled(&controller).await?;
    ensure!(limit_of(&tenant.work("eu-1", "ratelimitpolicy-limits").await?) == 10, "the copy changed");
    tenant.merge(&class, &paused("false")).await?;
    tenant.until_work("eu-1", "ratelimitpolicy-limits", |work| limit_of(work) == 99).await?;
    Ok(())
}

#[tokio::test]
async fn paused_cluster_keeps_its_state_while_others_change() -> Result<()> {
    let (tenant, clusters) = on_own_clusters("pauses-cluster").await?;
    let [eu, us] = clusters.each_ref().map(String::as_str);
    let controller = tenant.controller().await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    for cluster in [eu, us] {
        tenant.until_work(cluster, "ratelimitpolicy-limits", |work| limit_of(work) == 10).await?;
    }
    let paused_cluster = managed_cluster(eu, &Default::default());
    tenant.merge(&paused_cluster, &paused("true")).await?;
    until_paused_on(&tenant, &limits, &[eu]).await?;
    tenant.merge(&limits, &json!({"spec": changed(&limits)["spec"]})).await?;
    tenant.until_work(us, "ratelimitpolicy-limits", |work| limit_of(work) == 99).await?;
    until(&controller, &[("policy_sync_paused", &[("kind", "cluster")], 1.0)]).await?;
    tenant.settled(&controller).await?;
    ensure!(limit_of(&tenant.work(eu, "ratelimitpolicy-limits").await?) == 10, "the paused cluster changed");
    let annotations = tenant.annotations(&limits).await?;
    ensure!(!annotations.contains_key(POLICY_SYNC_MESSAGE), "an agent's pause is a problem: {annotations:?}");
    tenant.merge(&paused_cluster, &paused(Value::Null)).await?;
    tenant.until_work(eu, "ratelimitpolicy-limits", |work| limit_of(work) == 99).await?;
    Ok(())
}
