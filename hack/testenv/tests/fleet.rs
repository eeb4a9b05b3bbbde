//! A fleet is what the project's tests stand on: a hub, spokes, and agents with no more than a klusterlet's rights.

#![allow(clippy::unwrap_used)]

use kube::Api;
use policy_sync_api::cluster::ManagedCluster;
use policy_sync_testenv::Fleet;
use policy_sync_testenv::rights::{self, may};

#[tokio::test]
async fn the_hub_knows_its_spokes() {
    let fleet = Fleet::shared().await.unwrap();
    let clusters: Api<ManagedCluster> = Api::all(fleet.hub().client().unwrap());
    for (name, region) in [("eu-1", "eu"), ("us-1", "us")] {
        let cluster = clusters.get(name).await.unwrap();
        assert_eq!(cluster.metadata.labels.unwrap()["region"], region);
    }
}

#[tokio::test]
async fn an_agent_reaches_the_works_of_its_cluster_alone() {
    let fleet = Fleet::shared().await.unwrap();
    let agent = fleet.hub().client_for(&rights::hub_user("eu-1")).await.unwrap();
    let group = "work.open-cluster-management.io";
    assert!(may(&agent, "watch", "manifestworks", group, "eu-1").await.unwrap());
    assert!(!may(&agent, "create", "manifestworks", group, "eu-1").await.unwrap());
    assert!(!may(&agent, "watch", "manifestworks", group, "us-1").await.unwrap());
}

/// So that a policy arrives only where a work of ours has brought the right to write it.
#[tokio::test]
async fn an_agent_has_no_right_to_policies_from_the_start() {
    let fleet = Fleet::shared().await.unwrap();
    let agent = fleet.spoke("eu-1").unwrap().control_plane().client_for(&rights::spoke_user()).await.unwrap();
    assert!(
        may(&agent, "create", "clusterroles", "rbac.authorization.k8s.io", "").await.unwrap(),
        "aggregated"
    );
    assert!(may(&agent, "create", "namespaces", "", "").await.unwrap(), "aggregated");
    assert!(may(&agent, "create", "configmaps", "", "default").await.unwrap(), "admin");
    assert!(!may(&agent, "create", "ratelimitpolicies", "kuadrant.io", "default").await.unwrap());
    assert!(!may(&agent, "create", "gateways", "gateway.networking.k8s.io", "default").await.unwrap());
}
