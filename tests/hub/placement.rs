//! Invariant 4: nothing outside the placement, no delete of what is wanted, nothing touched that is not ours.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams, PostParams};
use policy_sync::api::annotations::{DISPLACED_SINCE, GRACE_TIMEOUT};
use policy_sync::api::work::ManifestWork;
use policy_sync_testenv::fixtures::{gateway, rate_limit_policy, timeout_policy};
use policy_sync_testenv::world::{Answer, LIMIT, World};
use policy_sync_testenv::{fixtures, wait};
use serde_json::json;

use crate::{ON_BOTH, ON_EU, synced, world};

#[tokio::test]
async fn works_follow_the_placement() -> Result<()> {
    let world = world("follows", &["eu-1"]).await?;
    let _controller = world.controller().await?;
    world.apply(&rate_limit_policy(world.name(), "limits", "web")).await?;
    world.until_works(&ON_EU).await?;
    world.place("all", &["eu-1", "us-1"]).await?;
    world.until_works(&ON_BOTH).await?;
    world.place("all", &["eu-1"]).await?;
    world.until_works(&ON_EU).await?;
    world.place("all", &[]).await?;
    world.until_works(&[]).await
}

/// What a Gateway's work says of the moment since when its cluster is no longer chosen.
async fn displaced(world: &World<'_>) -> Result<Option<String>> {
    let work = world.work("us-1", "gateway-web").await?;
    Ok(work.annotations().get(DISPLACED_SINCE).cloned())
}

#[tokio::test]
async fn a_gateway_serves_on_for_its_grace() -> Result<()> {
    let (world, controller, limits) = synced("serves-on").await?;
    let web = gateway(world.name(), "web", world.name(), Some("all"));
    let grace = |seconds: &str| json!({"metadata": {"annotations": {GRACE_TIMEOUT: seconds}}});
    world.merge(&web, &grace("3600")).await?;
    world.place("all", &["eu-1"]).await?;
    let marked = || async { displaced(&world).await?.context("it says nothing") };
    let since = wait::until("the moment is written", LIMIT, marked).await?;

    // It and its policies are kept as anywhere else, also by a controller that was not there when it began.
    controller.kill();
    let controller = world.controller().await?;
    world.merge(&limits, &json!({"metadata": {"labels": {"team": "shop"}}})).await?;
    let labelled =
        |work: &ManifestWork| work.spec.workload.manifests[1].0["metadata"]["labels"]["team"] == "shop";
    world.until_work("us-1", "ratelimitpolicy-limits", labelled).await?;
    world.settled(&controller).await?;
    ensure!(displaced(&world).await?.as_deref() == Some(&*since), "the clock was set back");
    world.until_works(&ON_BOTH).await?;

    world.place("all", &["eu-1", "us-1"]).await?;
    wait::until("it is chosen again", LIMIT, || async {
        ensure!(displaced(&world).await?.is_none(), "it still says since when");
        Ok(())
    })
    .await?;
    world.merge(&web, &grace("2")).await?;
    world.place("all", &["eu-1"]).await?;
    world.until_works(&ON_EU).await
}

#[tokio::test]
async fn a_gateway_that_moves_to_a_placement_without_decisions_is_placed_nowhere() -> Result<()> {
    let (world, _controller, _) = synced("moves").await?;
    world.apply(&gateway(world.name(), "web", world.name(), Some("empty"))).await?;
    world.until_works(&[]).await?;
    world.place("empty", &["eu-1"]).await?;
    world.until_works(&ON_EU).await
}

