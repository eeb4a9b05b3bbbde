//! `policy-sync status --watch`.

use std::collections::BTreeMap;
use std::path::Path;

use policy_sync_api::annotations::POLICY_SYNC_MESSAGE;
use policy_sync_testenv::crds::{self, ClusterType};
use policy_sync_testenv::running::Running;
use policy_sync_testenv::{ControlPlane, ControlPlaneOptions, Tenant, binaries, fixtures};
use serde_json::{Value, json};

use super::{annotated, annotations, tenant, user_with};
use crate::run::command;

fn watch(tenant: &Tenant<'_>, kubeconfig: &Path, arguments: &[&str]) -> Running {
    let (controller, namespace) = (tenant.controller_name(), tenant.name());
    let mut command = command(&["status", "--watch", "--controller-name", &controller, "-n", namespace]);
    command.arg("--kubeconfig").arg(kubeconfig).args(arguments);
    Running::start(command)
}

/// Whether a row begins with these words.
fn row(words: &'static [&'static str]) -> impl Fn(&str) -> bool {
    move |line| line.split_whitespace().take(words.len()).eq(words.iter().copied())
}

async fn lags(tenant: &Tenant<'_>, name: &str) {
    annotated(tenant.client(), fixtures::rate_limit_policy(tenant.name(), name, "web"), annotations(false))
        .await;
}

async fn is_synced(tenant: &Tenant<'_>, name: &str) {
    annotated(tenant.client(), fixtures::rate_limit_policy(tenant.name(), name, "web"), annotations(true))
        .await;
}

async fn is_deleted(tenant: &Tenant<'_>, name: &str) {
    tenant.delete(&fixtures::rate_limit_policy(tenant.name(), name, "web")).await.unwrap();
}

#[tokio::test]
async fn watch_prints_changed_rows() {
    let tenant = tenant("status-watch").await;
    lags(&tenant, "limits").await;
    is_synced(&tenant, "others").await;
    let mut running = watch(&tenant, tenant.hub().kubeconfig(), &["policies"]);
    let first = running.prints("the rows of both policies", row(&["RateLimitPolicy", "others"])).await;
    assert!(row(&["KIND", "NAME", "STATE", "CLUSTERS"])(&first[0]), "{first:#?}");
    assert!(row(&["RateLimitPolicy", "limits", "Pending", "1/2"])(&first[1]), "{first:#?}");

    is_synced(&tenant, "limits").await;
    running.prints("the changed row", row(&["RateLimitPolicy", "limits", "Overridden", "2/2"])).await;
    // A change of the spec does not affect the output.
    let spec = json!({"spec": {"limits": {"all": {"rates": [{"limit": 9, "window": "1m"}]}}}});
    let others = fixtures::rate_limit_policy(tenant.name(), "others", "web");
    tenant.merge(&others, &spec).await.unwrap();
    is_deleted(&tenant, "limits").await;
    let all = running
        .prints(
            "the row of the deleted policy",
            row(&["RateLimitPolicy", "limits", "gone", "-", "-", "-", "-", "-"]),
        )
        .await;
    assert_eq!(all.len(), 5, "{all:#?}");

    running.signal("TERM");
    assert_eq!(running.ends().await, Some(0));
    let lines = running.stderr_lines();
    assert!(lines.len() == 1 && lines[0].starts_with("--watch never shows Unreachable: "), "{lines:?}");
}

#[tokio::test]
async fn watch_prints_a_json_document_for_each_change() {
    let tenant = tenant("status-watch-json").await;
    lags(&tenant, "limits").await;
    let mut running = watch(
        &tenant,
        tenant.hub().kubeconfig(),
        &["ratelimitpolicy", "limits", "--cluster", "us-1", "-o", "json"],
    );
    running.prints("the document of the policy", |line| line.contains("limits")).await;
    is_synced(&tenant, "limits").await;
    // Policies with other names are ignored.
    lags(&tenant, "others").await;
    is_deleted(&tenant, "limits").await;
    let lines = running.prints("the document of the deleted policy", |line| line.contains("gone")).await;
    let documents: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let fields = |field: &str| documents.iter().map(|document| document[field].clone()).collect::<Vec<_>>();
    assert!(documents.iter().all(|document| document["name"] == "limits"), "{lines:#?}");
    // The policy was applied again without its annotations. The watch may or may not observe that state.
    let in_sync: Vec<Value> = fields("inSync").into_iter().filter(|value| !value.is_null()).collect();
    assert_eq!((&in_sync[0], in_sync.last().unwrap()), (&json!(false), &json!(true)), "{lines:#?}");
    assert_eq!(fields("gone").last(), Some(&json!(true)));
    running.signal("INT");
    assert_eq!(running.ends().await, Some(0));
}

#[tokio::test]
async fn watch_continues_after_an_outage_of_the_hub() {
    let crds = crds::for_cluster_type(ClusterType::Hub, &binaries::ensure().await.unwrap()).unwrap();
    let options = ControlPlaneOptions { crds, ..ControlPlaneOptions::named("status-away") };
    let hub = ControlPlane::start(options).await.unwrap();
    let tenant = Tenant::new(&hub, Path::new(env!("CARGO_BIN_EXE_policy-sync")), "shop", &[]).await.unwrap();
    for name in ["limits", "others"] {
        is_synced(&tenant, name).await;
    }
    let mut running = watch(&tenant, hub.kubeconfig(), &["policies"]);
    running.prints("the rows of both policies", row(&["RateLimitPolicy", "others"])).await;

    hub.stop_api_server();
    let lines = running.says("cannot reach the hub at").await;
    assert!(lines.last().unwrap().ends_with("; waiting for it"), "{lines:#?}");
    hub.start_api_server().await.unwrap();
    running.says("is reachable again").await;
    lags(&tenant, "limits").await;
    running.prints("the changed row", row(&["RateLimitPolicy", "limits", "Pending", "1/2"])).await;

    // A new API server does not repeat events from before its start.
    running.signal("STOP");
    hub.stop_api_server();
    hub.start_api_server().await.unwrap();
    let frozen = BTreeMap::from([(POLICY_SYNC_MESSAGE, "frozen".to_owned())]);
    annotated(tenant.client(), fixtures::rate_limit_policy("shop", "limits", "web"), frozen).await;
    is_deleted(&tenant, "others").await;
    running.signal("CONT");
    running.prints("the row of the deleted policy", row(&["RateLimitPolicy", "others", "gone"])).await;
    let all = running.prints("the row of the frozen policy", |line| line.contains("frozen")).await;
    let rows = |name: &'static str| all.iter().filter(|line| line.contains(name)).count();
    assert_eq!((rows("others"), rows("KIND")), (2, 1), "{all:#?}");

    running.signal("INT");
    assert_eq!(running.ends().await, Some(0));
}

#[tokio::test]
async fn missing_right_to_watch_is_reported() {
    let tenant = tenant("status-watch-rights").await;
    is_synced(&tenant, "limits").await;
    let rights =
        [(None, "gateway.networking.k8s.io", "*"), (None, "", "configmaps"), (None, "kuadrant.io", "*")];
    let reader = user_with(&tenant, "lists-only", &rights).await;
    let mut running = watch(&tenant, &reader, &["ratelimitpolicy"]);
    assert_eq!(running.ends().await, Some(2));
    running.prints("the row of the policy", row(&["RateLimitPolicy", "limits"])).await;
    running.says("policy-sync: cannot watch RateLimitPolicy on the hub at").await;
    assert_eq!(running.stderr_lines().len(), 2, "{:?}", running.stderr_lines());
}
