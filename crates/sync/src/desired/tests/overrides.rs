//! Tests of one policy whose spec differs between clusters.

mod json_patches;
mod refusals;

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::idempotence::any_json;
use crate::rows::kind::{KindInfo, Resolution};
use crate::testing::objects::{Object, cluster, policy, target};
use crate::testing::world::{World, shop};
use policy_sync_api::schema::Schema;

/// Two clusters in two regions, and the policy `limits` with these overrides.
fn with(overrides: &Value) -> World {
    regions().with(limits(&overrides.to_string()))
}

fn regions() -> World {
    shop(&["eu-1", "us-1"])
        .with(cluster("eu-1").label("region", "eu").label("tier", "edge"))
        .with(cluster("us-1").label("region", "us").label("tier", "edge"))
}

fn limits(overrides: &str) -> Object {
    policy("limits")
        .targets("web")
        .spec("limits", json!({"a": {"rate": 10, "window": "1m"}, "b": {"rate": 1}}))
        .annotation("kuadrant.io/cluster-overrides", overrides)
}

fn patch(selector: &str, patch: Value) -> Value {
    json!([{"clusterSelector": selector, "patch": patch}])
}

fn spec(world: &World, cluster: &str) -> Value {
    let mut spec = world.copy("limits", cluster)["spec"].clone();
    assert_eq!(spec.as_object_mut().unwrap().remove("targetRef"), Some(target("web")));
    spec
}

/// A schema of the kind, as found in its CustomResourceDefinition.
fn limits_schema(rate: &Value) -> Value {
    json!({"type": "object", "required": ["limits"], "properties": {
        "targetRef": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "limits": {"type": "object", "maxProperties": 3, "additionalProperties": {
            "type": "object", "required": ["rate"], "properties": {
                "rate": rate,
                "window": {"type": "string", "pattern": "^[0-9]+[smh]$"},
                "when": {"type": "array", "items": {"type": "object", "properties": {"predicate": {"type": "string"}}}},
            },
        }},
    }})
}

fn defined(rate: &Value) -> Resolution {
    let schema = Some(Arc::new(Schema::new(&serde_json::from_value(limits_schema(rate)).unwrap())));
    Resolution::Resolved(KindInfo { schema, ..KindInfo::named("RateLimitPolicy") })
}

fn typed() -> World {
    regions().resolution("ratelimitpolicies", defined(&json!({"type": "integer", "minimum": 1})))
}

#[test]
fn matching_cluster_gets_the_patched_spec() {
    let world = with(&patch("region=us", json!({"limits": {"a": {"rate": 5}, "b": null}})));
    assert_eq!(spec(&world, "us-1"), json!({"limits": {"a": {"rate": 5, "window": "1m"}}}));
    assert_eq!(
        spec(&world, "eu-1"),
        json!({"limits": {"a": {"rate": 10, "window": "1m"}, "b": {"rate": 1}}})
    );
    assert_eq!(world.problems("limits"), Vec::<String>::new());
}

#[test]
fn overrides_annotation_is_not_copied() {
    let copy = with(&patch("region=us", json!({"limits": {"a": null}}))).copy("limits", "us-1");
    let annotations: Vec<&String> = copy["metadata"]["annotations"].as_object().unwrap().keys().collect();
    assert_eq!(annotations, ["kuadrant.io/policy-synced", "kuadrant.io/revision"]);
}

#[test]
fn overrides_are_applied_in_order() {
    let overrides = json!([
        {"clusterSelector": "tier in (edge, core)", "patch": {"limits": {"a": {"rate": 2}, "c": {"rate": 3}}}},
        {"clusterSelector": "region notin (eu)", "patch": {"limits": {"a": {"rate": 1}, "b": null}}},
    ]);
    let world = with(&overrides);
    let a = |rate: u32| json!({"rate": rate, "window": "1m"});
    assert_eq!(spec(&world, "eu-1")["limits"], json!({"a": a(2), "b": {"rate": 1}, "c": {"rate": 3}}));
    assert_eq!(spec(&world, "us-1")["limits"], json!({"a": a(1), "c": {"rate": 3}}));
}

