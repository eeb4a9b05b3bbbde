//! Tests of the permissions of a spoke's agent.

use serde_json::Value;

use crate::desired::{Outcome, access};
use crate::testing::objects::{gateway_origin, listing, policy, policy_of, policy_origin};
use crate::testing::world::{World, shop};
use policy_sync_api::names::{ClusterName, Origin};

/// The kinds that the planned access work of `eu-1` grants.
pub(super) fn granted(world: &World) -> Vec<String> {
    let cluster = ClusterName::from("eu-1");
    match world.see(|view| access::plan(view, &cluster)).outcomes.get(&cluster) {
        Some(Outcome::Work(work)) => {
            let spec = work.spec().unwrap();
            let rules = spec.workload.manifests[0].0["rules"].as_array().unwrap();
            let resource = |rule: &Value| rule["resources"][0].as_str().unwrap().to_owned();
            rules.iter().map(resource).collect()
        }
        _ => Vec::new(),
    }
}

fn with_tokens() -> World {
    shop(&["eu-1"])
        .class("multi", &listing(&["ratelimitpolicies", "tokenpolicies"]))
        .kind("tokenpolicies", "TokenPolicy")
        .with(policy("limits").targets("web"))
        .with(policy_of("tokenpolicies", "tokens").targets("web"))
        .settled(&[gateway_origin("web"), policy_origin("limits"), tokens()])
}

fn tokens() -> Origin {
    Origin::named("kuadrant.io", "tokenpolicies", "shop", "tokens")
}

#[test]
fn cluster_without_works_gets_no_access() {
    let world = shop(&["eu-1"]);
    assert_eq!(granted(&world), Vec::<String>::new());
}

#[test]
fn access_covers_carried_kinds_and_always_gateways() {
    let world = shop(&["eu-1"]).with(policy("limits").targets("web")).settled(&[policy_origin("limits")]);
    assert_eq!(granted(&world), ["gateways", "ratelimitpolicies"]);
}

#[test]
fn access_grows_with_the_first_work_of_a_kind() {
    let world = with_tokens();
    assert_eq!(granted(&world), ["gateways", "ratelimitpolicies", "tokenpolicies"]);
}

#[test]
fn access_covers_unlisted_kinds_of_terminating_works() {
    let world = with_tokens().class("multi", &listing(&["ratelimitpolicies"])).terminating(&tokens(), "eu-1");
    assert_eq!(granted(&world), ["gateways", "ratelimitpolicies", "tokenpolicies"]);
    assert_eq!(world.access_writes("eu-1"), Vec::<String>::new());
}

#[test]
fn access_shrinks_with_the_last_work_of_a_kind() {
    let world = with_tokens().gone(&tokens(), "eu-1");
    assert_eq!(granted(&world), ["gateways", "ratelimitpolicies"]);
    assert_eq!(world.access_writes("eu-1"), ["update eu-1"]);
}

#[test]
fn access_is_deleted_last() {
    let world = with_tokens().gone(&tokens(), "eu-1").gone(&gateway_origin("web"), "eu-1");
    let world = world.terminating(&policy_origin("limits"), "eu-1");
    assert_eq!(world.access_writes("eu-1"), ["update eu-1"]);
    assert_eq!(world.gone(&policy_origin("limits"), "eu-1").access_writes("eu-1"), ["delete eu-1"]);
}
