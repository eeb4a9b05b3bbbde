use serde_json::json;

use super::*;

fn read(placement_result: serde_json::Value) -> Result<PlacementResult, String> {
    PlacementResult::read(&placement_result.into()).map_err(|fault| fault.to_string())
}

#[test]
fn other_values_become_compact_json_and_null_removes_a_key() {
    let placement_result = read(json!({
        "annotations": {"a": {"b": [1, "x"]}, "c": "text", "d": null, "example.com/e": true},
        "labels": {"zone": "eu", "n": 1, "gone": null},
        "errors": ["b", "a", "b"],
        "helper": [1, 2],
    }))
    .unwrap();
    let text = |text: &str| Some(text.to_owned());
    let annotations =
        [("a", text(r#"{"b":[1,"x"]}"#)), ("c", text("text")), ("d", None), ("example.com/e", text("true"))];
    assert_eq!(placement_result.annotations, annotations.map(|(key, value)| (key.to_owned(), value)).into());
    let labels = [("zone", text("eu")), ("n", text("1")), ("gone", None)];
    assert_eq!(placement_result.labels, labels.map(|(key, value)| (key.to_owned(), value)).into());
    assert_eq!(placement_result.errors, ["a", "b"]);
    assert_eq!(read(json!({})), Ok(PlacementResult::default()));
    // Partial rules of Rego produce sets.
    let set = Value::from(std::collections::BTreeSet::from([Value::from("b"), Value::from("a")]));
    let placement_result =
        PlacementResult::read(&std::collections::BTreeMap::from([(Value::from("errors"), set)]).into())
            .unwrap();
    assert_eq!(placement_result.errors, ["a", "b"]);
}

#[test]
fn invalid_results_are_rejected_with_their_location() {
    for (placement_result, expected) in [
        (json!([]), "answer: expected an object, found a list"),
        (json!({"annotations": ["a"]}), "annotations: expected an object, found a list"),
        (json!({"labels": "zone"}), "labels: expected an object, found a string"),
        (json!({"errors": "no"}), "errors: expected a list of strings, found a string"),
        (json!({"errors": ["no", 1]}), "errors: expected a list of strings, found a list"),
        (json!({"errors": {"no": 1}}), "errors: expected a list of strings, found an object"),
        (
            json!({"annotations": {"kuadrant.io/placed-by-policy": "{}"}}),
            "annotations.kuadrant.io/placed-by-policy: it is reserved for the controller",
        ),
        (
            json!({"labels": {"clusters.kuadrant.io/c1_zone": "eu"}}),
            "labels.clusters.kuadrant.io/c1_zone: it is reserved for the controller",
        ),
        (json!({"annotations": {"no key": "x"}}), "annotations.no key: is not a valid key"),
        (json!({"labels": {"zone": "no value"}}), r#"labels.zone: "no value" is not a valid label value"#),
        (json!({"labels": {"zone": {"a": 1}}}), r#"labels.zone: "{\"a\":1}" is not a valid label value"#),
    ] {
        assert_eq!(read(placement_result.clone()), Err(expected.to_owned()), "{placement_result}");
    }
    // Users and placement policies may set `kuadrant.io/cluster-selector`.
    assert!(read(json!({"annotations": {"kuadrant.io/cluster-selector": "zone=eu"}})).is_ok());
    let fault = read(json!({"annotations": ["x".repeat(10_000)]})).unwrap_err();
    assert!(fault.len() < 200, "{} bytes", fault.len());
}
