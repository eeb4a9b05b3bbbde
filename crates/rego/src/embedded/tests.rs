use serde_json::json;

use super::*;
use crate::module::{ModuleId, Text};
use crate::queries::query;

fn engine(text: &str, data: serde_json::Value) -> Embedded {
    let text = Text { id: ModuleId::new("m.rego"), text: text.into() };
    Embedded::new(&Bundle::read(&[text]).unwrap(), data.into()).unwrap()
}

fn query_value(
    text: &str,
    query: &str,
    input: serde_json::Value,
) -> Result<Option<serde_json::Value>, String> {
    let engine = engine(text, json!({"kubernetes": {"clusters": {"c1": {"zone": "eu"}}}}));
    let answer = engine.query_value(query, &input.into()).map_err(|failure| failure.to_string())?;
    Ok(answer.map(|value| serde_json::to_value(value).unwrap()))
}

#[test]
fn query_returns_its_value_or_undefined() {
    let text =
        "package a\nzones contains c.zone if { some c in data.kubernetes.clusters }\nbig if { input.x > 1 }";
    assert_eq!(query_value(text, "data.a.zones", json!({})), Ok(Some(json!(["eu"]))));
    assert_eq!(query_value(text, "data.a.big", json!({"x": 2})), Ok(Some(json!(true))));
    assert_eq!(query_value(text, "data.a.big", json!({"x": 1})), Ok(None));
    assert_eq!(query_value(text, "data.nothing", json!({})), Ok(None));
    assert_eq!(query_value(text, &query("a"), json!({})), Ok(Some(json!({"zones": ["eu"]}))));
}

#[test]
fn failures_have_their_place() {
    let conflict = "package a\np := x if { some x in input.all }";
    assert_eq!(
        query_value(conflict, "data.a.p", json!({"all": [1, 2]})),
        Err("m.rego:2:1: conflicting values of a rule or a function".to_owned())
    );
    // A builtin that fails is undefined.
    assert_eq!(query_value("package a\np := 1 / input.x", "data.a.p", json!({"x": 0})), Ok(None));
    let query = query_value("package a\np := 1", "data.a.p[", json!({})).unwrap_err();
    assert_eq!(query, "m.rego: the evaluation failed", "an error in the query");
}

#[test]
fn evaluation_ends_after_one_second() {
    let text = "package a\np if { some x, y in numbers.range(1, 100000); some z in numbers.range(1, 100000); x * y + z == 0 }";
    let begun = std::time::Instant::now();
    let failure = engine(text, json!({})).query_value("data.a.p", &json!({}).into()).unwrap_err();
    assert!(failure.exceeded_time, "{failure}");
    assert_eq!(failure.to_string(), "m.rego: data.a.p took more than 1 s");
    assert!(begun.elapsed() < LIMIT * 4, "{:?}", begun.elapsed());
}

#[test]
fn evaluations_are_independent() {
    let engine = engine("package a\np := input.x", json!({}));
    assert_eq!(engine.query_value("data.a.p", &json!({"x": 1}).into()).unwrap(), Some(Value::from(1)));
    assert_eq!(engine.query_value("data.a.p", &json!({}).into()).unwrap(), None);
}

#[test]
fn printed_lines_are_returned() {
    let engine = engine("package a\np if { print(\"seen\", input.x) }", json!({}));
    let prints = engine.evaluate("data.a.p", &json!({"x": 1}).into()).unwrap().prints;
    assert!(prints.len() == 1 && prints[0].contains("seen") && prints[0].contains('1'), "{prints:?}");
}

#[test]
fn names_are_quoted_in_queries() {
    assert_eq!(query("a.b"), "data[\"a\"][\"b\"]");
    assert_eq!(query("a\"] with input as {}"), "data[\"a\\\"] with input as {}\"]");
}

/// Rules that fail on `input.o`, each with the kind of its error.
const FAILING: [(&str, &str); 9] = [
    ("p := {k: v | some v in input.o; k := 1}", "more than one value for a key of an object"),
    ("p := input.o & {\"a\"}", "operand of the wrong type for &"),
    ("p := base64.decode(input.o[0]) & {\"a\"}", "operand of the wrong type for &"),
    ("p := input.o[0] + 1", "operand of the wrong type for +"),
    ("p := x if { some x in input.o }", "conflicting values of a rule or a function"),
    ("p[1] := x if { some x in input.o }", "conflicting values of a rule or a function"),
    ("p := f(1)\nf(_) := x if { some x in input.o }", "conflicting values of a rule or a function"),
    ("p if { some x in input.o[0] }", "some … in needs an array, a set or an object"),
    (
        "p := units.parse(concat(\"\", [input.o[0] | some i in numbers.range(1, 20)]))",
        "units.parse: the result is above its limit",
    ),
];

