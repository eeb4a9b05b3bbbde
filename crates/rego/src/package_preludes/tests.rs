use serde_json::json;

use crate::bundle::Bundle;
use crate::embedded::Embedded;
use crate::module::{ModuleId, Text};

/// The value of `query` with these modules.
fn value_of(modules: &[&str], query: &str) -> serde_json::Value {
    let text = |(number, text): (usize, &&str)| Text {
        id: ModuleId::new(&format!("{number}.rego")),
        text: (*text).into(),
    };
    let texts: Vec<Text> = modules.iter().enumerate().map(text).collect();
    let engine = Embedded::new(&Bundle::read(&texts).unwrap(), json!({}).into()).unwrap();
    serde_json::to_value(engine.query_value(query, &json!({"x": 2}).into()).unwrap()).unwrap()
}

const ONE: &str = "package a\nimport rego.v1\ndeny contains \"one\" if input.x == 1\n";
/// A module in which a rule depends on rules below it.
const TWO: &str = "package a\nimport rego.v1\ndeny contains \"two\" if { k == \"k\"; w(input.x) }\nk := \"k\"\nw(x) if x == 2\n";

#[test]
fn package_of_two_modules_is_evaluated_completely() {
    assert_eq!(value_of(&[ONE, TWO], "data.a"), json!({"deny": ["two"], "k": "k"}));
    assert_eq!(value_of(&[TWO, ONE], "data.a"), json!({"deny": ["two"], "k": "k"}));
    let imports = "package t\nimport rego.v1\nimport data.a\nimport data.a as b\n\
        one := {d | some d in a.deny}\ntwo := {d | some d in b.deny with input as {\"x\": 1}}\n";
    assert_eq!(value_of(&[ONE, TWO, imports], "data.t"), json!({"one": ["two"], "two": ["one"]}));
    assert_eq!(value_of(&[ONE, TWO], "data[\"a\"]"), json!({"deny": ["two"], "k": "k"}));
}

#[test]
fn package_with_subpackages_is_evaluated_completely() {
    let below = "package a.b[\"c-d\"]\nimport rego.v1\np[x] := 1 if { x := k }\nk := \"k\"\ndefault d := 7\n";
    let all = json!({"deny": [], "b": {"c-d": {"p": {"k": 1}, "k": "k", "d": 7}}});
    assert_eq!(value_of(&[ONE, below], "data.a"), all);
    assert_eq!(value_of(&[below, ONE], "data.a"), all);
}

#[test]
fn keys_from_several_modules_form_one_object() {
    let one = "package a\nimport rego.v1\nannotations[\"one\"] := \"1\" if input.x == 2\n";
    let two = "package a\nimport rego.v1\nannotations[\"two\"] := k\nk := \"2\" if input.x == 2\nannotations.three := k\n";
    let all = json!({"annotations": {"one": "1", "two": "2", "three": "2"}, "k": "2"});
    assert_eq!(value_of(&[one, two], "data.a"), all);
}

#[test]
fn failure_in_one_module_fails_the_query() {
    let two = "package a\nimport rego.v1\nk := numbers.range(1, 1000000)\n";
    let texts =
        [("one", ONE), ("two", two)].map(|(id, text)| Text { id: ModuleId::new(id), text: text.into() });
    let engine = Embedded::new(&Bundle::read(&texts).unwrap(), json!({}).into()).unwrap();
    let failure = engine.query_value("data.a", &json!({}).into()).unwrap_err();
    assert_eq!(failure.to_string(), "two:3:19: numbers.range: the result is above its limit");
}
