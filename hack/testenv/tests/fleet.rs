//! Tests of a fleet: the spokes are registered, and agents have only the rights of a klusterlet.

#![allow(clippy::unwrap_used)]

use kube::Api;
use policy_sync_api::cluster::ManagedCluster;
use policy_sync_testenv::Fleet;
use policy_sync_testenv::rights::{self, may};

#[tokio::test]
async fn spokes_are_registered_on_the_hub() {
    let fleet = Fleet::shared().await.unwrap();
    let clusters: Api<ManagedCluster> = Api::all(fleet.hub().client().unwrap());
    for (name, region) in [("eu-1", "eu"), ("us-1", "us")] {
        let cluster = clusters.get(name).await.unwrap();
        assert_eq!(cluster.metadata.labels.unwrap()["region"], region);
    }
}

#[tokio::test]
async fn agent_can_access_only_works_of_its_cluster() {
    let fleet = Fleet::shared().await.unwrap();
    let agent = fleet.hub().client_for(&rights::hub_user("eu-1")).await.unwrap();
    let group = "work.open-cluster-management.io";
    assert!(may(&agent, "watch", "manifestworks", group, "eu-1").await.unwrap());
    assert!(!may(&agent, "create", "manifestworks", group, "eu-1").await.unwrap());
    assert!(!may(&agent, "watch", "manifestworks", group, "us-1").await.unwrap());
}

/// If agents had initial rights to policies, policies would be applied without the access work that grants the right to
/// write them.
#[tokio::test]
async fn agent_has_no_initial_rights_to_policies() {
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
