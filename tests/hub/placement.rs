//! Works exist exactly on placed clusters, and works of other clients are never changed.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams, PostParams};
use policy_sync_api::annotations::{GRACE_TIMEOUT, UNPLACED_SINCE};
use policy_sync_api::work::ManifestWork;
use policy_sync_testenv::fixtures::{gateway, rate_limit_policy, timeout_policy};
use policy_sync_testenv::tenant::{LIMIT, Tenant, WorkReport};
use policy_sync_testenv::{fixtures, wait};
use serde_json::json;

use crate::{ON_BOTH, ON_EU, synced, tenant};

#[tokio::test]
async fn works_follow_the_placement() -> Result<()> {
    let tenant = tenant("follows", &["eu-1"]).await?;
    let _controller = tenant.controller().await?;
    tenant.apply(&rate_limit_policy(tenant.name(), "limits", "web")).await?;
    tenant.until_works(&ON_EU).await?;
    tenant.place("all", &["eu-1", "us-1"]).await?;
    tenant.until_works(&ON_BOTH).await?;
    tenant.place("all", &["eu-1"]).await?;
    tenant.until_works(&ON_EU).await?;
    tenant.place("all", &[]).await?;
    tenant.until_works(&[]).await
}

/// The annotation on the Gateway's work with the time at which its cluster was unplaced.
async fn unplaced_at(tenant: &Tenant<'_>) -> Result<Option<String>> {
    let work = tenant.work("us-1", "gateway-web").await?;
    Ok(work.annotations().get(UNPLACED_SINCE).cloned())
}

#[tokio::test]
async fn unplaced_gateway_is_kept_for_its_grace_period() -> Result<()> {
    let (tenant, controller, limits) = synced("serves-on").await?;
    let web = gateway(tenant.name(), "web", tenant.name(), Some("all"));
    let grace = |seconds: &str| json!({"metadata": {"annotations": {GRACE_TIMEOUT: seconds}}});
    tenant.merge(&web, &grace("3600")).await?;
    tenant.place("all", &["eu-1"]).await?;
    let marked = || async { unplaced_at(&tenant).await?.context("no unplaced time") };
    let since = wait::until("the unplaced time is written", LIMIT, marked).await?;

    // Gateway and policies are still updated during the grace period, also after a restart.
    controller.kill();
    let controller = tenant.controller().await?;
    tenant.merge(&limits, &json!({"metadata": {"labels": {"team": "shop"}}})).await?;
    let labelled =
        |work: &ManifestWork| work.spec.workload.manifests[1].0["metadata"]["labels"]["team"] == "shop";
    tenant.until_work("us-1", "ratelimitpolicy-limits", labelled).await?;
    tenant.settled(&controller).await?;
    ensure!(unplaced_at(&tenant).await?.as_deref() == Some(&*since), "the grace period restarted");
    tenant.until_works(&ON_BOTH).await?;

    tenant.place("all", &["eu-1", "us-1"]).await?;
    wait::until("the Gateway is placed again", LIMIT, || async {
        ensure!(unplaced_at(&tenant).await?.is_none(), "the unplaced time still exists");
        Ok(())
    })
    .await?;
    tenant.merge(&web, &grace("2")).await?;
    tenant.place("all", &["eu-1"]).await?;
    tenant.until_works(&ON_EU).await
}

#[tokio::test]
async fn gateway_with_a_placement_without_decisions_is_not_placed() -> Result<()> {
    let (tenant, _controller, _) = synced("moves").await?;
    tenant.apply(&gateway(tenant.name(), "web", tenant.name(), Some("empty"))).await?;
    tenant.until_works(&[]).await?;
    tenant.place("empty", &["eu-1"]).await?;
    tenant.until_works(&ON_EU).await
}

