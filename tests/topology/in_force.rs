//! The report on where one policy is in force, as printed by `explain`.

use policy_sync_api::names::ObjectKey;
use policy_sync_topology::Graph;
use policy_sync_topology::locator::KindRef;
use policy_sync_topology::show::PolicyReport;
use serde_json::{Value, json};

use crate::shorthand::objects;

/// The report on the policy `name` of `kind` in `group`.
fn report(world: &[Value], (group, kind): (&str, &str), name: &str) -> Value {
    let objects = objects(world);
    let graph_input = objects.graph_input();
    let graph = Graph::build(&graph_input);
    let key = ObjectKey::new("shop", name);
    json!(PolicyReport::new(&graph, KindRef { group, kind }, &key, Vec::new()).unwrap())
}

const LIMITS: (&str, &str) = ("kuadrant.io", "RateLimitPolicy");

fn world() -> Vec<Value> {
    let limit = json!({"rates": []});
    vec![
        json!({"Gateway": "web", "listeners": [{}, {"name": "b", "port": 81}]}),
        json!({"HTTPRoute": "r", "parents": ["web#http"], "rules": [{}, {}]}),
        json!({"HTTPRoute": "s", "parents": ["web#http"], "rules": [{}]}),
        json!({"RateLimitPolicy": "top", "target": "Gateway/web",
            "defaults": {"strategy": "merge", "limits": {"a": limit, "b": limit}}}),
        json!({"RateLimitPolicy": "own", "target": "HTTPRoute/r", "limits": {"a": limit}}),
        json!({"RateLimitPolicy": "whole", "target": "HTTPRoute/s", "limits": {"a": limit, "b": limit}}),
        json!({"RateLimitPolicy": "nowhere", "target": "Gateway/none", "limits": {"a": limit}}),
        json!({"RateLimitPolicy": "empty", "target": "HTTPRoute/s", "defaults": {"strategy": "merge"}}),
    ]
}

#[test]
fn policy_is_in_force_partly_in_force_or_lost() {
    let (route, policy) = ("httproute.gateway.networking.k8s.io:shop", "ratelimitpolicy.kuadrant.io:shop");
    let instead = |name: &str, keys: &[&str]| json!({"keys": keys, "policies": [format!("{policy}/{name}")]});
    let found = report(&world(), LIMITS, "top");
    let expected = json!({"counts": true, "unknown": [], "fates": [
        {"fate": "InForce", "paths": 1, "at": ["gateway.gateway.networking.k8s.io:shop/web#b"]},
        {"fate": "InPart", "paths": 2, "at": [format!("{route}/r#rule-1"), format!("{route}/r#rule-2")],
         "instead": instead("own", &["limits#a"])},
        {"fate": "Lost", "paths": 1, "at": [format!("{route}/s#rule-1")],
         "instead": instead("whole", &["limits#a", "limits#b"])},
    ]});
    assert_eq!(found, expected, "{found:#}");
    let own = report(&world(), LIMITS, "own");
    assert_eq!(own["fates"][0]["fate"], "InForce");
    assert_eq!(report(&world(), LIMITS, "empty")["fates"][0]["fate"], "NoRules");
}

#[test]
fn policy_without_effect_has_a_reason() {
    let found = report(&world(), LIMITS, "nowhere");
    assert_eq!(found["counts"], false);
    assert_eq!(found["reason"], "TargetNotFound");
    assert_eq!(found["message"], "Gateway shop/none does not exist");
    assert_eq!(found["fates"], json!([]));
}

/// A policy that replaces another policy as a whole may have none of the replaced policy's keys.
#[test]
fn policy_that_replaces_another_as_a_whole_is_named() {
    let world = [
        json!({"Gateway": "web", "listeners": [{}]}),
        json!({"HTTPRoute": "r", "parents": ["web"], "rules": [{}]}),
        json!({"RateLimitPolicy": "top", "target": "Gateway/web", "overrides": {"limits": {"x": {}}}}),
        json!({"RateLimitPolicy": "own", "target": "HTTPRoute/r", "limits": {"a": {}}}),
    ];
    let found = report(&world, LIMITS, "own");
    assert_eq!(found["fates"][0]["fate"], "Lost");
    assert_eq!(found["fates"][0]["instead"]["policies"], json!(["ratelimitpolicy.kuadrant.io:shop/top"]));
}

#[test]
fn direct_policy_is_in_force_at_its_target_only() {
    let world = [
        json!({"CustomResourceDefinition": "retries.x.io", "labels": {"gateway.networking.k8s.io/policy": "direct"},
            "group": "x.io", "names": {"kind": "Retry", "plural": "retries"}}),
        json!({"Gateway": "web", "listeners": [{}]}),
        json!({"Retry.x.io": "p", "target": "Gateway/web", "times": 3}),
    ];
    let found = report(&world, ("x.io", "Retry"), "p");
    let at = json!([{"fate": "InForce", "paths": 0, "at": ["gateway.gateway.networking.k8s.io:shop/web"]}]);
    assert_eq!(found["fates"], at);
}
