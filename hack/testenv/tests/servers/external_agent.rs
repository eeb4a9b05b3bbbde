//! OCM's work agent in a fleet: it works with a klusterlet's rights, and can be stopped and started.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams};
use policy_sync_api::work::ManifestWork;
use policy_sync_testenv::apply::apply;
use policy_sync_testenv::{Fleet, FleetOptions, agent, crds};
use serde_json::{Value, json};

fn work(cluster: &str, value: &str) -> Value {
    json!({
        "apiVersion": "work.open-cluster-management.io/v1",
        "kind": "ManifestWork",
        "metadata": { "name": "greeting", "namespace": cluster },
        "spec": { "workload": { "manifests": [{
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": "greeting", "namespace": "default" },
            "data": { "greeting": value },
        }] } },
    })
}

async fn eventually(what: &str, is: impl AsyncFn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is().await {
        assert!(Instant::now() < deadline, "{what}: not within 30 s");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn applies_a_work_also_after_a_restart() {
    if agent::external_binary().is_none() || crds::published_folder().is_none() {
        eprintln!(
            "NOT RUN: needs POLICY_SYNC_WORK_AGENT (OCM's `work` binary) and POLICY_SYNC_CRDS (its CRDs in ocm/)"
        );
        return;
    }
    let fleet = Fleet::start(FleetOptions::spokes(["eu-1"])).await.unwrap();
    let (hub, spoke) = (fleet.hub().client().unwrap(), fleet.spoke("eu-1").unwrap());
    let maps: Api<ConfigMap> = Api::default_namespaced(spoke.client().unwrap());
    let says = async |value: &str| {
        let map = maps.get_opt("greeting").await.unwrap();
        map.and_then(|map| map.data).is_some_and(|data| data["greeting"] == value)
    };

    apply(&hub, &work("eu-1", "hello")).await.unwrap();
    eventually("the ConfigMap exists on the spoke", async || says("hello").await).await;

    spoke.stop_agent().await;
    apply(&hub, &work("eu-1", "hello again")).await.unwrap();
    spoke.start_agent().await.unwrap();
    eventually("the ConfigMap has the new value", async || says("hello again").await).await;

    let works: Api<ManifestWork> = Api::namespaced(hub, "eu-1");
    works.delete("greeting", &DeleteParams::default()).await.unwrap();
    eventually("the ConfigMap is deleted", async || maps.get_opt("greeting").await.unwrap().is_none()).await;
    eventually("the work is deleted", async || works.get_opt("greeting").await.unwrap().is_none()).await;
}
