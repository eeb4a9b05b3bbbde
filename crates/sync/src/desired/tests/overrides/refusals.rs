//! Tests that invalid overrides freeze the policy, with the position of the error.

use serde_json::{Value, json};

use super::{defined, limits, patch, regions, spec, typed, with};
use crate::Key;
use crate::desired::overrides::LIMIT;
use crate::testing::objects::{cluster, gateway, policy, policy_origin};

/// The problem that freezes a policy with the overrides `text`.
fn fault(text: &str) -> String {
    let world = regions().with(policy("limits").targets("web")).written().with(limits(text));
    assert_eq!(world.outcomes("limits"), ["eu-1 (keep)", "us-1 (keep)"], "{text}");
    let problems = world.problems("limits");
    assert_eq!(problems.len(), 1, "{problems:?}");
    let place = "annotation kuadrant.io/cluster-overrides";
    problems[0].strip_prefix(place).unwrap_or_else(|| panic!("{problems:?}")).to_owned()
}

/// An object that contains lists nested `inside` levels deep.
fn deep(inside: usize) -> Value {
    json!({"deep": (0..inside).fold(json!(1), |value, _| json!([value]))})
}

#[test]
fn unreadable_overrides_freeze_with_a_position() {
    let of = |item: &str| format!("[{{\"clusterSelector\": \"\", \"patch\": {{}}}}, {item}]");
    for (text, expected) in [
        ("nonsense", ": not JSON: expected ident at line 1 column 2".to_owned()),
        ("", ": not JSON: EOF while parsing a value at line 1 column 0".to_owned()),
        ("{}", ": expected a list, found an object".to_owned()),
        (&of("5"), "[1]: expected an object, found 5".to_owned()),
        (&of("{}"), "[1]: clusterSelector is required".to_owned()),
        (&of(r#"{"clusterSelector": ""}"#), "[1]: patch or jsonPatch is required".to_owned()),
        (
            &of(r#"{"clusterSelector": "", "patch": {}, "jsonPatch": []}"#),
            "[1]: patch and jsonPatch exclude each other".to_owned(),
        ),
        (
            &of(r#"{"clusterSelector": "", "patch": {}, "patches": []}"#),
            "[1].patches: unknown key, expected one of clusterSelector, patch, jsonPatch".to_owned(),
        ),
        (&of(r#"{"patch": {}, "patch": {}}"#), "[1].patch: duplicate key".to_owned()),
        (
            &of(r#"{"clusterSelector": null, "patch": {}}"#),
            "[1].clusterSelector: expected a string, found null".to_owned(),
        ),
        (
            &of(r#"{"clusterSelector": "a in b", "patch": {}}"#),
            "[1].clusterSelector: not a label key in \"a in b\"".to_owned(),
        ),
        (
            &of(r#"{"clusterSelector": "", "patch": [{}]}"#),
            "[1].patch: expected an object, found a list".to_owned(),
        ),
        (
            &of(r#"{"clusterSelector": "", "patch": {"a": [{"b c": {"": 1, "": 2}}]}}"#),
            "[1].patch.a[0][\"b c\"][\"\"]: duplicate key".to_owned(),
        ),
        (
            &json!(vec![json!({}); LIMIT + 1]).to_string(),
            ": has 101 overrides, at most 100 are allowed".to_owned(),
        ),
        (
            &patch("", deep(policy_sync_api::json::DEPTH_LIMIT)).to_string(),
            "[0].patch: more than 100 nested lists and objects".to_owned(),
        ),
    ] {
        assert_eq!(fault(text), expected);
    }
}

#[test]
fn overrides_cannot_change_target_references() {
    for (patch_of, key) in [
        (json!({"targetRef": {"name": "other"}}), "targetRef"),
        (json!({"targetRef": null}), "targetRef"),
        (json!({"limits": {}, "targetRefs": []}), "targetRefs"),
    ] {
        let expected = format!("[0].patch.{key}: a patch cannot change the target references");
        assert_eq!(fault(&patch("region=nowhere", patch_of).to_string()), expected);
    }
    // A field `targetRef` elsewhere in the spec is not a target reference.
    let world = with(&patch("", json!({"limits": {"targetRef": 1}})));
    assert_eq!(spec(&world, "eu-1")["limits"]["targetRef"], 1);
}

#[test]
fn invalid_override_does_not_prevent_withdrawal() {
    let world = regions().with(policy("limits").targets("web")).written().with(limits("nonsense"));
    let world = world.with(cluster("eu-1")).decisions("all", &["us-1"]).after(60_000);
    let world = world.gateway_written();
    assert_eq!(world.writes("limits"), ["delete eu-1"]);
    let world = world.with(gateway("web")).gateway_written();
    assert_eq!(world.writes("limits"), ["delete eu-1", "delete us-1"]);
}

#[test]
fn policy_without_a_known_target_reports_no_invalid_override() {
    let world = regions().with(limits("nonsense").targets("unknown"));
    assert_eq!(world.problems("limits"), Vec::<String>::new());
}

#[test]
fn override_that_violates_the_schema_freezes_with_a_position() {
    let region =
        |region: &str, patch: Value| json!({"clusterSelector": format!("region={region}"), "patch": patch});
    let harmless = || json!({"clusterSelector": "", "patch": {"limits": {"b": {"rate": 2}}}});
    let of = |patch: Value| json!([harmless(), region("us", patch)]);
    for (overrides, expected) in [
        (
            of(json!({"limits": {"a": {"rate": "5"}}})),
            r#"[1].patch.limits.a.rate: expected an integer, found "5""#,
        ),
        (of(json!({"limits": {"a": {"rate": 0}}})), "[1].patch.limits.a.rate: expected at least 1, found 0"),
        (of(json!({"limits": {"a": {"rat e": 5}}})), r#"[1].patch.limits.a["rat e"]: unknown field"#),
        (of(json!({"limit": {}})), "[1].patch.limit: unknown field"),
        (of(json!({"limits": {"a": {"rate": null}}})), "[1].patch.limits.a: rate is required"),
        (of(json!({"limits": {"c": {}}})), "[1].patch.limits.c: rate is required"),
        (of(json!({"limits": null})), "[1].patch: limits is required"),
        (of(json!({"limits": "none"})), r#"[1].patch.limits: expected an object, found "none""#),
        (
            of(json!({"limits": {"a": {"when": [{"predicate": "p"}, {"predicate": 1}]}}})),
            "[1].patch.limits.a.when[1].predicate: expected a string, found 1",
        ),
        (
            of(json!({"limits": {"a": {"window": "soon"}}})),
            r#"[1].patch.limits.a.window: "soon" does not match ^[0-9]+[smh]$"#,
        ),
        // Each of the two overrides is valid alone.
        (
            json!([
                {"clusterSelector": "", "patch": {"limits": {"c": {"rate": 1}}}},
                region("us", json!({"limits": {"d": {"rate": 1}}})),
            ]),
            "[1].patch.limits: expected at most 3 keys, found 4",
        ),
        // The error is reported at the override that causes it, even if a valid override of another field follows.
        (
            json!([region("us", json!({"limits": {"a": {"rate": []}}})), harmless()]),
            "[0].patch.limits.a.rate: expected an integer, found a list",
        ),
    ] {
        let world = typed().with(limits("[]")).written().with(limits(&overrides.to_string()));
        assert_eq!(world.outcomes("limits"), ["eu-1 (keep)", "us-1 (keep)"], "{overrides}");
        let expected = format!("annotation kuadrant.io/cluster-overrides{expected}");
        assert_eq!(world.problems("limits"), [expected], "{overrides}");
        assert_eq!(world.with(limits("[]")).problems("limits"), Vec::<String>::new());
    }
}

#[test]
fn schema_violation_of_the_policy_itself_is_reported_as_such() {
    let mut own = limits(&patch("region=us", json!({"limits": {"b": {"rate": 2}}})).to_string());
    own.json["spec"]["limits"]["a"]["rate"] = "x".into();
    let expected = r#"annotation kuadrant.io/cluster-overrides[0].patch.limits: spec.limits.a.rate: expected an integer, found "x""#;
    assert_eq!(typed().with(own.clone()).problems("limits"), [expected]);
    // If no override matches any cluster of the policy, only the API server of the hub validates the spec.
    let world = typed().with(own).with(cluster("us-1"));
    assert_eq!(world.problems("limits"), Vec::<String>::new());
}

#[test]
fn changed_schema_is_checked_again() {
    let overrides = patch("region=us", json!({"limits": {"a": {"rate": "5/m"}}})).to_string();
    let mut world = typed().with(limits(&overrides));
    assert_eq!(world.outcomes("limits"), ["eu-1 (keep)", "us-1 (keep)"]);
    let keys = world.resolve("v1", "ratelimitpolicies", defined(&json!({"type": "string"})));
    assert!(keys.contains(&Key::Works(policy_origin("limits"))), "{keys:?}");
    // The override is now valid, but the policy's own `rate` of `b` is not. The whole patched spec is checked.
    assert_eq!(world.problems("limits").len(), 1);
    world.resolve("v1", "ratelimitpolicies", defined(&json!({"x-kubernetes-int-or-string": true})));
    assert_eq!(world.outcomes("limits"), ["eu-1", "us-1"]);
    let same =
        world.resolve("v1", "ratelimitpolicies", defined(&json!({"x-kubernetes-int-or-string": true})));
    assert_eq!(same, crate::Keys::new());
}

#[test]
fn numbers_are_checked_in_the_form_of_the_server() {
    let world = |rate: &str| {
        let text =
            format!(r#"[{{"clusterSelector": "", "patch": {{"limits": {{"a": {{"rate": {rate}}}}}}}}}]"#);
        typed().with(limits(&text))
    };
    assert_eq!(spec(&world("5.0"), "eu-1")["limits"]["a"]["rate"].to_string(), "5");
    let place = "annotation kuadrant.io/cluster-overrides[0].patch.limits.a.rate";
    let expected = format!("{place}: expected an integer, found 1.8446744073709552e+19");
    assert_eq!(world("18446744073709551616").problems("limits"), [expected]);
}
