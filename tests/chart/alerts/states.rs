//! The states of the alerts. Each function causes one state, and runs the commands of the runbook that find the
//! cause and fix it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::ControllerName;
use policy_sync_hub::clock::Clock;
use policy_sync_hub::telemetry::metrics::Metrics;
use policy_sync_hub::{RequestTimeout, watch_client};
use policy_sync_testenv::apply::{api_for, apply};
use policy_sync_testenv::{flow, metrics, rights, wait};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::scenario::{OLDEST, Scenario, gateway, is, policy};
use crate::prometheus::{FiringAlert, Pod, STEP};

const LIMIT: Duration = Duration::from_secs(60);
/// The metric for the requests of a controller.
const REQUESTS: &str = "rest_client_requests_total";
/// A failing key is retried every minute, so its number of requests grows by this much between scrapes.
const TRIED_AGAIN: f64 = STEP as f64 / 60.0;
/// How far the clock of a controller is ahead. Works that are not applied therefore count as stuck at once.
const AHEAD: Duration = Duration::from_secs(600);

pub(super) async fn selector_is_bad(scenario: &mut Scenario) -> Result<()> {
    let (policies, name) = api_for(&scenario.client, &policy("limits")).await?;
    let patch = json!({ "metadata": { "annotations": { "kuadrant.io/cluster-selector": "region in (" } } });
    policies.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    let problem = [("category", "BadSelector"), ("freezes", "true")];
    let state = scenario
        .until("the policy is frozen", |pods| is(pods, "policy_sync_problems", &problem, 1.0))
        .await?;

    let object = [("kind", "ratelimitpolicy"), ("object", "limits"), ("object-namespace", "shop")];
    let found = scenario.reader.find("PolicySyncFrozen", &object).await?;
    found.names(&["limits", "kuadrant.io/cluster-selector"])?.names(&["To change", "shop/limits"])?;
    let repair = [&object[..], &[("selector", "region")]].concat();
    scenario.reader.repair("PolicySyncFrozen", "kubectl annotate", &repair).await?;
    let mended = scenario.until_healthy().await?;
    scenario.case(
        "a bad selector",
        state,
        mended,
        &[FiringAlert("PolicySyncFrozen", &[("category", "BadSelector")])],
    )
}

pub(super) async fn parameters_are_invalid(scenario: &mut Scenario) -> Result<()> {
    let parameters = scenario.rendered("ConfigMap", "policy-sync-parameters")?.clone();
    let mut invalid = parameters.clone();
    invalid["data"]["params"] = json!({ "policiesToSync": 3 }).to_string().into();
    apply(&scenario.client, &invalid).await?;
    let frozen = [("category", "InvalidParameters"), ("freezes", "true")];
    let state = scenario
        .until("the class is invalid", |pods| {
            is(pods, "policy_sync_classes", &[("state", "invalid")], 1.0)?;
            is(pods, "policy_sync_problems", &frozen, 2.0)
        })
        .await?;

    let manifest = tempfile::NamedTempFile::with_suffix(".json")?;
    std::fs::write(manifest.path(), parameters.to_string())?;
    let filled = [
        ("parameters", "policy-sync-parameters"),
        ("parameters-namespace", "policy-sync"),
        ("manifest", manifest.path().to_str().context("the path is not UTF-8")?),
    ];
    let found = scenario.reader.find("PolicySyncParameters", &filled).await?;
    found.names(&["Name:", "multi-cluster"])?.names(&[
        "Message:",
        "policy-sync/policy-sync-parameters",
        "policiesToSync",
    ])?;
    scenario.reader.repair("PolicySyncParameters", "policy-sync params check", &filled).await?;
    scenario.reader.repair("PolicySyncParameters", "kubectl apply", &filled).await?;
    let mended = scenario.until_healthy().await?;
    let expected = [
        FiringAlert("PolicySyncParameters", &[]),
        FiringAlert("PolicySyncFrozen", &[("category", "InvalidParameters")]),
    ];
    scenario.case("invalid parameters", state, mended, &expected)
}

