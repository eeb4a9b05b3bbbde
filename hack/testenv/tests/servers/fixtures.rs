//! The fixtures are valid under the generated CRDs, or under the published CRDs if `POLICY_SYNC_CRDS` is set.

use std::collections::BTreeMap;

use kube::ResourceExt;
use policy_sync_testenv::apply::{apply, apply_status};
use policy_sync_testenv::crds::{self, ClusterType};
use policy_sync_testenv::{ControlPlane, ControlPlaneOptions, binaries, fixtures};
use serde_json::json;

#[tokio::test]
async fn hub_accepts_all_fixtures() {
    let crds = crds::for_cluster_type(ClusterType::Hub, &binaries::ensure().await.unwrap()).unwrap();
    let hub = ControlPlane::start(ControlPlaneOptions { crds, ..ControlPlaneOptions::named("fixtures") })
        .await
        .unwrap();
    let client = hub.client().unwrap();
    let labels = BTreeMap::from([("region".to_owned(), "eu".to_owned())]);
    for object in [
        fixtures::namespace("shop"),
        fixtures::gateway_class("synced", "kuadrant.io/policy-sync", Some(("shop", "params"))),
        fixtures::params_config_map("shop", "params", &json!({ "downstreamClass": "istio" })),
        fixtures::gateway("shop", "web", "synced", Some("everywhere")),
        fixtures::managed_cluster("eu-1", &labels),
        fixtures::rate_limit_policy("shop", "limits", "web"),
        fixtures::auth_policy("shop", "auth", "web"),
        fixtures::timeout_policy("shop", "timeouts", &["web", "api"]),
    ] {
        let stored = apply(&client, &object).await.unwrap();
        assert_eq!(stored.name_any(), object["metadata"]["name"].as_str().unwrap());
    }
    for object in [
        fixtures::placement("shop", "everywhere", 2),
        fixtures::placement_decision("shop", "everywhere", 1, &["eu-1", "us-1"]),
    ] {
        apply(&client, &object).await.unwrap();
        let stored = apply_status(&client, &object).await.unwrap();
        assert_eq!(stored.data["status"], object["status"]);
    }
}
