//! Whole works, to be read against the contract.

use serde_json::{Value, json};

use crate::api::names::{ClusterName, Origin};
use crate::sync::desired::{Outcome, WorksPlan, access};
use crate::sync::tests::objects::{gateway, gateway_origin, listing, policy, policy_origin};
use crate::sync::tests::world::{World, shop};

fn hub() -> World {
    let mut params = listing(&["ratelimitpolicies"]);
    params["policiesToSync"][0]["statusFields"] =
        json!([{"name": "generation", "path": ".status.observedGeneration"}]);
    let limits = policy("limits")
        .targets("web")
        .label("team", "a")
        .spec("limits", json!({"global": {"rates": [{"limit": 5}]}}));
    let web = gateway("web").placed_on("all").annotation("example.com/note", "kept");
    shop(&["eu-1"]).params("multi", &params.to_string()).with(web).with(limits).written()
}

fn object(plan: &WorksPlan) -> Value {
    match plan.outcomes.get(&ClusterName::from("eu-1")) {
        Some(Outcome::Work(work)) => work.object("eu-1").unwrap(),
        other => panic!("no work is planned: {other:?}"),
    }
}

fn work(origin: &Origin) -> Value {
    object(&hub().plan_of(origin))
}

#[test]
fn policy_work() {
    insta::assert_yaml_snapshot!(work(&policy_origin("limits")));
}

#[test]
fn gateway_work() {
    insta::assert_yaml_snapshot!(work(&gateway_origin("web")));
}

#[test]
fn access_work() {
    let plan = hub().see(|view| access::plan(view, &ClusterName::from("eu-1")));
    insta::assert_yaml_snapshot!(object(&plan));
}