#[test]
fn failed_evaluations_quote_no_values() {
    for (rule, expected) in FAILING {
        let values = json!({"o": ["aHVudGVyMg==", "aHVudGVyMzM="]});
        let error = query_value(&format!("package a\n{rule}"), "data.a.p", values).unwrap_err();
        assert!(error.contains(expected), "{rule}: {error}");
        assert!(!error.contains("aHVudGVy") && !error.contains("hunter"), "{rule}: {error}");
        let whole = engine(&format!("package a\n{rule}"), json!({}));
        let input = json!({"o": ["aHVudGVyMg==", "aHVudGVyMzM="]}).into();
        assert!(whole.evaluate("data.a.p", &input).is_err(), "{rule}");
    }
    // Evaluations for commands that read files quote no values either.
    let whole = engine("package a\np := input.o & {1}", json!({}));
    let error = whole.evaluate("data.a.p", &json!({"o": "mine"}).into()).unwrap_err().to_string();
    assert_eq!(error, "m.rego:2:11: operand of the wrong type for &");
}

#[test]
fn invalid_data_is_not_quoted() {
    let engine = engine("package a\np := 1", json!({}));
    let error = engine.with_data(json!(["hunter2"]).into()).unwrap_err().to_string();
    assert_eq!(error, "m.rego: the evaluation failed");
}

#[test]
fn timeout_in_a_function_is_reported_as_timeout() {
    let text = "package a\np := f(1)\nf(n) := count([1 | some x in numbers.range(n, 100000); some y in numbers.range(1, 100000); x + y == 0])";
    assert!(engine(text, json!({})).query_value("data.a.p", &json!({}).into()).unwrap_err().exceeded_time);
}

/// Measures the time of one review of a Service by the example policies, with and without limits for builtins and
/// interpreter. Each time is the minimum of many alternating runs.
#[test]
fn memory_limit_has_little_overhead() {
    const TURNS: usize = 300;
    let texts = [
        include_str!("../../../../docs/examples/rego/gates/allowed-ports.rego"),
        include_str!("../../../../docs/examples/rego/gates/image-registry.rego"),
        include_str!("../../../../docs/examples/rego/gates/ingress-host-fqdn.rego"),
        include_str!("../../../../docs/examples/rego/gates/required-labels.rego"),
        include_str!("../../../../docs/examples/rego/gates/load-balancers.rego"),
    ];
    let texts = texts
        .iter()
        .enumerate()
        .map(|(at, text)| Text { id: ModuleId::new(&format!("{at}.rego")), text: (*text).into() });
    let bundle = Bundle::read(&texts.collect::<Vec<_>>()).unwrap();
    let limited = Embedded::new(&bundle, json!({}).into()).unwrap();
    let mut free = bundle.engine().unwrap();
    extensions::add_without_limits(&mut free).unwrap();
    free.set_strict_builtin_errors(false);
    free.set_gather_prints(true);
    free.set_execution_timer_config(ExecutionTimerConfig { limit: LIMIT, check_interval: STEPS });
    free.add_data(json!({}).into()).unwrap();
    free.eval_query("true".to_owned(), false).unwrap();
    let service = json!({
        "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
        "spec": {"ports": [{"port": 80}, {"port": 22}, {"port": 8443}], "type": "NodePort", "externalIPs": ["192.0.2.1"]},
    });
    let input: Value =
        json!({"request": {"kind": {"kind": "Service"}}, "reviewed": ["services", "shop", "web", service]})
            .into();
    let (mut with, mut without) = (Duration::MAX, Duration::MAX);
    for _ in 0..TURNS {
        let began = std::time::Instant::now();
        let found = limited.query_value("data.admission.deny", &input).unwrap().unwrap();
        with = with.min(began.elapsed());
        let began = std::time::Instant::now();
        let mut engine = free.clone();
        engine.set_input(input.clone());
        let results = engine.eval_query("data.admission.deny".to_owned(), false).unwrap();
        drop(engine);
        without = without.min(began.elapsed());
        assert_eq!(found, results.result[0].expressions[0].value);
        assert!(found.as_set().unwrap().len() > 1, "{found}");
    }
    let ratio = with.as_secs_f64() / without.as_secs_f64();
    println!("{with:?} with the limit, {without:?} without: {ratio:.2} times");
    assert!(ratio < 1.5, "{with:?} with the limit, {without:?} without");
}

#[test]
fn data_at_the_path_of_a_rule_is_rejected() {
    let text = Text { id: ModuleId::new("m.rego"), text: "package a.b\np := 1\nf(x) := x".into() };
    let bundle = Bundle::read(&[text]).unwrap();
    let fault = |data: serde_json::Value| bundle.fault_of_data(&data.into()).map(|fault| fault.to_string());
    for (data, expected) in [
        (
            json!({"a": {"b": {"p": 2}}}),
            "data has a value at the path of the rule p: remove the value, or rename the rule",
        ),
        (json!({"a": {"b": 2}}), "data has a value at this path: remove it"),
        (json!({"a": [1]}), "data has a value at a parent of this path: remove it"),
    ] {
        let expected = format!("m.rego:1:9: package a.b: {expected}");
        assert_eq!(fault(data.clone()), Some(expected.clone()));
        assert_eq!(Embedded::new(&bundle, data.clone().into()).unwrap_err().to_string(), expected);
        let mut engine = Embedded::new(&bundle, Value::new_object()).unwrap();
        assert_eq!(engine.add(data.into()).unwrap_err().to_string(), expected);
    }
    for data in [json!({"a": {"b": {"q": 2}}}), json!({"a": {"c": 1}}), json!({"kubernetes": {}}), json!([])]
    {
        assert_eq!(fault(data), None);
    }
}