#[tokio::test]
async fn a_cluster_that_moves_between_slices_is_not_withdrawn() -> Result<()> {
    let tenant = tenant("slices", &[]).await?;
    let controller = tenant.controller().await?;
    tenant.decide("all", 1, &["eu-1"]).await?;
    tenant.decide("all", 2, &["us-1"]).await?;
    tenant.select("all", 2).await?;
    tenant.apply(&rate_limit_policy(tenant.name(), "limits", "web")).await?;
    tenant.until_works(&ON_BOTH).await?;
    let before = tenant.settled(&controller).await?.len();

    // us-1 is temporarily in no PlacementDecision, although the Placement still selects it.
    tenant.decide("all", 2, &[]).await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.until_folded(&limits, |entries, _| entries.len() == 2).await?;
    tenant.settled(&controller).await?;
    tenant.decide("all", 1, &["eu-1", "us-1"]).await?;
    // A swap of clusters between PlacementDecisions of equal size does not change the Placement's status.
    tenant.decide("all", 1, &["us-1"]).await?;
    tenant.decide("all", 2, &["eu-1"]).await?;
    let writes = tenant.settled(&controller).await?;
    ensure!(writes.len() == before, "the rewritten slices caused {:?}", &writes[before..]);
    Ok(())
}

#[tokio::test]
async fn deletions_during_downtime_are_cleaned_up() -> Result<()> {
    let tenant = tenant("sleeps", &["eu-1"]).await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    tenant.apply(&rate_limit_policy(tenant.name(), "others", "web")).await?;
    let controller = tenant.controller().await?;
    let all =
        ["eu-1/access", "eu-1/gateway-web", "eu-1/ratelimitpolicy-limits", "eu-1/ratelimitpolicy-others"];
    tenant.until_works(&all).await?;
    controller.kill();
    tenant.delete(&limits).await?;
    let _controller = tenant.controller().await?;
    tenant.until_works(&["eu-1/access", "eu-1/gateway-web", "eu-1/ratelimitpolicy-others"]).await
}

#[tokio::test]
async fn deleting_a_namespace_deletes_its_works() -> Result<()> {
    let tenant = tenant("vanishes", &["eu-1"]).await?;
    let _controller = tenant.controller().await?;
    // The parameters of the class are in another namespace, so that deleting the tenant's namespace does not delete the
    // parameters.
    let parameters =
        fixtures::params_config_map("default", "vanishes-params", &policy_sync_testenv::tenant::all_kinds());
    tenant.apply(&parameters).await?;
    let class = fixtures::gateway_class(
        tenant.name(),
        &tenant.controller_name(),
        Some(("default", "vanishes-params")),
    );
    tenant.apply(&class).await?;
    tenant.apply(&rate_limit_policy(tenant.name(), "limits", "web")).await?;
    tenant.until_works(&ON_EU).await?;
    tenant.delete(&fixtures::namespace(tenant.name())).await?;
    tenant.until_works(&[]).await
}

#[tokio::test]
async fn in_a_deleted_namespace_policies_leave_after_their_gateway() -> Result<()> {
    let tenant = tenant("ordered", &["eu-1"]).await?;
    let controller = tenant.controller().await?;
    let class = fixtures::gateway_class(
        tenant.name(),
        &tenant.controller_name(),
        Some(("default", "ordered-params")),
    );
    let mut parameters = policy_sync_testenv::tenant::all_kinds();
    tenant.apply(&fixtures::params_config_map("default", "ordered-params", &parameters)).await?;
    tenant.apply(&class).await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    tenant.until_works(&ON_EU).await?;
    parameters["policyWaitSeconds"] = json!(600);
    tenant.apply(&fixtures::params_config_map("default", "ordered-params", &parameters)).await?;
    tenant.settled(&controller).await?;
    // Simulates the finalizer of an agent that is slow to remove the Gateway.
    let held = tenant.work("eu-1", "gateway-web").await?.name_any();
    let api: Api<ManifestWork> = Api::namespaced(tenant.client().clone(), "eu-1");
    let finalizers = |finalizers: &[&str]| Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
    let hold = finalizers(&["cluster.open-cluster-management.io/manifest-work-cleanup"]);
    api.patch(&held, &PatchParams::default(), &hold).await?;

    tenant.delete(&fixtures::namespace(tenant.name())).await?;
    wait::until("the policy is deleted and the Gateway's work is being deleted", LIMIT, || async {
        let (policies, name) = policy_sync_testenv::apply::api_for(tenant.client(), &limits).await?;
        ensure!(policies.get_opt(&name).await?.is_none(), "the policy exists");
        let work = tenant.work("eu-1", "gateway-web").await?;
        ensure!(work.metadata.deletion_timestamp.is_some(), "the Gateway's work is not being deleted");
        Ok(())
    })
    .await?;
    tenant.settled(&controller).await?;
    tenant.until_works(&ON_EU).await?;
    let limits = tenant.work("eu-1", "ratelimitpolicy-limits").await?;
    ensure!(limits.metadata.deletion_timestamp.is_none(), "the policy is deleted before its Gateway");
    api.patch(&held, &PatchParams::default(), &finalizers(&[])).await?;
    tenant.until_works(&[]).await
}

