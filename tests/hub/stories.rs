//! Scenarios that users of a hub rely on. Each scenario prevents the return of a defect.
//!
//! Other tests check related scenarios. `tests/hub/kinds.rs` checks that the parameters of one class never end the
//! watches of another class. `tests/ocm` checks that a namespace on a spoke stays after its last work. Unit tests check
//! that a targetRef keeps its `sectionName`, and that names of works do not collide.

use anyhow::{Result, ensure};
use policy_sync_testenv::fixtures::{gateway, namespace, placement, rate_limit_policy};
use policy_sync_testenv::tenant::{all_kinds, rate_limit_policies};
use serde_json::json;

use crate::{ON_BOTH, ON_EU, limit_of, synced, tenant};

#[tokio::test]
async fn each_gateway_is_synced_and_withdrawn_on_its_own() -> Result<()> {
    let (tenant, _controller, limits) = synced("every").await?;
    let api = gateway(tenant.name(), "api", tenant.name(), Some("all"));
    let other = rate_limit_policy(tenant.name(), "other", "api");
    tenant.apply(&api).await?;
    tenant.apply(&other).await?;
    tenant.until_work("us-1", "ratelimitpolicy-other", |_| true).await?;
    // Both policies are still synced, and the deletion of one Gateway affects only its own policy.
    for policy in [&limits, &other] {
        let mut changed = policy.clone();
        changed["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(20);
        tenant.apply(&changed).await?;
    }
    for work in ["ratelimitpolicy-limits", "ratelimitpolicy-other"] {
        tenant.until_work("us-1", work, |work| limit_of(work) == 20).await?;
    }
    tenant.delete(&api).await?;
    tenant.until_works(&ON_BOTH).await
}

#[tokio::test]
async fn rejected_write_is_retried_until_it_succeeds() -> Result<()> {
    let tenant = tenant("retries", &["eu-1", "late-1"]).await?;
    let _controller = tenant.controller().await?;
    tenant.apply(&rate_limit_policy(tenant.name(), "limits", "web")).await?;
    tenant.until_works(&ON_EU).await?;
    tenant.apply(&namespace("late-1")).await?;
    tenant.until_work("late-1", "ratelimitpolicy-limits", |_| true).await?;
    tenant.until_work("late-1", "gateway-web", |_| true).await?;
    tenant.until_work("late-1", "access", |_| true).await.map(drop)
}

#[tokio::test]
async fn a_change_of_the_parameters_reaches_every_copy() -> Result<()> {
    let (tenant, _controller, _) = synced("rolls-out").await?;
    let class_of = |work: &policy_sync_api::work::ManifestWork| {
        work.spec.workload.manifests[1].0["spec"]["gatewayClassName"].as_str().unwrap_or_default().to_owned()
    };
    let mut parameters = all_kinds();
    for class in ["cilium", "envoy"] {
        parameters["downstreamClass"] = class.into();
        tenant.parameters(&parameters).await?;
        for cluster in ["eu-1", "us-1"] {
            tenant.until_work(cluster, "gateway-web", |work| class_of(work) == class).await?;
        }
    }
    // Parameters without `downstreamClass` use the default.
    tenant.parameters(&json!({"policiesToSync": [rate_limit_policies()]})).await?;
    tenant.until_work("us-1", "gateway-web", |work| class_of(work) == "istio").await.map(drop)
}

#[tokio::test]
async fn a_placement_deleted_before_its_gateway_leaves_no_works_behind() -> Result<()> {
    // No work agent runs in this test, so the deleted works were never applied on a spoke.
    let (tenant, _controller, limits) = synced("orphans").await?;
    tenant.delete(&placement(tenant.name(), "all", 0)).await?;
    tenant.decide("all", 1, &[]).await?;
    tenant.until_works(&[]).await?;
    tenant.delete(&gateway(tenant.name(), "web", tenant.name(), Some("all"))).await?;
    tenant.until_works(&[]).await?;
    ensure!(tenant.get(&limits).await.is_ok(), "the controller deleted the policy");
    Ok(())
}

#[tokio::test]
async fn unplaced_gateway_does_not_change_the_access_of_another() -> Result<()> {
    let (tenant, _controller, _) = synced("displaced").await?;
    tenant.place("some", &["eu-1"]).await?;
    tenant.apply(&gateway(tenant.name(), "api", tenant.name(), Some("some"))).await?;
    tenant.apply(&rate_limit_policy(tenant.name(), "other", "api")).await?;
    tenant.until_work("eu-1", "ratelimitpolicy-other", |_| true).await?;
    let access = tenant.work("eu-1", "access").await?;
    tenant.place("some", &[]).await?;
    tenant.until_works(&ON_BOTH).await?;
    let after = tenant.work("eu-1", "access").await?;
    ensure!(after.metadata.uid == access.metadata.uid && after.spec == access.spec, "{:?}", after.spec);
    Ok(())
}
