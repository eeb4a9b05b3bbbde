//! On each cluster, a Gateway is created after its policies and deleted before them.

use std::time::Duration;

use kube::api::DeleteParams;
use policy_sync_api::work::ManifestWork;
use policy_sync_testenv::fixtures::rate_limit_policy;
use policy_sync_testenv::tenant::rate_limit_policies;

use super::*;
use crate::bad_input::until_event;

/// The works of the policies `limits` and `quota` on one cluster.
const POLICIES: [&str; 2] = ["ratelimitpolicy-limits", "ratelimitpolicy-quota"];

/// A tenant with one cluster. Its Gateway waits up to `seconds` for its policies `limits` and `quota`.
async fn waiting(name: &str, seconds: u64, action: &str) -> Result<(Tenant<'static>, Controller)> {
    let tenant = tenant(name, &["eu-1"]).await?;
    let parameters = json!({
        "policiesToSync": [rate_limit_policies()], "policyWaitSeconds": seconds, "policyWaitAction": action,
    });
    tenant.parameters(&parameters).await?;
    for policy in ["limits", "quota"] {
        tenant.apply(&rate_limit_policy(name, policy, "web")).await?;
    }
    let controller = tenant.controller().await?;
    Ok((tenant, controller))
}

async fn until_on(tenant: &Tenant<'_>, gateway: bool) -> Result<()> {
    let all =
        ["eu-1/access", "eu-1/gateway-web", "eu-1/ratelimitpolicy-limits", "eu-1/ratelimitpolicy-quota"];
    let works: Vec<&str> = all.into_iter().filter(|work| gateway || !work.contains("gateway")).collect();
    tenant.until_works(&works).await
}

async fn applied(tenant: &Tenant<'_>, policy: &str) -> Result<()> {
    tenant.report(&tenant.until_work("eu-1", policy, |_| true).await?, &WorkReport::applied()).await
}

