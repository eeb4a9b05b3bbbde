//! The limit of an evaluation's memory.

#![allow(clippy::unwrap_used)]

use policy_sync_rego::bundle::Bundle;
use policy_sync_rego::culprits::{ExceededQuery, Excess};
use policy_sync_rego::embedded::Embedded;
use policy_sync_rego::engine::Failure;
use policy_sync_rego::module::{ModuleId, Text};
use regorus::Value;
use serde_json::json;

fn engine(text: &str) -> Embedded {
    let text = Text { id: ModuleId::new("m.rego"), text: text.into() };
    Embedded::new(&Bundle::read(&[text]).unwrap(), json!({}).into()).unwrap()
}

/// Each of the 7 levels multiplies the label of 63 bytes by 16: 16 GiB in all.
const DOUBLING: &str = "package a
d(s) := concat(\"\", [s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s])
deny contains msg if msg := d(d(d(d(d(d(d(input.label)))))))
";

/// The failure of `deny` for a label of 63 bytes.
fn over_limit(text: &str) -> Failure {
    let input = json!({"label": "x".repeat(63)});
    let failure = engine(text).query_value("data.a.deny", &input.into()).unwrap_err();
    assert!(failure.exceeded_memory && !failure.exceeded_time, "{failure:?}");
    failure
}

#[test]
fn evaluation_ends_before_it_allocates_too_much_memory() {
    let failure = over_limit(DOUBLING);
    assert_eq!(failure.to_string(), "m.rego:2:15: the evaluation took more than 32 MiB of memory");
}

#[test]
fn module_over_the_memory_limit_is_identified() {
    let quick = "package admission\ndeny contains \"a\" if input.name == \"b\"";
    let large = "package admission
deny contains \"l\" if count([x | some i in numbers.range(1, 1000); x := many | {i}]) > 0
many := {x | some x in numbers.range(1, 20000)}";
    let texts = [("a/any.rego", quick), ("b/large.rego", large), ("c/other.rego", quick)]
        .map(|(id, text)| Text { id: ModuleId::new(id), text: text.into() });
    let engine = Embedded::new(&Bundle::read(&texts).unwrap(), json!({}).into()).unwrap();
    let (query, input) = ("data.admission.deny", Value::from(json!({"name": "a"})));
    let failure = engine.query_value(query, &input).unwrap_err();
    assert!(failure.exceeded_memory && !failure.exceeded_time, "{failure:?}");
    let found = ExceededQuery::new(false, engine, query, &input).culprits();
    let found: Vec<(&str, Excess)> =
        found.iter().map(|culprit| (culprit.module.as_str(), culprit.excess)).collect();
    assert_eq!(found, [("b/large.rego", Excess::Memory)]);
}

#[test]
fn memory_of_all_builtins_is_limited() {
    let none = "m.rego: data.a.deny took more than 32 MiB of memory";
    for (rules, expected) in [
        // Results of builtins: one large result, and many small results.
        ("deny := sprintf(\"%v\", [big])", "m.rego:3:"),
        ("deny := json.marshal(big)", "m.rego:3:"),
        ("deny := [x | some i in range; x := replace(long, \"y\", \"\")]", "m.rego:3:"),
        // The engine's error message would contain the value, which has the wrong type.
        ("deny := startswith(big, \"x\")", "m.rego:3:"),
        // Collections of the interpreter.
        ("deny := [x | some i in range; x := many | {i}]", none),
        ("deny contains x if { some i in range; x := many | {0 - i} }", none),
        ("deny := {i: x | some i in range; x := many | {i}}", none),
        // A result with few distinct parts and a large serialized form.
        ("deny := big", none),
        ("deny := {\"big\": big}", none),
    ] {
        let text = format!(
            "package a\nrange := numbers.range(1, 1000)\n{rules}\nlong := d(d(d(input.label)))\nd(x) := concat(\"\", f(x))\n\
             many := {{x | some x in numbers.range(1, 20000)}}\n\
             big := f(f(f(f(f(f(f(input.label)))))))\nf(x) := [x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x]\n"
        );
        let failure = over_limit(&text).to_string();
        assert!(failure.starts_with(expected), "{rules}: {failure}");
        assert!(failure.ends_with("took more than 32 MiB of memory"), "{rules}: {failure}");
    }
}

#[test]
fn memory_error_that_the_engine_ignores_still_ends_the_evaluation() {
    // The second definition of `f` has a value, so the engine would ignore the error in the first definition.
    let text = format!("{DOUBLING}f(x) := count(d(d(d(d(d(d(x)))))))\nf(x) := 1\n");
    let text = text.replace("d(d(d(d(d(d(d(input.label)))))))", "sprintf(\"%d\", [f(input.label)])");
    over_limit(&text);
}

#[test]
fn memory_limit_applies_to_memory_in_use_not_to_the_total() {
    // Builds 12 texts of 4 MB one after the other, in total 48 MB.
    let text = DOUBLING.to_owned()
        + "long := d(d(d(d(input.label))))\nn := count([1 | some x in input.all; count(concat(x, [long, x])) > 0])\n";
    let input = json!({"label": "x".repeat(63), "all": vec!["0123456789abcdef"; 12]});
    assert_eq!(engine(&text).query_value("data.a.n", &input.into()).unwrap(), Some(Value::from(12)));
}

#[test]
fn number_that_json_lacks_fails_the_evaluation() {
    let text = "package a\np := {1} | bits.lsh(1, 5000)\n";
    let failure = engine(text).query_value("data.a.p", &json!({}).into()).unwrap_err();
    assert!(!failure.exceeded_memory && !failure.exceeded_time, "{failure:?}");
}
