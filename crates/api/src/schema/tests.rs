use serde_json::json;

use super::*;
use crate::json::step::place;

/// The schema that `props` describe.
fn schema(props: Value) -> Schema {
    Schema::new(&serde_json::from_value(props).unwrap())
}

/// The fault of `value` with its path; empty if it is valid.
fn fault(props: Value, value: &Value) -> String {
    let fault = schema(props).check(value).err();
    fault.map(|fault| format!("{}: {}", place(&fault.path), fault.text)).unwrap_or_default()
}

fn fine(props: Value, values: impl IntoIterator<Item = Value>) {
    for value in values {
        assert_eq!(fault(props.clone(), &value), "", "{value} is {props}");
    }
}

fn wrong(props: Value, values: impl IntoIterator<Item = (Value, &'static str)>) {
    for (value, expected) in values {
        assert_eq!(fault(props.clone(), &value), expected, "{value} is {props}");
    }
}

/// An object with one field `a`.
fn of_a(a: Value) -> Value {
    json!({"type": "object", "properties": {"a": a}})
}

#[test]
fn values_must_have_the_declared_type() {
    let values = [json!({}), json!([]), json!("t"), json!(1), json!(0.5), json!(true), Value::Null];
    for (is, fits, words) in [
        ("object", vec![0], "an object"),
        ("array", vec![1], "a list"),
        ("string", vec![2], "a string"),
        ("integer", vec![3], "an integer"),
        ("number", vec![3, 4], "a number"),
        ("boolean", vec![5], "a boolean"),
    ] {
        for (index, value) in values.iter().enumerate() {
            let expected = if fits.contains(&index) {
                String::new()
            } else {
                let found = ["an object", "a list", "\"t\"", "1", "0.5", "true", "null"][index];
                format!(": expected {words}, found {found}")
            };
            assert_eq!(fault(json!({"type": is}), value), expected);
        }
    }
    let either =
        json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]});
    fine(either.clone(), [json!(1), json!("50%")]);
    wrong(either, [(json!(0.5), ": expected an integer or a string, found 0.5")]);
    // The API server, too, treats an integer beyond 64 bits as a double.
    wrong(json!({"type": "integer"}), [(json!(1e30), ": expected an integer, found 1e+30")]);
}

