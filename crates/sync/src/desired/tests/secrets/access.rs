//! Tests of the agent's permission for the grants that the spoke needs.

use super::*;
use crate::desired::tests::access::granted;
use crate::testing::objects::{gateway_origin, listing, policy, policy_origin};

/// A Gateway with a Secret of another namespace, with all its works written.
fn with_grant() -> World {
    copying(&[of_tls("a")], &[secret("a").in_ns("tls"), grant("g")]).settled(&[gateway_origin("web")])
}

#[test]
fn agent_has_no_permission_without_grants() {
    let world = copying(&[own("a")], &[secret("a")]).settled(&[gateway_origin("web")]);
    assert_eq!(granted(&world), ["gateways"]);
}

#[test]
fn agent_has_permission_for_carried_grants() {
    let world = with_grant();
    assert_eq!(granted(&world), ["gateways", "referencegrants"]);
    assert_eq!(world.access_writes("eu-1"), Vec::<String>::new());
}

#[test]
fn permission_remains_until_the_last_gateway_is_deleted() {
    // The agent still has to delete the grant on the spoke.
    let world = with_grant().without(grant("g")).settled(&[gateway_origin("web")]);
    assert_eq!(manifest_names(&world), ALONE);
    assert_eq!(granted(&world), ["gateways", "referencegrants"]);
    assert_eq!(world.access_writes("eu-1"), Vec::<String>::new());
    let world = world.terminating(&gateway_origin("web"), "eu-1");
    assert_eq!(granted(&world), ["gateways", "referencegrants"]);
    assert_eq!(world.gone(&gateway_origin("web"), "eu-1").access_writes("eu-1"), ["delete eu-1"]);
}

#[test]
fn deleted_work_no_longer_requires_the_permission() {
    let world = with_grant().gone(&gateway_origin("web"), "eu-1");
    assert_eq!(world.access_writes("eu-1"), ["delete eu-1"]);
    let mut params = listing(&["ratelimitpolicies"]);
    params["tlsSecrets"] = "copy".into();
    let world = with_grant().class("multi", &params).with(policy("limits").targets("web")).written();
    assert_eq!(granted(&world), ["gateways", "referencegrants", "ratelimitpolicies"]);
    assert_eq!(granted(&world.gone(&gateway_origin("web"), "eu-1")), ["gateways", "ratelimitpolicies"]);
}

#[test]
fn agent_cannot_gain_permission_by_changing_a_policys_work() {
    let grant = json!({"apiVersion": "gateway.networking.k8s.io/v1beta1", "kind": "ReferenceGrant",
        "metadata": {"name": "a", "namespace": "kuadrant-shop"}});
    let world = shop(&["eu-1"]).with(policy("limits").targets("web")).written().edited(
        &policy_origin("limits"),
        "eu-1",
        |work| {
            work["spec"]["workload"]["manifests"].as_array_mut().unwrap().push(grant);
        },
    );
    assert_eq!(granted(&world), ["gateways", "ratelimitpolicies"]);
}