#[tokio::test]
async fn a_cluster_that_moves_between_slices_is_not_withdrawn() -> Result<()> {
    let world = world("slices", &[]).await?;
    let controller = world.controller().await?;
    world.decide("all", 1, &["eu-1"]).await?;
    world.decide("all", 2, &["us-1"]).await?;
    world.select("all", 2).await?;
    world.apply(&rate_limit_policy(world.name(), "limits", "web")).await?;
    world.until_works(&ON_BOTH).await?;
    let before = world.settled(&controller).await?.len();

    // us-1 is in no slice for a while, although the Placement has chosen it all along.
    world.decide("all", 2, &[]).await?;
    let limits = rate_limit_policy(world.name(), "limits", "web");
    world.until_folded(&limits, |entries, _| entries.len() == 2).await?;
    world.settled(&controller).await?;
    world.decide("all", 1, &["eu-1", "us-1"]).await?;
    // A swap of equal size never writes the Placement's status.
    world.decide("all", 1, &["us-1"]).await?;
    world.decide("all", 2, &["eu-1"]).await?;
    let writes = world.settled(&controller).await?;
    ensure!(writes.len() == before, "the rewritten slices cost {:?}", &writes[before..]);
    Ok(())
}

#[tokio::test]
async fn deletions_while_it_is_down_are_cleaned_up() -> Result<()> {
    let world = world("sleeps", &["eu-1"]).await?;
    let limits = rate_limit_policy(world.name(), "limits", "web");
    world.apply(&limits).await?;
    world.apply(&rate_limit_policy(world.name(), "others", "web")).await?;
    let controller = world.controller().await?;
    let all =
        ["eu-1/access", "eu-1/gateway-web", "eu-1/ratelimitpolicy-limits", "eu-1/ratelimitpolicy-others"];
    world.until_works(&all).await?;
    controller.kill();
    world.delete(&limits).await?;
    let _controller = world.controller().await?;
    world.until_works(&["eu-1/access", "eu-1/gateway-web", "eu-1/ratelimitpolicy-others"]).await
}

#[tokio::test]
async fn a_namespace_that_goes_takes_its_works_along() -> Result<()> {
    let world = world("vanishes", &["eu-1"]).await?;
    let _controller = world.controller().await?;
    // The class's parameters live elsewhere, or they would be gone, too.
    let parameters =
        fixtures::params_config_map("default", "vanishes-params", &policy_sync_testenv::world::all_kinds());
    world.apply(&parameters).await?;
    let class =
        fixtures::gateway_class(world.name(), &world.controller_name(), Some(("default", "vanishes-params")));
    world.apply(&class).await?;
    world.apply(&rate_limit_policy(world.name(), "limits", "web")).await?;
    world.until_works(&ON_EU).await?;
    world.delete(&fixtures::namespace(world.name())).await?;
    world.until_works(&[]).await
}

#[tokio::test]
async fn in_a_namespace_that_goes_policies_leave_after_their_gateway() -> Result<()> {
    let world = world("ordered", &["eu-1"]).await?;
    let controller = world.controller().await?;
    let class =
        fixtures::gateway_class(world.name(), &world.controller_name(), Some(("default", "ordered-params")));
    let mut parameters = policy_sync_testenv::world::all_kinds();
    world.apply(&fixtures::params_config_map("default", "ordered-params", &parameters)).await?;
    world.apply(&class).await?;
    let limits = rate_limit_policy(world.name(), "limits", "web");
    world.apply(&limits).await?;
    world.until_works(&ON_EU).await?;
    parameters["policyWaitSeconds"] = json!(600);
    world.apply(&fixtures::params_config_map("default", "ordered-params", &parameters)).await?;
    world.settled(&controller).await?;
    // The agent takes its time to let go of the Gateway.
    let held = world.work("eu-1", "gateway-web").await?.name_any();
    let api: Api<ManifestWork> = Api::namespaced(world.client().clone(), "eu-1");
    let finalizers = |finalizers: &[&str]| Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
    let hold = finalizers(&["cluster.open-cluster-management.io/manifest-work-cleanup"]);
    api.patch(&held, &PatchParams::default(), &hold).await?;

    world.delete(&fixtures::namespace(world.name())).await?;
    wait::until("the policy is gone, and the Gateway going", LIMIT, || async {
        let (policies, name) = policy_sync_testenv::apply::api_for(world.client(), &limits).await?;
        ensure!(policies.get_opt(&name).await?.is_none(), "the policy is there");
        let work = world.work("eu-1", "gateway-web").await?;
        ensure!(work.metadata.deletion_timestamp.is_some(), "the Gateway's work is not asked to go");
        Ok(())
    })
    .await?;
    world.settled(&controller).await?;
    world.until_works(&ON_EU).await?;
    let limits = world.work("eu-1", "ratelimitpolicy-limits").await?;
    ensure!(limits.metadata.deletion_timestamp.is_none(), "the policy left before its Gateway");
    api.patch(&held, &PatchParams::default(), &finalizers(&[])).await?;
    world.until_works(&[]).await
}

