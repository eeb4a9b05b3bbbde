//! Tests only for the built-in agent: a short resync, an unsupported update strategy, and API servers that
//! restart.

use std::time::Duration;

use kube::api::{DeleteParams, Patch, PatchParams};
use policy_sync_testenv::agent::stand_in::{StandIn, StandInConfig};
use policy_sync_testenv::fixtures::rate_limit_policy;
use policy_sync_testenv::rights;
use serde_json::json;

use crate::spokes::{self, SpokeFixture, Work};

/// A fixture whose agent has these intervals.
async fn fixture(cluster: &str, resync: Duration, poll: Duration) -> (SpokeFixture, StandIn) {
    let fixture = SpokeFixture::without_agents(cluster).await;
    let hub = fixture.fleet().hub();
    let plane = fixture.fleet().spoke(cluster).unwrap().control_plane();
    let config = StandInConfig::new(
        cluster,
        "agent",
        &hub.url(),
        hub.client_for(&rights::hub_user(cluster)).await.unwrap(),
        plane.client_for(&rights::spoke_user()).await.unwrap(),
    );
    let agent = StandIn::start(StandInConfig { resync, poll, ..config });
    fixture.give_access().await;
    (fixture, agent)
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
    let (fixture, agent) = fixture("short", second, second).await;

    // An object deleted on the spoke is created again.
    let work = fixture.create(&policy_work("deleted", "ServerSideApply")).await;
    let work = fixture.applied(&work).await;
    let policies = fixture.policies("deleted");
    let before = policies.get("limits").await.unwrap().metadata.uid;
    policies.delete("limits", &DeleteParams::default()).await.unwrap();
    fixture
        .gone("the old policy", async || {
            policies.get_opt("limits").await.unwrap().is_some_and(|now| now.metadata.uid != before)
        })
        .await;
    fixture.until_condition(&work, "Available", "True", "ResourcesAvailable").await;

    // A local edit causes a conflict, and is kept.
    let patch = json!({"apiVersion": "kuadrant.io/v1", "kind": "RateLimitPolicy",
        "spec": {"targetRef": {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "theirs"}}});
    policies.patch("limits", &PatchParams::apply("kubectl").force(), &Patch::Apply(&patch)).await.unwrap();
    let work = fixture.until_condition(&work, "Applied", "False", "AppliedManifestWorkFailed").await;
    let message = &spokes::manifest_condition(&work, 1, "Applied").unwrap().message;
    assert!(message.contains(r#"conflict with "kubectl""#), "{message}");
    assert_eq!(policies.get("limits").await.unwrap().data["spec"]["targetRef"]["name"], "theirs");

    // The error for an unsupported update strategy has the name of the strategy.
    let work = fixture.create(&policy_work("refused", "Update")).await;
    let work = fixture.until_condition(&work, "Applied", "False", "AppliedManifestWorkFailed").await;
    let message = &spokes::manifest_condition(&work, 1, "Applied").unwrap().message;
    assert!(message.ends_with("the update strategy Update is not supported by this agent"), "{message}");
    fixture.delete(&work).await;

    // Without a watch, the next poll detects a change.
    let mut polled = policy_work("polled", "ServerSideApply");
    polled.last_config()["feedbackScrapeType"] = json!("Poll");
    let work = fixture.create(&polled).await;
    let work = fixture
        .until(&work, "the window is reported", |work| spokes::reads(work, 1, "window") == json!("10s"))
        .await;
    fixture.policies("polled").delete("limits", &DeleteParams::default()).await.unwrap();
    fixture.applied(&work).await;
    agent.stop().await;
}

#[tokio::test]
async fn survives_restarts_of_its_api_servers() {
    let (fixture, agent) = fixture("outage", Duration::from_secs(240), Duration::from_secs(10)).await;
    let first = fixture.create(&policy_work("first", "ServerSideApply")).await;
    fixture.applied(&first).await;

    let spoke = fixture.fleet().spoke("outage").unwrap().control_plane();
    spoke.stop_api_server();
    let second = fixture.create(&policy_work("second", "ServerSideApply")).await;
    fixture.start_delete(&first).await;
    spoke.start_api_server().await.unwrap();
    tokio::join!(fixture.applied(&second), fixture.deleted(&first));

    fixture.fleet().hub().stop_api_server();
    fixture.fleet().hub().start_api_server().await.unwrap();
    fixture.delete(&second).await;
    assert!(fixture.policies("second").get_opt("limits").await.unwrap().is_none());
    agent.stop().await;
}