/// The kinds of the works that `controller` created or deleted, in order, without repetitions.
fn order(tenant: &Tenant<'_>, controller: &Controller, method: &str) -> Result<Vec<&'static str>> {
    let kind = |name: &str| {
        ["gateway-", "ratelimitpolicy-"].into_iter().find(|kind| name.starts_with(kind)).unwrap_or("other")
    };
    let writes = tenant.writes(controller)?.into_iter().filter(|write| write.verb == method);
    let mut kinds: Vec<&str> = writes
        .filter(|write| write.object().resource == "manifestworks")
        .map(|write| kind(&write.object().name))
        .filter(|kind| *kind != "other")
        .collect();
    kinds.dedup();
    Ok(kinds)
}

#[tokio::test]
async fn a_gateway_is_held_until_its_policies_are_applied() -> Result<()> {
    let (tenant, controller) = waiting("holds", 2, "hold").await?;
    until_on(&tenant, false).await?;
    let expected = "False PoliciesPending: not programmed on 1 of 1 clusters: eu-1 (waits for its policies: \
                ratelimitpolicies/limits; ratelimitpolicies/quota)";
    until_programmed(&tenant, expected).await?;
    let (reason, _) = until_event(&tenant, &web(&tenant), "it waits for its policies").await?;
    ensure!(reason == "PoliciesPending", "the Event has reason {reason}");

    // The Gateway still waits after a restart, and while only one of its two policies is applied.
    applied(&tenant, POLICIES[0]).await?;
    controller.kill();
    let controller = tenant.controller().await?;
    let left = "False PoliciesPending: not programmed on 1 of 1 clusters: eu-1 (waits for its policies: \
                ratelimitpolicies/quota)";
    until_programmed(&tenant, left).await?;
    tenant.settled(&controller).await?;
    until_on(&tenant, false).await?;

    applied(&tenant, POLICIES[1]).await?;
    until_on(&tenant, true).await?;
    until_programmed(&tenant, "False Pending: not programmed on 1 of 1 clusters: eu-1 (pending)").await?;

    // An existing Gateway is updated even if one of its policies is no longer applied.
    let work = tenant.work("eu-1", POLICIES[1]).await?;
    tenant.report(&work, &WorkReport::refused("it is in use")).await?;
    tenant.merge(&web(&tenant), &json!({"metadata": {"labels": {"team": "shop"}}})).await?;
    let labelled =
        |work: &ManifestWork| work.spec.workload.manifests[1].0["metadata"]["labels"]["team"] == "shop";
    tenant.until_work("eu-1", "gateway-web", labelled).await.map(drop)
}

#[tokio::test]
async fn gateway_stops_waiting_for_a_deleted_policy() -> Result<()> {
    let (tenant, _controller) = waiting("goes", 3600, "hold").await?;
    until_on(&tenant, false).await?;
    applied(&tenant, POLICIES[0]).await?;
    until_programmed(&tenant, "False Pending: not programmed on 1 of 1 clusters: eu-1 (waits for").await?;
    // A work that another client deletes is created again, and the Gateway still waits for this work.
    let work = tenant.work("eu-1", POLICIES[0]).await?;
    let api: kube::Api<ManifestWork> = kube::Api::namespaced(tenant.client().clone(), "eu-1");
    api.delete(work.metadata.name.as_deref().unwrap_or_default(), &DeleteParams::default()).await?;
    tenant.until_work("eu-1", POLICIES[0], |found| found.metadata.uid != work.metadata.uid).await?;
    tenant.delete(&rate_limit_policy(tenant.name(), "quota", "web")).await?;
    tenant.until_works(&["eu-1/access", "eu-1/ratelimitpolicy-limits"]).await?;
    applied(&tenant, POLICIES[0]).await?;
    tenant.until_works(&["eu-1/access", "eu-1/gateway-web", "eu-1/ratelimitpolicy-limits"]).await
}

#[tokio::test]
async fn gateway_is_created_without_policies_that_are_not_applied_in_time() -> Result<()> {
    // 15 s are long enough to create the policies on a busy machine.
    let (tenant, controller) = waiting("serves", 15, "serve").await?;
    until_on(&tenant, true).await?;
    // The audit log can be a moment behind the objects.
    tenant.settled(&controller).await?;
    let order = order(&tenant, &controller, "create")?;
    ensure!(order == ["ratelimitpolicy-", "gateway-"], "works were created in the order {order:?}");
    let created =
        |work: &ManifestWork| work.metadata.creation_timestamp.clone().context("no creation timestamp");
    let policy = created(&tenant.work("eu-1", POLICIES[1]).await?)?;
    let gateway = created(&tenant.work("eu-1", "gateway-web").await?)?;
    let waited = gateway.0.duration_since(policy.0);
    // Creation timestamps have whole seconds.
    ensure!(waited.as_secs() >= 1, "the Gateway was created {waited:?} after the policy");
    Ok(())
}

/// Sets or removes an agent's finalizer on the Gateway's work.
async fn held_by_its_agent(tenant: &Tenant<'_>, held: bool) -> Result<()> {
    let work = tenant.work("eu-1", "gateway-web").await?;
    let finalizers = if held { json!(["example.com/agent"]) } else { json!([]) };
    let object = json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {"name": work.metadata.name, "namespace": "eu-1"},
    });
    tenant.merge(&object, &json!({"metadata": {"finalizers": finalizers}})).await.map(drop)
}

#[tokio::test]
async fn policies_leave_a_cluster_after_their_gateway() -> Result<()> {
    let (tenant, controller) = waiting("leaves", 3600, "hold").await?;
    for policy in POLICIES {
        applied(&tenant, policy).await?;
    }
    until_on(&tenant, true).await?;
    held_by_its_agent(&tenant, true).await?;

    tenant.place("all", &[]).await?;
    tenant.until_work("eu-1", "gateway-web", |work| work.metadata.deletion_timestamp.is_some()).await?;
    let writes = tenant.settled(&controller).await?;
    ensure!(order(&tenant, &controller, "delete")? == ["gateway-"], "{writes:?}");
    // If a user deletes a policy, the policy's work does not wait for the Gateway.
    tenant.delete(&rate_limit_policy(tenant.name(), "quota", "web")).await?;
    tenant.until_works(&["eu-1/access", "eu-1/gateway-web", "eu-1/ratelimitpolicy-limits"]).await?;
    held_by_its_agent(&tenant, false).await?;
    tenant.until_works(&[]).await
}

#[tokio::test]
async fn policies_wait_for_a_terminating_gateway_only_until_the_timeout() -> Result<()> {
    let (tenant, _controller) = waiting("hangs", 2, "serve").await?;
    until_on(&tenant, true).await?;
    held_by_its_agent(&tenant, true).await?;
    let started = std::time::Instant::now();
    tenant.delete(&web(&tenant)).await?;
    tenant.until_works(&["eu-1/access", "eu-1/gateway-web"]).await?;
    ensure!(
        started.elapsed() >= Duration::from_secs(1),
        "the Gateway was created after {:?}",
        started.elapsed()
    );
    held_by_its_agent(&tenant, false).await?;
    tenant.until_works(&[]).await
}