#[tokio::test]
async fn a_copy_has_only_the_references_that_are_placed_with_it() -> Result<()> {
    let world = world("narrows", &["eu-1"]).await?;
    let _controller = world.controller().await?;
    world.place("second", &["eu-1", "us-1"]).await?;
    world.apply(&gateway(world.name(), "api", world.name(), Some("second"))).await?;
    let mut timeouts = timeout_policy(world.name(), "timeouts", &["web", "api", "missing"]);
    timeouts["spec"]["targetRefs"][1]["sectionName"] = json!("http");
    world.apply(&timeouts).await?;
    let names = |work: &ManifestWork| -> Vec<String> {
        let references = work.spec.workload.manifests[1].0["spec"]["targetRefs"].as_array().cloned();
        references.unwrap_or_default().iter().map(|r| format!("{}{}", r["name"], r["sectionName"])).collect()
    };
    world
        .until_work("eu-1", "timeoutpolicy-timeouts", |work| {
            names(work) == [r#""web"null"#, r#""api""http""#]
        })
        .await?;
    world.until_work("us-1", "timeoutpolicy-timeouts", |work| names(work) == [r#""api""http""#]).await?;
    Ok(())
}

#[tokio::test]
async fn a_policy_leaves_when_it_is_retargeted_deselected_or_delisted() -> Result<()> {
    let world = world("leaves", &["eu-1", "us-1"]).await?;
    let _controller = world.controller().await?;
    let limits = rate_limit_policy(world.name(), "limits", "web");
    world.apply(&limits).await?;
    world.until_works(&ON_BOTH).await?;

    let selector = |text: &str| json!({"metadata": {"annotations": {"kuadrant.io/cluster-selector": text}}});
    world.merge(&limits, &selector("region in (eu)")).await?;
    world
        .until_works(&[
            "eu-1/access",
            "eu-1/gateway-web",
            "eu-1/ratelimitpolicy-limits",
            "us-1/access",
            "us-1/gateway-web",
        ])
        .await?;
    world
        .merge(&limits, &json!({"metadata": {"annotations": {"kuadrant.io/cluster-selector": null}}}))
        .await?;
    world.until_works(&ON_BOTH).await?;

    world.merge(&limits, &json!({"spec": {"targetRef": {"name": "other"}}})).await?;
    let without = ["eu-1/access", "eu-1/gateway-web", "us-1/access", "us-1/gateway-web"];
    world.until_works(&without).await?;
    world.merge(&limits, &json!({"spec": {"targetRef": {"name": "web"}}})).await?;
    world.until_works(&ON_BOTH).await?;

    world.parameters(&json!({"policiesToSync": [policy_sync_testenv::world::auth_policies()]})).await?;
    world.until_works(&without).await?;
    wait::until("the annotations are gone", Duration::from_secs(30), || async {
        let annotations = world.annotations(&limits).await?;
        ensure!(annotations.keys().all(|key| !key.contains("policies-synced")), "{annotations:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_work_that_is_not_ours_is_left_alone() -> Result<()> {
    let world = world("foreign", &["eu-1", "us-1"]).await?;
    let controller = world.controller().await?;
    let limits = rate_limit_policy(world.name(), "limits", "web");
    world.apply(&limits).await?;
    world.until_works(&ON_BOTH).await?;
    let ours = world.work("eu-1", "ratelimitpolicy-limits").await?;
    controller.terminate().await?;

    // Somebody else's work takes the planned name, with labels like ours.
    let api: Api<ManifestWork> = Api::namespaced(world.client().clone(), "eu-1");
    let mut theirs = ManifestWork::new(&ours.name_any(), Default::default());
    theirs.metadata.labels = ours.metadata.labels.clone();
    theirs.metadata.annotations =
        Some([("kuadrant.io/parent".to_owned(), "others.example.com/a/b".to_owned())].into());
    api.delete(&ours.name_any(), &Default::default()).await?;
    let theirs = api.create(&PostParams::default(), &theirs).await?;

    let controller = world.controller().await?;
    world.until_folded(&limits, |entries, _| entries.len() == 2).await?;
    world.settled(&controller).await?;
    let after = api.get(&theirs.name_any()).await?;
    ensure!(after.metadata.uid == theirs.metadata.uid && after.spec == theirs.spec, "it was touched");
    let message = world.annotations(&limits).await?["kuadrant.io/policy-sync-message"].clone();
    ensure!(message.contains("not ours"), "{message}");
    world.delete(&serde_json::to_value(&theirs)?).await?;
    world.until_works(&ON_BOTH).await
}

#[tokio::test]
async fn a_work_of_ours_that_is_edited_or_deleted_is_put_back() -> Result<()> {
    let world = world("mends", &["eu-1"]).await?;
    let _controller = world.controller().await?;
    world.apply(&rate_limit_policy(world.name(), "limits", "web")).await?;
    world.until_works(&ON_EU).await?;
    let ours = world.work("eu-1", "ratelimitpolicy-limits").await?;
    let object = serde_json::to_value(&ours)?;

    world.merge(&object, &json!({"spec": {"workload": {"manifests": []}}})).await?;
    world.until_work("eu-1", "ratelimitpolicy-limits", |work| work.spec == ours.spec).await?;
    world.merge(&object, &json!({"metadata": {"labels": null}})).await?;
    world.until_work("eu-1", "ratelimitpolicy-limits", |work| work.labels() == ours.labels()).await?;
    world.delete(&object).await?;
    world.until_work("eu-1", "ratelimitpolicy-limits", |work| work.uid() != ours.uid()).await?;
    Ok(())
}

#[tokio::test]
async fn a_work_that_is_wanted_again_while_it_terminates_comes_back() -> Result<()> {
    let world = world("returns", &["eu-1"]).await?;
    let _controller = world.controller().await?;
    let limits = rate_limit_policy(world.name(), "limits", "web");
    world.apply(&limits).await?;
    world.until_works(&ON_EU).await?;
    let first = world.work("eu-1", "ratelimitpolicy-limits").await?;
    let object = serde_json::to_value(&first)?;
    world.merge(&object, &json!({"metadata": {"finalizers": ["example.com/agent"]}})).await?;
    world.delete(&limits).await?;
    world
        .until_work("eu-1", "ratelimitpolicy-limits", |work| work.metadata.deletion_timestamp.is_some())
        .await?;
    world.apply(&limits).await?;
    world.until_folded(&limits, |entries, _| entries.iter().any(|entry| entry.deleting)).await?;
    // What still terminates keeps its access.
    world.until_works(&ON_EU).await?;
    world.merge(&object, &json!({"metadata": {"finalizers": null}})).await?;
    let second = world.until_work("eu-1", "ratelimitpolicy-limits", |work| work.uid() != first.uid()).await?;
    world.answer(&second, &Answer::applied()).await?;
    world.until_folded(&limits, |_, summary| summary.synced && summary.applied == 1).await?;
    Ok(())
}