/// Makes the controller check its permission for RateLimitPolicies at once, by a change of their
/// CustomResourceDefinition. Without the change, the controller would check within half a minute.
async fn look_again(scenario: &Scenario) -> Result<()> {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "ratelimitpolicies.kuadrant.io" },
    });
    let (definitions, name) = api_for(&scenario.client, &definition).await?;
    let patch =
        json!({ "metadata": { "annotations": { "example.com/touched": Timestamp::now().to_string() } } });
    definitions.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// Waits until the controller has the permission to list RateLimitPolicies if `expected`, or has lost it otherwise.
async fn until_allowed(scenario: &Scenario, expected: bool) -> Result<()> {
    let user = policy_sync_testenv::certificates::User::new("system:serviceaccount:policy-sync:policy-sync");
    let client = scenario.fleet.hub().client_for(&user.in_group("system:serviceaccounts")).await?;
    wait::until("the permission is updated", LIMIT, || async {
        let allowed = rights::may(&client, "list", "ratelimitpolicies", "kuadrant.io", "").await?;
        ensure!(allowed == expected, "allowed: {allowed}");
        Ok(())
    })
    .await
}

pub(super) async fn right_to_a_kind_is_gone(scenario: &mut Scenario) -> Result<()> {
    scenario
        .remove_verbs(("ClusterRole", "policy-sync-policy-kinds"), "ratelimitpolicies", &["list", "watch"])
        .await?;
    until_allowed(scenario, false).await?;
    look_again(scenario).await?;
    let state = scenario
        .until("the kind is forbidden", |pods| {
            is(pods, "policy_sync_kinds", &[("state", "Forbidden")], 1.0)?;
            is(pods, "policy_sync_problems", &[("category", "KindNotResolved"), ("freezes", "true")], 1.0)
        })
        .await?;

    let filled = [("parameters", "policy-sync-parameters"), ("parameters-namespace", "policy-sync")];
    let found = scenario.reader.find("PolicySyncParameters", &filled).await?;
    found.names(&["Message:", "ratelimitpolicies", "may not list"])?;
    scenario.upgrade("PolicySyncParameters").await?;
    until_allowed(scenario, true).await?;
    look_again(scenario).await?;
    let mended = scenario.until_healthy().await?;
    let expected = [
        FiringAlert("PolicySyncParameters", &[]),
        FiringAlert("PolicySyncFrozen", &[("category", "KindNotResolved")]),
    ];
    scenario.case("no permission to list a kind", state, mended, &expected)
}

pub(super) async fn spoke_is_silent(scenario: &mut Scenario) -> Result<()> {
    scenario.fleet.spoke("us-1")?.stop_agent().await;
    scenario.available("us-1", "Unknown").await?;
    let silent = [("state", "silent")];
    let state = scenario
        .until("a cluster is unavailable", |pods| is(pods, "policy_sync_clusters", &silent, 1.0))
        .await?;

    let found = scenario.reader.find("PolicySyncClusterSilent", &[("cluster", "us-1")]).await?;
    found.names(&["us-1", "Unknown"])?.names(&["limits", "shop"])?;
    // The owners of the spoke start its agent, and the agent reports to the hub again.
    scenario.fleet.spoke("us-1")?.start_agent().await?;
    scenario.available("us-1", "True").await?;
    let mended = scenario.until_healthy().await?;
    scenario.case("a stopped spoke", state, mended, &[FiringAlert("PolicySyncClusterSilent", &[])])
}

