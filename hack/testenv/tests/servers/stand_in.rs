//! Tests only for the built-in agent: a short resync, an unsupported update strategy, and API servers that
//! restart.

use std::time::Duration;

use kube::api::{DeleteParams, Patch, PatchParams};
use policy_sync_testenv::agent::stand_in::{StandIn, StandInConfig};
use policy_sync_testenv::fixtures::rate_limit_policy;
use policy_sync_testenv::rights;
use serde_json::json;

use crate::spokes::{self, Bench, Work};

/// A bench with an agent that has these intervals.
async fn bench(cluster: &str, resync: Duration, poll: Duration) -> (Bench, StandIn) {
    let bench = Bench::without_agents(cluster).await;
    let hub = bench.fleet().hub();
    let plane = bench.fleet().spoke(cluster).unwrap().control_plane();
    let config = StandInConfig::new(
        cluster,
        "agent",
        &hub.url(),
        hub.client_for(&rights::hub_user(cluster)).await.unwrap(),
        plane.client_for(&rights::spoke_user()).await.unwrap(),
    );
    let agent = StandIn::start(StandInConfig { resync, poll, ..config });
    bench.give_access().await;
    (bench, agent)
}

fn policy_work(namespace: &str, strategy: &str) -> Work {
    let mut config = spokes::config(
        "kuadrant.io",
        "ratelimitpolicies",
        namespace,
        "limits",
        &[("window", ".spec.limits.all.rates[0].window")],
    );
    config["updateStrategy"]["type"] = json!(strategy);
    if strategy != "ServerSideApply" {
        config["updateStrategy"] = json!({"type": strategy});
    }
    Work::new(&format!("{namespace}-policy"))
        .manifest(spokes::orphaned_namespace(namespace))
        .orphan("", "namespaces", "", namespace)
        .config(spokes::create_only("", "namespaces", "", namespace))
        .manifest(rate_limit_policy(namespace, "limits", "web"))
        .config(config)
}

#[tokio::test]
async fn resyncs_retries_and_refuses() {
    let second = Duration::from_secs(1);
    let (bench, agent) = bench("short", second, second).await;

    // An object deleted on the spoke is created again.
    let work = bench.create(&policy_work("deleted", "ServerSideApply")).await;
    let work = bench.applied(&work).await;
    let policies = bench.policies("deleted");
    let before = policies.get("limits").await.unwrap().metadata.uid;
    policies.delete("limits", &DeleteParams::default()).await.unwrap();
    bench
        .gone("the old policy", async || {
            policies.get_opt("limits").await.unwrap().is_some_and(|now| now.metadata.uid != before)
        })
        .await;
    bench.until_condition(&work, "Available", "True", "ResourcesAvailable").await;

    // A local edit causes a conflict, and is kept.
    let patch = json!({"apiVersion": "kuadrant.io/v1", "kind": "RateLimitPolicy",
        "spec": {"targetRef": {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "theirs"}}});
    policies.patch("limits", &PatchParams::apply("kubectl").force(), &Patch::Apply(&patch)).await.unwrap();
    let work = bench.until_condition(&work, "Applied", "False", "AppliedManifestWorkFailed").await;
    let message = &spokes::manifest_condition(&work, 1, "Applied").unwrap().message;
    assert!(message.contains(r#"conflict with "kubectl""#), "{message}");
    assert_eq!(policies.get("limits").await.unwrap().data["spec"]["targetRef"]["name"], "theirs");

    // An unsupported update strategy is rejected by name.
    let work = bench.create(&policy_work("refused", "Update")).await;
    let work = bench.until_condition(&work, "Applied", "False", "AppliedManifestWorkFailed").await;
    let message = &spokes::manifest_condition(&work, 1, "Applied").unwrap().message;
    assert!(message.ends_with("the update strategy Update is not supported by this agent"), "{message}");
    bench.delete(&work).await;

    // Without a watch, the next poll detects a change.
    let mut polled = policy_work("polled", "ServerSideApply");
    polled.last_config()["feedbackScrapeType"] = json!("Poll");
    let work = bench.create(&polled).await;
    let work = bench.until(&work, "fed back", |work| spokes::reads(work, 1, "window") == json!("10s")).await;
    bench.policies("polled").delete("limits", &DeleteParams::default()).await.unwrap();
    bench.applied(&work).await;
    agent.stop().await;
}

#[tokio::test]
async fn survives_restarts_of_its_api_servers() {
    let (bench, agent) = bench("outage", Duration::from_secs(240), Duration::from_secs(10)).await;
    let first = bench.create(&policy_work("first", "ServerSideApply")).await;
    bench.applied(&first).await;

    let spoke = bench.fleet().spoke("outage").unwrap().control_plane();
    spoke.stop_api_server();
    let second = bench.create(&policy_work("second", "ServerSideApply")).await;
    bench.start_delete(&first).await;
    spoke.start_api_server().await.unwrap();
    tokio::join!(bench.applied(&second), bench.deleted(&first));

    bench.fleet().hub().stop_api_server();
    bench.fleet().hub().start_api_server().await.unwrap();
    bench.delete(&second).await;
    assert!(bench.policies("second").get_opt("limits").await.unwrap().is_none());
    agent.stop().await;
}