#[tokio::test]
async fn copy_keeps_only_targets_placed_on_its_cluster() -> Result<()> {
    let tenant = tenant("narrows", &["eu-1"]).await?;
    let _controller = tenant.controller().await?;
    tenant.place("second", &["eu-1", "us-1"]).await?;
    tenant.apply(&gateway(tenant.name(), "api", tenant.name(), Some("second"))).await?;
    let mut timeouts = timeout_policy(tenant.name(), "timeouts", &["web", "api", "missing"]);
    timeouts["spec"]["targetRefs"][1]["sectionName"] = json!("http");
    tenant.apply(&timeouts).await?;
    let names = |work: &ManifestWork| -> Vec<String> {
        let references = work.spec.workload.manifests[1].0["spec"]["targetRefs"].as_array().cloned();
        references.unwrap_or_default().iter().map(|r| format!("{}{}", r["name"], r["sectionName"])).collect()
    };
    tenant
        .until_work("eu-1", "timeoutpolicy-timeouts", |work| {
            names(work) == [r#""web"null"#, r#""api""http""#]
        })
        .await?;
    tenant.until_work("us-1", "timeoutpolicy-timeouts", |work| names(work) == [r#""api""http""#]).await?;
    Ok(())
}

#[tokio::test]
async fn policy_is_withdrawn_when_retargeted_deselected_or_delisted() -> Result<()> {
    let tenant = tenant("departs", &["eu-1", "us-1"]).await?;
    let _controller = tenant.controller().await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    tenant.until_works(&ON_BOTH).await?;

    let selector = |text: &str| json!({"metadata": {"annotations": {"kuadrant.io/cluster-selector": text}}});
    tenant.merge(&limits, &selector("region in (eu)")).await?;
    tenant
        .until_works(&[
            "eu-1/access",
            "eu-1/gateway-web",
            "eu-1/ratelimitpolicy-limits",
            "us-1/access",
            "us-1/gateway-web",
        ])
        .await?;
    tenant
        .merge(&limits, &json!({"metadata": {"annotations": {"kuadrant.io/cluster-selector": null}}}))
        .await?;
    tenant.until_works(&ON_BOTH).await?;

    tenant.merge(&limits, &json!({"spec": {"targetRef": {"name": "other"}}})).await?;
    let without = ["eu-1/access", "eu-1/gateway-web", "us-1/access", "us-1/gateway-web"];
    tenant.until_works(&without).await?;
    tenant.merge(&limits, &json!({"spec": {"targetRef": {"name": "web"}}})).await?;
    tenant.until_works(&ON_BOTH).await?;

    tenant.parameters(&json!({"policiesToSync": [policy_sync_testenv::tenant::auth_policies()]})).await?;
    tenant.until_works(&without).await?;
    wait::until("the annotations are removed", Duration::from_secs(30), || async {
        let annotations = tenant.annotations(&limits).await?;
        ensure!(annotations.keys().all(|key| !key.contains("policies-synced")), "{annotations:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn work_of_another_client_is_not_changed() -> Result<()> {
    let tenant = tenant("foreign", &["eu-1", "us-1"]).await?;
    let controller = tenant.controller().await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    tenant.until_works(&ON_BOTH).await?;
    let ours = tenant.work("eu-1", "ratelimitpolicy-limits").await?;
    controller.terminate().await?;

    // A work of another client has the planned name and the controller's labels.
    let api: Api<ManifestWork> = Api::namespaced(tenant.client().clone(), "eu-1");
    let mut theirs = ManifestWork::new(&ours.name_any(), Default::default());
    theirs.metadata.labels = ours.metadata.labels.clone();
    theirs.metadata.annotations =
        Some([("kuadrant.io/parent".to_owned(), "others.example.com/a/b".to_owned())].into());
    api.delete(&ours.name_any(), &Default::default()).await?;
    let theirs = api.create(&PostParams::default(), &theirs).await?;

    let controller = tenant.controller().await?;
    tenant.until_folded(&limits, |entries, _| entries.len() == 2).await?;
    tenant.settled(&controller).await?;
    let after = api.get(&theirs.name_any()).await?;
    ensure!(
        after.metadata.uid == theirs.metadata.uid && after.spec == theirs.spec,
        "the foreign work changed"
    );
    let message = tenant.annotations(&limits).await?["kuadrant.io/policy-sync-message"].clone();
    ensure!(message.contains("of another owner"), "{message}");
    tenant.delete(&serde_json::to_value(&theirs)?).await?;
    tenant.until_works(&ON_BOTH).await
}

#[tokio::test]
async fn edited_or_deleted_work_is_restored() -> Result<()> {
    let tenant = tenant("mends", &["eu-1"]).await?;
    let _controller = tenant.controller().await?;
    tenant.apply(&rate_limit_policy(tenant.name(), "limits", "web")).await?;
    tenant.until_works(&ON_EU).await?;
    let ours = tenant.work("eu-1", "ratelimitpolicy-limits").await?;
    let object = serde_json::to_value(&ours)?;

    tenant.merge(&object, &json!({"spec": {"workload": {"manifests": []}}})).await?;
    tenant.until_work("eu-1", "ratelimitpolicy-limits", |work| work.spec == ours.spec).await?;
    tenant.merge(&object, &json!({"metadata": {"labels": null}})).await?;
    tenant.until_work("eu-1", "ratelimitpolicy-limits", |work| work.labels() == ours.labels()).await?;
    tenant.delete(&object).await?;
    tenant.until_work("eu-1", "ratelimitpolicy-limits", |work| work.uid() != ours.uid()).await?;
    Ok(())
}

#[tokio::test]
async fn work_needed_again_during_termination_is_recreated() -> Result<()> {
    let tenant = tenant("returns", &["eu-1"]).await?;
    let _controller = tenant.controller().await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    tenant.until_works(&ON_EU).await?;
    let first = tenant.work("eu-1", "ratelimitpolicy-limits").await?;
    let object = serde_json::to_value(&first)?;
    tenant.merge(&object, &json!({"metadata": {"finalizers": ["example.com/agent"]}})).await?;
    tenant.delete(&limits).await?;
    tenant
        .until_work("eu-1", "ratelimitpolicy-limits", |work| work.metadata.deletion_timestamp.is_some())
        .await?;
    tenant.apply(&limits).await?;
    tenant.until_folded(&limits, |entries, _| entries.iter().any(|entry| entry.deleting)).await?;
    // While the work is terminating, the cluster keeps the access work.
    tenant.until_works(&ON_EU).await?;
    tenant.merge(&object, &json!({"metadata": {"finalizers": null}})).await?;
    let second =
        tenant.until_work("eu-1", "ratelimitpolicy-limits", |work| work.uid() != first.uid()).await?;
    tenant.report(&second, &WorkReport::applied()).await?;
    tenant.until_folded(&limits, |_, summary| summary.synced && summary.applied == 1).await?;
    Ok(())
}