#[test]
fn null_counts_as_absent_unless_nullable() {
    let mut text = of_a(json!({"type": "string", "minLength": 1}));
    fine(text.clone(), [json!({"a": null})]);
    text["required"] = json!(["a"]);
    wrong(text.clone(), [(json!({"a": null}), ": a is required")]);
    text["properties"]["a"]["nullable"] = true.into();
    fine(text.clone(), [json!({"a": null})]);
    text["properties"]["a"]["enum"] = json!(["x"]);
    wrong(text, [(json!({"a": null}), r#".a: expected one of "x", found null"#)]);
    fine(of_a(json!({"type": "string", "default": "x"})), [json!({"a": null})]);
    let list = json!({"type": "array", "items": {"type": "string"}});
    wrong(list, [(json!(["", null]), "[1]: expected a string, found null")]);
}

#[test]
fn unknown_field_is_rejected_unless_preserved() {
    let unknown = [(json!({"a": "x", "b": 1}), ".b: unknown field")];
    wrong(of_a(json!({"type": "string"})), unknown.clone());
    wrong(json!({"type": "object"}), unknown.map(|(value, _)| (value, ".a: unknown field")));
    let mut keeps = of_a(json!({"type": "object", "properties": {}}));
    keeps["x-kubernetes-preserve-unknown-fields"] = true.into();
    fine(keeps.clone(), [json!({"a": {}, "b": {"c": 1}})]);
    wrong(keeps, [(json!({"a": {"c": 1}}), ".a.c: unknown field")]);
    fine(json!({"x-kubernetes-preserve-unknown-fields": true}), [json!({"a": 1}), json!(1), Value::Null]);
    fine(json!({"type": "object", "additionalProperties": true}), [json!({"a": {"b": 1}})]);
    let map = json!({"type": "object", "additionalProperties": {"type": "integer"}});
    fine(map.clone(), [json!({"a": 1, "b": 2})]);
    wrong(map, [(json!({"a": 1, "b c": "x"}), r#"["b c"]: expected an integer, found "x""#)]);
}

#[test]
fn embedded_object_may_have_kind_and_metadata() {
    let embedded = of_a(json!({"type": "object", "x-kubernetes-embedded-resource": true}));
    let object = json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}});
    fine(embedded.clone(), [json!({"a": object})]);
    wrong(embedded, [(json!({"a": {"kind": "K", "spec": {}}}), ".a.spec: unknown field")]);
    wrong(of_a(json!({"type": "object"})), [(json!({"a": object}), ".a.apiVersion: unknown field")]);
}

#[test]
fn required_field_must_be_present_or_have_a_default() {
    let mut required = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string", "default": "x"}}});
    required["required"] = json!(["b", "a"]);
    fine(required.clone(), [json!({"a": ""})]);
    wrong(required.clone(), [(json!({"b": ""}), ": a is required")]);
    let fault = schema(required).check(&json!({})).unwrap_err();
    assert_eq!((fault.path, fault.missing.as_deref()), (Vec::new(), Some("a")));
}

#[test]
fn each_item_is_checked() {
    let list =
        json!({"type": "array", "items": of_a(json!({"type": "integer"})), "minItems": 1, "maxItems": 2});
    fine(list.clone(), [json!([{}]), json!([{"a": 1}, {}])]);
    wrong(
        list,
        [
            (json!([{"a": 1}, {"a": "1"}]), r#"[1].a: expected an integer, found "1""#),
            (json!([]), ": expected at least 1 items, found 0"),
            (json!([{}, {}, {}]), ": expected at most 2 items, found 3"),
        ],
    );
}

#[test]
fn values_must_be_within_their_bounds() {
    let number = json!({"type": "number", "minimum": 1, "maximum": 3.5});
    fine(number.clone(), [json!(1), json!(3.5)]);
    let expected =
        [(json!(0), ": expected at least 1, found 0"), (json!(4), ": expected at most 3.5, found 4")];
    wrong(number, expected);
    let open = json!({"type": "integer", "minimum": 1, "exclusiveMinimum": true, "maximum": 3, "exclusiveMaximum": true});
    fine(open.clone(), [json!(2)]);
    wrong(
        open,
        [(json!(1), ": expected more than 1, found 1"), (json!(3), ": expected less than 3, found 3")],
    );
    let text = json!({"type": "string", "minLength": 2, "maxLength": 3, "pattern": "^[a-zé]+$"});
    fine(text.clone(), [json!("ab"), json!("ééé")]);
    wrong(
        text,
        [
            (json!("é"), ": expected at least 2 characters, found 1"),
            (json!("abcd"), ": expected at most 3 characters, found 4"),
            (json!("a1"), r#": "a1" does not match ^[a-zé]+$"#),
            (json!("aè"), r#": "aè" does not match ^[a-zé]+$"#),
        ],
    );
    let keys =
        json!({"type": "object", "additionalProperties": true, "minProperties": 1, "maxProperties": 1});
    fine(keys.clone(), [json!({"a": 1})]);
    wrong(
        keys,
        [
            (json!({}), ": expected at least 1 keys, found 0"),
            (json!({"a": 1, "b": 2}), ": expected at most 1 keys, found 2"),
        ],
    );
    let chosen = json!({"type": "string", "enum": ["a", "b"]});
    fine(chosen.clone(), [json!("b")]);
    wrong(chosen, [(json!("c"), r#": expected one of "a", "b", found "c""#)]);
    fine(json!({"type": "number", "enum": [1.0, 2]}), [json!(1), json!(2)]);
}

#[test]
fn pattern_that_does_not_compile_rejects_nothing() {
    for pattern in [r"\Q", "(?=a)", "((a{1000}){1000}){1000}"] {
        fine(json!({"type": "string", "pattern": pattern}), [json!("text")]);
    }
    // Go's regular expressions classify letters beyond ASCII differently.
    fine(json!({"type": "string", "pattern": r"^\W+$"}), [json!("é")]);
}

#[test]
fn alternatives_are_checked() {
    let mut object =
        json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}});
    object["oneOf"] = json!([{"required": ["a"]}, {"required": ["b"]}]);
    fine(object.clone(), [json!({"a": 1}), json!({"b": 1})]);
    wrong(
        object.clone(),
        [
            (json!({}), ": matches 0 of the alternatives of oneOf"),
            (json!({"a": 1, "b": 1}), ": matches 2 of the alternatives of oneOf"),
        ],
    );
    object["oneOf"] = json!([]);
    object["anyOf"] = json!([{"properties": {"a": {"minimum": 5}}}, {"required": ["b"]}]);
    fine(object.clone(), [json!({"a": 5}), json!({"a": 1, "b": 1})]);
    wrong(object.clone(), [(json!({"a": 1}), ": matches none of the alternatives of anyOf")]);
    object["anyOf"] = json!([]);
    object["allOf"] = json!([{"properties": {"a": {"maximum": 5}}}]);
    object["not"] = json!({"required": ["b"]});
    fine(object.clone(), [json!({"a": 5})]);
    wrong(
        object,
        [
            (json!({"a": 6}), ".a: expected at most 5, found 6"),
            (json!({"b": 1}), ": matches the schema under not"),
        ],
    );
}

#[test]
fn schemas_are_equal_by_content() {
    let rate = |pattern: &str| schema(of_a(json!({"type": "string", "pattern": pattern})));
    let used = rate("^a$");
    used.check(&json!({"a": "a"})).unwrap();
    assert_eq!(used, rate("^a$"));
    assert_ne!(used, rate("^b$"));
}
