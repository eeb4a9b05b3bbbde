//! Tests of JSON patches in overrides.

use serde_json::{Value, json};

use super::{limits, regions, spec, typed, with};
use crate::desired::overrides::OPERATIONS_LIMIT;
use crate::testing::objects::policy;
use policy_sync_api::json::DEPTH_LIMIT;

fn patch(selector: &str, operations: Value) -> Value {
    json!([{"clusterSelector": selector, "jsonPatch": operations}])
}

/// The problem of the policy with these operations on cluster `us-1`, without the name of the annotation.
fn fault(operations: Value) -> String {
    let world = typed().with(limits("[]")).written();
    let world = world.with(limits(&patch("region=us", operations).to_string()));
    assert_eq!(world.outcomes("limits"), ["eu-1 (keep)", "us-1 (keep)"]);
    let problems = world.problems("limits");
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems[0].strip_prefix("annotation kuadrant.io/cluster-overrides[0]").unwrap().to_owned()
}

#[test]
fn each_operation_changes_the_spec_of_matching_clusters() {
    for (operations, expected) in [
        (json!([]), json!({"a": {"rate": 10, "window": "1m"}, "b": {"rate": 1}})),
        (
            json!([{"op": "add", "path": "/limits/c", "value": {"rate": 3}}]),
            json!({"a": {"rate": 10, "window": "1m"}, "b": {"rate": 1}, "c": {"rate": 3}}),
        ),
        (json!([{"op": "remove", "path": "/limits/a"}]), json!({"b": {"rate": 1}})),
        (
            json!([{"op": "replace", "path": "/limits/a/rate", "value": 5}]),
            json!({"a": {"rate": 5, "window": "1m"}, "b": {"rate": 1}}),
        ),
        (
            json!([
                {"op": "test", "path": "/limits/b/rate", "value": 1.0},
                {"op": "replace", "path": "/limits/b", "value": {"rate": 2}},
                {"op": "test", "path": "/limits/b", "value": {"rate": 2}},
            ]),
            json!({"a": {"rate": 10, "window": "1m"}, "b": {"rate": 2}}),
        ),
    ] {
        let world = with(&patch("region=us", operations.clone()));
        assert_eq!(world.problems("limits"), Vec::<String>::new(), "{operations}");
        assert_eq!(spec(&world, "us-1")["limits"], expected, "{operations}");
        assert_eq!(spec(&world, "eu-1")["limits"]["a"]["rate"], 10);
    }
}

#[test]
fn items_of_lists_are_changed_by_index() {
    let hosts = |operations: Value| {
        let limits = policy("limits").targets("web").spec("hosts", json!(["a", "b", "c"]));
        let limits =
            limits.annotation("kuadrant.io/cluster-overrides", &patch("region=us", operations).to_string());
        spec(&regions().with(limits), "us-1")["hosts"].clone()
    };
    assert_eq!(hosts(json!([{"op": "add", "path": "/hosts/1", "value": "x"}])), json!(["a", "x", "b", "c"]));
    assert_eq!(hosts(json!([{"op": "add", "path": "/hosts/-", "value": "x"}])), json!(["a", "b", "c", "x"]));
    assert_eq!(hosts(json!([{"op": "remove", "path": "/hosts/0"}])), json!(["b", "c"]));
    assert_eq!(hosts(json!([{"op": "replace", "path": "/hosts/2", "value": "x"}])), json!(["a", "b", "x"]));
}

#[test]
fn key_with_a_slash_or_a_tilde_is_escaped() {
    let limits = policy("limits").targets("web").spec("a/b", json!(1)).spec("c~d", json!(2));
    let operations =
        json!([{"op": "remove", "path": "/a~1b"}, {"op": "replace", "path": "/c~0d", "value": 3}]);
    let limits = limits.annotation("kuadrant.io/cluster-overrides", &patch("", operations).to_string());
    assert_eq!(spec(&regions().with(limits), "us-1"), json!({"c~d": 3}));
}

