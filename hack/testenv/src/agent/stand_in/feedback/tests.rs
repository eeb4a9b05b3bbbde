use policy_sync_api::work::JsonPath;
use serde_json::json;

use super::*;

fn evaluated(paths: &[(&str, &str)]) -> Feedback {
    evaluated_with(paths, false)
}

fn evaluated_with(paths: &[(&str, &str)], raw: bool) -> Feedback {
    let object = json!({
        "apiVersion": "kuadrant.io/v1", "kind": "RateLimitPolicy",
        "spec": {"list": [1], "longer": ["x".repeat(1021)], "named": [{"n": "a", "v": 1}, {"n": "a", "v": 2}], "map": {}, "half": 0.5, "flag": true, "long": "x".repeat(5000), "none": null},
        "metadata": {"generation": 2},
    });
    let json_paths =
        paths.iter().map(|(name, path)| JsonPath { name: (*name).into(), path: (*path).into() }).collect();
    evaluate(&[FeedbackRule { rule: FeedbackRuleType::JSONPaths, json_paths }], &object, raw)
}

#[test]
fn reports_integers_strings_and_booleans() {
    let feedback = evaluated(&[("a", ".metadata.generation"), ("b", ".spec.flag"), ("c", ".spec.long")]);
    assert!(feedback.errors.is_empty());
    assert_eq!(feedback.values[0].field_value.integer, Some(2));
    assert_eq!(feedback.values[1].field_value.boolean, Some(true));
    assert_eq!(feedback.values[2].field_value.string.as_ref().map(String::len), Some(5000));
}

#[test]
fn other_types_are_errors_and_the_rest_still_arrives() {
    let feedback = evaluated(&[
        ("list", ".spec.list"),
        ("map", ".spec.map"),
        ("half", ".spec.half"),
        ("bad", r#".spec["list"]"#),
        ("good", ".metadata.generation"),
    ]);
    assert_eq!(feedback.values.iter().map(|value| value.name.as_str()).collect::<Vec<_>>(), ["good"]);
    assert_eq!(feedback.errors[0], "the type []interface {} of the value for list is not found");
    assert_eq!(feedback.errors[1], "the type map[string]interface {} of the value for map is not found");
    assert_eq!(feedback.errors[2], "the type float64 of the value for half is not found");
    assert!(feedback.errors[3].starts_with("failed to parse json path .spec[\"list\"] of bad with error: "));
}

#[test]
fn missing_and_null_values_are_omitted() {
    let feedback = evaluated(&[("a", ".spec.nothing"), ("b", ".spec.none")]);
    assert_eq!(feedback, Feedback { has_rules: true, ..Feedback::default() });
}

#[test]
fn with_raw_json_other_types_are_json_of_at_most_1024_bytes() {
    let paths = [
        ("list", ".spec.list"),
        ("map", ".spec.map"),
        ("half", ".spec.half"),
        ("both", r#".spec.named[?(@.n=="a")].v"#),
        ("longer", ".spec.longer"),
        ("text", ".spec.long"),
    ];
    let feedback = evaluated_with(&paths, true);
    let json = |value: &FeedbackValue| value.field_value.json_raw.clone().unwrap_or_else(|| "-".into());
    assert_eq!(feedback.values.iter().map(json).collect::<Vec<_>>(), ["[1]", "{}", "0.5", "[1,2]", "-"]);
    let expected =
        "the length of returned json raw string for name longer is larger than the maximum length 1024";
    assert_eq!(feedback.errors, [expected]);
    let first = evaluated(&paths[3..4]);
    assert_eq!(first.values[0].field_value.integer, Some(1));
}