#[test]
fn clusters_with_the_same_overrides_share_one_work() {
    let world = shop(&["eu-1", "us-1", "us-2"])
        .with(cluster("us-1").label("region", "us"))
        .with(cluster("us-2").label("region", "us"))
        .with(limits(&patch("region=us", json!({"limits": null})).to_string()));
    let plan = world.plan("limits");
    let works: Vec<_> = plan
        .outcomes
        .values()
        .map(|outcome| match outcome {
            crate::desired::Outcome::Work(work) => Arc::as_ptr(work),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_ne!(works[0], works[1]);
    assert_eq!(works[1], works[2]);
}

#[test]
fn changed_label_or_override_updates_only_affected_clusters() {
    let us = patch("region=us", json!({"limits": {"a": {"rate": 5}}}));
    let world = regions().with(limits("[]")).written();
    let world = world.with(limits(&us.to_string()));
    assert_eq!(world.writes("limits"), ["update us-1"]);
    let world = world.written().with(cluster("eu-1").label("region", "us"));
    assert_eq!(world.writes("limits"), ["update eu-1"]);
    let world = world.written().with(cluster("us-1").label("region", "us").label("other", "label"));
    assert_eq!(world.writes("limits"), Vec::<String>::new());
    let world = world.with(limits("[]"));
    assert_eq!(world.writes("limits"), ["update eu-1", "update us-1"]);
}

#[test]
fn cluster_without_labels_matches_selectors_that_require_none() {
    let overrides = json!([
        {"clusterSelector": "", "patch": {"all": true}},
        {"clusterSelector": "!region", "patch": {"none": true}},
        {"clusterSelector": "region", "patch": {"some": true}},
    ]);
    let world = shop(&["eu-1"]).with(limits(&overrides.to_string()));
    let spec = spec(&world, "eu-1");
    assert_eq!((&spec["all"], &spec["none"], spec.get("some")), (&json!(true), &json!(true), None));
}

#[test]
fn numbers_are_written_in_the_form_of_the_server() {
    let text = r#"[{"clusterSelector": "", "patch": {"n": [1.0, -0.0, 1e3, 18446744073709551616, 9223372036854775808, 0.5]}}]"#;
    let world = regions().with(limits(text));
    let text = spec(&world, "eu-1")["n"].to_string();
    assert_eq!(text, "[1,0,1000,1.8446744073709552e+19,9.223372036854776e+18,0.5]");
    assert_eq!(world.written().writes("limits"), Vec::<String>::new());
}

/// The result of patching `target` according to the pseudocode in section 2 of RFC 7396.
fn rfc_7396(target: &Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut fields = target.as_object().cloned().unwrap_or_default();
    for (key, value) in patch {
        if value.is_null() {
            fields.remove(key);
        } else {
            let merged = rfc_7396(fields.get(key).unwrap_or(&Value::Null), value);
            fields.insert(key.clone(), merged);
        }
    }
    Value::Object(fields)
}

fn any_patch() -> impl Strategy<Value = Value> {
    let key = prop::sample::select(vec!["limits", "a", "b", "rate", "x"]);
    prop::collection::btree_map(key, any_json(), 0..4).prop_map(|fields| {
        Value::Object(fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn patches_are_merged_in_order_and_settle(own in any_patch(), patches in prop::collection::vec((any_patch(), any::<bool>()), 0..4)) {
        let overrides: Vec<Value> = patches
            .iter()
            .map(|(patch, us)| json!({"clusterSelector": if *us { "region=us" } else { "tier=edge" }, "patch": patch}))
            .collect();
        let mut limits = policy("limits").whole_spec(own.clone()).targets("web");
        limits = limits.annotation("kuadrant.io/cluster-overrides", &Value::Array(overrides).to_string());
        let world = regions().with(limits);
        for (cluster, in_us) in [("eu-1", false), ("us-1", true)] {
            let matching = patches.iter().filter(|(_, us)| !*us || in_us);
            let mut wanted = matching.fold(own.clone(), |spec, (patch, _)| rfc_7396(&spec, patch));
            let mut found = spec(&world, cluster);
            // Equal values have one normalized form.
            policy_sync_api::json::normalize(&mut wanted);
            policy_sync_api::json::normalize(&mut found);
            prop_assert_eq!(found, wanted);
        }
        prop_assert_eq!(world.written().writes("limits"), Vec::<String>::new());
    }

    #[test]
    fn odd_overrides(
        text in any_text(),
        patch_of in any_json(),
        rate in any_patch(),
        selector in any_json(),
        operations in any_operations(),
    ) {
        let overrides = json!([{"clusterSelector": selector, "patch": patch_of}]).to_string();
        let operations = json!([{"clusterSelector": "", "jsonPatch": operations}]).to_string();
        let fitting = json!([{"clusterSelector": "", "patch": {"limits": {"a": rate}}}]).to_string();
        for overrides in [text, json!([patch_of]).to_string(), overrides, fitting, operations] {
            let world = typed().with(policy("limits").targets("web")).written().with(limits(&overrides));
            let frozen = world.outcomes("limits") == ["eu-1 (keep)", "us-1 (keep)"];
            prop_assert_eq!(frozen, !world.problems("limits").is_empty());
            world.fold("limits");
        }
    }
}

/// Operations of a JSON patch on existing and missing paths, some of them invalid.
fn any_operations() -> impl Strategy<Value = Vec<Value>> {
    let op = prop::sample::select(vec!["add", "remove", "replace", "test", "move"]);
    let path = r"(/(limits|a|b|rate|x|0|1|-|~0|~1)){0,4}";
    let operation = (op, path, prop::option::of(any_json())).prop_map(|(op, path, value)| match value {
        Some(value) => json!({"op": op, "path": path, "value": value}),
        None => json!({"op": op, "path": path}),
    });
    prop::collection::vec(operation, 0..5)
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        ".{0,40}",
        r#"[\[\]{}",:0-9a-z. -]{0,60}"#,
        r#"\[\{"clusterSelector": ".{0,8}", "patch": .{0,20}\}\]"#
    ]
}