pub(super) async fn right_to_write_is_gone(scenario: &mut Scenario) -> Result<()> {
    scenario.remove_verbs(("ClusterRole", "policy-sync"), "gateways/status", &["patch"]).await?;
    // Only one key is written. The alert must fire even for this smallest number of failed requests.
    let mut gateway = gateway();
    gateway["spec"]["listeners"][0]["port"] = json!(8080);
    apply(&scenario.client, &gateway).await?;
    let refused = |pods: &[Pod]| -> f64 {
        pods.iter().map(|pod| pod.served().sum(REQUESTS, &[("code", "403"), ("resource", "gateways")])).sum()
    };
    let until_refused = async |times: f64| {
        let what = format!("{times} requests are rejected");
        let enough = |pods: &[Pod]| {
            ensure!(refused(pods) >= times, "{} rejected requests", refused(pods));
            Ok(())
        };
        scenario.until(&what, enough).await
    };
    let first = until_refused(1.0).await?;
    let state = until_refused(refused(&first) + 2.0).await?;
    let state = state.into_iter().map(|pod| pod.growing(REQUESTS, TRIED_AGAIN, &first)).collect();

    let found = scenario.reader.find("PolicySyncRequestsFail", &[]).await?;
    found.names(&["WriteRefused", "gateway/web", "is forbidden: User"])?;
    scenario.upgrade("PolicySyncRequestsFail").await?;
    let (gateways, name) = api_for(&scenario.client, &gateway).await?;
    wait::until("observedGeneration is current", LIMIT, || async {
        let found = gateways.get(&name).await?;
        let observed = &found.data["status"]["conditions"][0]["observedGeneration"];
        ensure!(observed.as_i64() == found.metadata.generation, "status: {}", found.data["status"]);
        Ok(())
    })
    .await?;
    let mended = scenario.until_healthy().await?;
    let labels = &[("method", "PATCH"), ("resource", "gateways"), ("code", "403")];
    scenario.case("no permission to write", state, mended, &[FiringAlert("PolicySyncRequestsFail", labels)])
}

/// The name of the controller's Lease.
fn lease() -> String {
    format!("policy-sync-{}", ControllerName::new("kuadrant.io/policy-sync").hash())
}

pub(super) async fn right_to_the_lease_is_gone(scenario: &mut Scenario) -> Result<()> {
    scenario.remove_verbs(("Role", "policy-sync-leader-election"), "leases", &["update"]).await?;
    let state = scenario.until("no leader exists", |pods| is(pods, "policy_sync_leader", &[], 0.0)).await?;

    let found = scenario.reader.find("PolicySyncNoLeader", &[]).await?;
    ensure!(found.has_line("no"), "the controller may update Leases: {found:?}");
    found.names(&[&lease()])?;
    scenario.upgrade("PolicySyncNoLeader").await?;
    let mended = scenario.until_healthy().await?;
    scenario.case("no permission for the Lease", state, mended, &[FiringAlert("PolicySyncNoLeader", &[])])
}

pub(super) async fn leader_is_killed(scenario: &mut Scenario) -> Result<()> {
    scenario.kill_leader().await?;
    let between = scenario.scrape().await?;
    is(&between, "policy_sync_leader", &[], 0.0)?;
    let after = scenario.until_healthy().await?;
    scenario.add_handover_case(between, after);

    scenario.kill_leader().await?;
    let state = scenario.scrape().await?;
    ensure!(state.is_empty(), "a pod still runs");
    let found = scenario.reader.find("PolicySyncNoLeader", &[]).await?;
    found.names(&[&lease()])?.names(&["No resources found", "policy-sync"])?;
    scenario.reader.repair("PolicySyncNoLeader", "kubectl scale", &[]).await?;
    // Starts a new controller, as the Deployment would.
    scenario.start("c").await?;
    let mended = scenario.until_healthy().await?;
    scenario.case("the only pod killed", state, mended, &[FiringAlert("PolicySyncNoLeader", &[])])
}

