//! Snapshots of whole works, to compare with the documented format.

use serde_json::{Value, json};

use crate::desired::{Outcome, WorksPlan, access};
use crate::testing::objects::{gateway, gateway_origin, kind, listing, policy, policy_of, policy_origin};
use crate::testing::world::{World, shop};
use policy_sync_api::names::{ClusterName, ObjectKey, Origin};

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

/// The feedback paths in the work of a policy of `resource`, except those that all policies have.
fn fields((resource, name): (&str, &str), status_fields: &Value) -> Vec<String> {
    let mut params = listing(&[resource]);
    params["policiesToSync"][0]["statusFields"] = status_fields.clone();
    let origin = Origin::new(kind(resource), ObjectKey::new("shop", "dns"));
    let policy = policy_of(resource, "dns").targets("web");
    let listeners = json!([{"name": "a", "hostname": "shop.example.com"}, {"name": "b"}]);
    let web = gateway("web").placed_on("all").spec("listeners", listeners);
    let other = gateway("other").spec("listeners", json!([{"name": "a", "hostname": "other.example.com"}]));
    let world = shop(&["eu-1"])
        .with(other)
        .params("multi", &params.to_string())
        .kind(resource, name)
        .with(web)
        .with(policy)
        .written();
    let work = object(&world.plan_of(&origin));
    let rules = work["spec"]["manifestConfigs"].as_array().into_iter().flatten();
    let paths = rules.flat_map(|config| config["feedbackRules"].as_array().into_iter().flatten());
    let paths = paths.flat_map(|rule| rule["jsonPaths"].as_array().into_iter().flatten());
    let named =
        paths.map(|path| format!("{} {}", path["name"].as_str().unwrap(), path["path"].as_str().unwrap()));
    named.filter(|path| !path.starts_with('_')).collect()
}

#[test]
fn default_values_of_a_kind_are_requested_unless_parameters_replace_them() {
    assert_eq!(fields(("ratelimitpolicies", "RateLimitPolicy"), &json!([])), Vec::<String>::new());
    let of_dns =
        fields(("dnspolicies", "DNSPolicy"), &json!([{"name": "totalRecords", "path": ".status.other"}]));
    let expected = [
        "totalRecords .status.other",
        r#"subResourcesHealthy .status.conditions[?(@.type=="SubResourcesHealthy")].status"#,
        r#"subResourcesHealthyMessage .status.conditions[?(@.type=="SubResourcesHealthy")].message"#,
        r#"subResourcesHealthyReason .status.conditions[?(@.type=="SubResourcesHealthy")].reason"#,
        r"recordConditions.shop.example.com.message .status.recordConditions['shop\.example\.com'][0].message",
        r"recordConditions.shop.example.com.reason .status.recordConditions['shop\.example\.com'][0].reason",
    ];
    assert_eq!(of_dns, expected);
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