#[test]
fn patches_of_both_forms_are_applied_in_order() {
    let overrides = json!([
        {"clusterSelector": "", "patch": {"limits": {"c": {"rate": 1}}}},
        {"clusterSelector": "region=us", "jsonPatch": [{"op": "replace", "path": "/limits/c/rate", "value": 2}]},
        {"clusterSelector": "tier=edge", "patch": {"limits": {"a": null, "b": null}}},
    ]);
    let world = with(&overrides);
    assert_eq!(spec(&world, "us-1")["limits"], json!({"c": {"rate": 2}}));
    assert_eq!(spec(&world, "eu-1")["limits"], json!({"c": {"rate": 1}}));
    assert_eq!(world.written().writes("limits"), Vec::<String>::new());
}

#[test]
fn invalid_operations_freeze_with_a_position() {
    let of =
        |operation: Value| fault(json!([{"op": "test", "path": "/limits/b/rate", "value": 1}, operation]));
    for (operation, expected) in [
        (json!("remove"), r#".jsonPatch[1]: expected an object, found "remove""#),
        (json!({"path": "/limits"}), ".jsonPatch[1]: op is required"),
        (json!({"op": "remove"}), ".jsonPatch[1]: path is required"),
        (json!({"op": 1, "path": "/a"}), ".jsonPatch[1].op: expected a string, found 1"),
        (
            json!({"op": "move", "path": "/a", "value": 1}),
            r#".jsonPatch[1].op: expected add, remove, replace or test, found "move""#,
        ),
        (
            json!({"op": "copy", "from": "/limits", "path": "/a"}),
            ".jsonPatch[1].from: unknown key, expected one of op, path, value",
        ),
        (
            json!({"op": "remove", "path": "limits"}),
            r#".jsonPatch[1].path: expected a JSON pointer such as /limits/night, found "limits""#,
        ),
        (json!({"op": "add", "path": "/limits/c"}), ".jsonPatch[1]: add requires a value"),
        (
            json!({"op": "remove", "path": "/limits/a", "value": 1}),
            ".jsonPatch[1].value: remove has no value",
        ),
        (
            json!({"op": "replace", "path": "/targetRef/name", "value": "x"}),
            ".jsonPatch[1].path: a patch cannot change the target references",
        ),
        (
            json!({"op": "add", "path": "/targetRefs", "value": []}),
            ".jsonPatch[1].path: a patch cannot change the target references",
        ),
        (
            json!({"op": "replace", "path": "", "value": {}}),
            ".jsonPatch[1].path: the path is the whole spec, and a patch cannot change the target references",
        ),
        // These operations are valid, but fail on this spec.
        (json!({"op": "remove", "path": "/limits/x"}), ".jsonPatch[1]: the spec has no path /limits/x"),
        (
            json!({"op": "replace", "path": "/limits/a/x", "value": 1}),
            ".jsonPatch[1]: the spec has no path /limits/a/x",
        ),
        (
            json!({"op": "add", "path": "/limits/x/y", "value": 1}),
            ".jsonPatch[1]: the spec has no path /limits/x/y",
        ),
        (
            json!({"op": "test", "path": "/limits/a/rate", "value": 11}),
            ".jsonPatch[1]: the test failed: /limits/a/rate of the spec is 10",
        ),
        (
            json!({"op": "test", "path": "/limits/a", "value": 11}),
            ".jsonPatch[1]: the test failed: /limits/a of the spec is an object",
        ),
        // The patched spec violates the schema of the kind.
        (
            json!({"op": "replace", "path": "/limits/a/rate", "value": "5"}),
            r#".jsonPatch[1]: spec.limits.a.rate: expected an integer, found "5""#,
        ),
        (
            json!({"op": "add", "path": "/limits/a", "value": {"rate": 0}}),
            ".jsonPatch[1]: spec.limits.a.rate: expected at least 1, found 0",
        ),
        (json!({"op": "remove", "path": "/limits/a/rate"}), ".jsonPatch[1]: spec.limits.a: rate is required"),
    ] {
        assert_eq!(of(operation.clone()), expected, "{operation}");
    }
    assert_eq!(fault(json!({})), ".jsonPatch: expected a list, found an object");
}

#[test]
fn number_and_depth_of_operations_are_limited() {
    let test = json!({"op": "test", "path": "/limits/b/rate", "value": 1});
    assert_eq!(
        fault(json!(vec![test; OPERATIONS_LIMIT + 1])),
        ".jsonPatch: has 101 operations, at most 100 are allowed"
    );
    let deep = |inside: usize| (0..inside).fold(json!(1), |value, _| json!([value]));
    let add = |inside| json!([{"op": "add", "path": "/limits/c", "value": deep(inside)}]);
    assert_eq!(fault(add(DEPTH_LIMIT - 1)), ".jsonPatch[0]: more than 100 nested lists and objects");
    let world = with(&patch("", add(DEPTH_LIMIT - 2)));
    assert_eq!(world.problems("limits"), Vec::<String>::new());
}

/// Each operation at the start of a list moves all items. A tenant could delay the plans of others with many of them.
#[test]
fn number_of_moved_items_is_limited() {
    let many = |operations: usize| {
        let add = json!({"op": "add", "path": "/hosts/0", "value": 1});
        let overrides = json!([
            {"clusterSelector": "", "jsonPatch": vec![&add; operations]},
            {"clusterSelector": "", "jsonPatch": vec![&add; operations]},
        ]);
        let limits = policy("limits").targets("web").spec("hosts", json!(vec![1; 500]));
        regions().with(limits.annotation("kuadrant.io/cluster-overrides", &overrides.to_string()))
    };
    // 90 operations move 500, 501, … 589 items: 49,005 together.
    assert_eq!(many(45).problems("limits"), Vec::<String>::new());
    let expected = "annotation kuadrant.io/cluster-overrides[1].jsonPatch[45]: adding and removing items moves more \
                    than 50000 list items";
    assert_eq!(many(46).problems("limits"), [expected]);
}

#[test]
fn error_that_no_operation_causes_is_reported_at_the_patch() {
    let mut limits =
        limits(&patch("", json!([{"op": "test", "path": "/limits/b/rate", "value": 1}])).to_string());
    limits.json["spec"]["limits"]["a"]["rate"] = "x".into();
    let expected = r#"annotation kuadrant.io/cluster-overrides[0].jsonPatch: spec.limits.a.rate: expected an integer, found "x""#;
    assert_eq!(typed().with(limits.clone()).problems("limits"), [expected]);
    let other = json!([{"op": "add", "path": "/01", "value": 1}, {"op": "remove", "path": "/01"}]);
    let limits = limits.annotation("kuadrant.io/cluster-overrides", &patch("", other).to_string());
    let expected = r#"annotation kuadrant.io/cluster-overrides[0].jsonPatch: spec.limits.a.rate: expected an integer, found "x""#;
    assert_eq!(typed().with(limits).problems("limits"), [expected]);
}

#[test]
fn differing_paths_name_items_of_lists() {
    let overrides = json!([{"clusterSelector": "", "jsonPatch": [
        {"op": "test", "path": "/rules/0/name", "value": "cart"},
        {"op": "replace", "path": "/rules/0/backendRefs/1/weight", "value": 10},
        {"op": "add", "path": "/rules/-", "value": {}},
        {"op": "remove", "path": "/hosts~1old"},
        {"op": "remove", "path": "/07"},
    ]}]);
    let overrides = crate::desired::overrides::Overrides::parse(&overrides.to_string()).unwrap();
    let places: Vec<String> = overrides.places(&[0]).into_iter().collect();
    assert_eq!(places, ["07", "[\"hosts/old\"]", "rules", "rules[0].backendRefs[1].weight"]);
}