pub(super) async fn agent_does_not_run(scenario: &mut Scenario) -> Result<()> {
    // us-1 stays available on the hub, because another agent reports the availability.
    scenario.fleet.spoke("us-1")?.stop_agent().await;
    apply(&scenario.client, &policy("slow")).await?;
    scenario
        .until("a policy is pending", |pods| {
            is(pods, "policy_sync_policies", &[("state", "pending")], 1.0)?;
            is(pods, "policy_sync_works", &[("for", "policy"), ("state", "pending")], 1.0)
        })
        .await?;
    let filled = [("kind", "ratelimitpolicy"), ("policy", "slow"), ("policy-namespace", "shop")];
    let slow = ["slow", "1/2"];
    wait::until("the policy reports the pending cluster", LIMIT, || async {
        let (policies, name) = api_for(&scenario.client, &policy("slow")).await?;
        let annotations = policies.get(&name).await?.metadata.annotations.unwrap_or_default();
        ensure!(annotations.values().any(|text| text.contains(r#""applied":1,"#)), "{annotations:?}");
        Ok(())
    })
    .await?;
    scenario.reader.find("PolicySyncPropagationSlow", &filled).await?.names(&slow)?.names(&["us-1"])?;
    scenario.stop().await?;

    // The controller continues in this process, with a clock that is ahead.
    let now = Moment(Timestamp::now().as_millisecond()).after(AHEAD);
    let client = watch_client(scenario.fleet.hub().client_config(), &Metrics::new()?, RequestTimeout::Unset)?;
    let flow = flow::flow(client, "kuadrant.io/policy-sync", Clock::starting_at(now))?;
    let (served, stop) = (flow.server_state(), CancellationToken::new());
    let ends = flow.start(stop.clone());
    let scrape = || anyhow::Ok(Pod::new("c", metrics::Metrics::parse(served.metrics())?));
    let stuck =
        |pod: &Pod, expected: f64| is(std::slice::from_ref(pod), "policy_sync_works_stuck", &[], expected);
    let state = wait::until("a work is stuck", LIMIT, || async {
        let pod = scrape()?;
        stuck(&pod, 1.0)?;
        ensure!(pod.served().value(OLDEST, &[])? > 300.0, "the change is younger than 300 s");
        Ok(pod)
    })
    .await?;
    let found = scenario.reader.find("PolicySyncStuck", &[("cluster", "us-1")]).await?;
    found.names(&["us-1", "ratelimitpolicy-slow-", "<none>"])?.names(&["shop", "slow", "no"])?;
    // The owners of the spoke start the agent again.
    scenario.fleet.spoke("us-1")?.start_agent().await?;
    let mended = wait::until("no work is stuck", LIMIT, || async {
        let pod = scrape()?;
        stuck(&pod, 0.0)?;
        is(std::slice::from_ref(&pod), OLDEST, &[], 0.0)?;
        Ok(pod)
    })
    .await?;
    stop.cancel();
    ends.await??;
    let expected =
        [FiringAlert("PolicySyncPropagationSlow", &[]), FiringAlert("PolicySyncStuck", &[("for", "policy")])];
    scenario.case("a stopped work agent", vec![state], vec![mended], &expected)
}

pub(super) async fn right_to_watch_is_gone(scenario: &mut Scenario) -> Result<()> {
    scenario.remove_verbs(("ClusterRole", "policy-sync"), "placements", &["list", "watch"]).await?;
    // An open watch continues for minutes after its permission is removed, so the API server is restarted.
    scenario.fleet.hub().stop_api_server();
    scenario.fleet.hub().start_api_server().await?;
    const DOWN: &[(&str, &str)] = &[("resource", "placements")];
    let state = scenario
        .until("only Placements are not watched", |pods| {
            is(pods, "policy_sync_leader", &[], 1.0)?;
            is(pods, "policy_sync_policies", &[("state", "synced")], 1.0)?;
            let served = pods.first().context("no pod runs")?.served();
            let watches = served.labels("policy_sync_watch_up", "resource").len();
            is(pods, "policy_sync_watch_up", &[], watches as f64 - 1.0)?;
            is(pods, "policy_sync_watch_up", DOWN, 0.0)
        })
        .await?;

    let found = scenario.reader.find("PolicySyncWatchDown", DOWN).await?;
    found.names(&["placements", "is forbidden: User", "system:serviceaccount:policy-sync:policy-sync"])?;
    scenario.upgrade("PolicySyncWatchDown").await?;
    let mended = scenario.until_healthy().await?;
    scenario.case("no permission to watch a kind", state, mended, &[FiringAlert("PolicySyncWatchDown", DOWN)])
}
