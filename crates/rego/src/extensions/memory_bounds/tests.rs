use regorus::unstable::BUILTINS;
use serde_json::json;

use super::documents::COMPONENTS;
use super::*;
use crate::extensions::{FUNCTIONS, bounded};

#[test]
fn each_builtin_has_a_rule_and_is_bounded() {
    let names: Vec<&str> = RULES.iter().map(|(name, ..)| *name).collect();
    assert!(names.is_sorted(), "rules are found by binary search");
    let bounded: Vec<(&str, u8)> = bounded::all().map(|(name, arity, _)| (name, arity)).collect();
    for (name, arity) in &bounded {
        let (_, takes, _) = rule(name).unwrap_or_else(|| panic!("{name} has no rule"));
        assert_eq!(takes.len(), usize::from(*arity), "{name}");
    }
    for name in BUILTINS.keys().copied().chain(FUNCTIONS.iter().map(|(name, ..)| *name)) {
        let is_exempt = crate::builtins::is_forbidden(name);
        assert_eq!(
            bounded.iter().filter(|(bounded, _)| *bounded == name).count(),
            usize::from(!is_exempt),
            "{name}"
        );
    }
    for name in names {
        assert!(bounded.iter().any(|(bounded, _)| *bounded == name), "{name} is no builtin");
    }
}

/// `[[x, x], [x, x]]` and so on: 2^40 times `x`.
fn shared() -> Value {
    (0..40).fold(Value::from("x"), |value, _| vec![value.clone(), value].into())
}

#[test]
fn shared_parts_count_each_time_they_are_written() {
    let shared = shared();
    for (name, values) in [
        ("sprintf", vec!["%v".into(), vec![shared.clone()].into()]),
        ("json.marshal", vec![shared.clone()]),
        ("json.marshal_with_options", vec![shared.clone(), json!({"indent": " "}).into()]),
        ("walk", vec![shared.clone()]),
        // The error for a value of the wrong type would quote the value.
        ("startswith", vec![shared.clone(), "x".into()]),
        ("abs", vec![shared.clone()]),
        ("object.get", vec![shared.clone(), "a".into(), 1.into()]),
        ("sum", vec![vec![shared.clone()].into()]),
        ("a.later.builtin", vec![shared.clone()]),
    ] {
        assert_eq!(of(name)(&values), None, "{name}");
    }
    // These builtins copy only the outermost collection.
    for (name, values) in [
        ("count", vec![shared.clone()]),
        ("array.concat", vec![shared.clone(), shared.clone()]),
        ("sort", vec![shared.clone()]),
        ("object.get", vec![json!({}).into(), "a".into(), shared.clone()]),
    ] {
        assert!(of(name)(&values).unwrap() < 1_000, "{name}");
    }
}

#[test]
fn paths_have_a_limit_and_so_has_nesting() {
    let long = vec!["a"; COMPONENTS + 1].join("/");
    assert_eq!(of("json.filter")(&[json!({}).into(), json!([long]).into()]), None);
    assert_eq!(of("json.remove")(&[json!({}).into(), json!([vec!["a"; COMPONENTS + 1]]).into()]), None);
    let edits = json!([{"op": "add", "path": format!("/{long}"), "value": 1}]);
    assert_eq!(of("json.patch")(&[json!({}).into(), edits.into()]), None);
    let deep = (0..1_000).fold(Value::new_array(), |value, _| vec![value].into());
    assert_eq!(of("json.marshal")(&[deep]), None);
}

#[test]
fn documents_of_graphql_need_memory_for_each_token() {
    let need = |value: Value| of("graphql.parse_query")(&[value]).unwrap();
    let base = need("".into());
    for (text, tokens) in [("1a ", 2), ("[ 1 ", 2), ("a1b ", 1), ("...", 1), ("{,}\n", 2), ("-1e5a", 2)] {
        let own = need(text.repeat(100).into()) - base;
        assert!(own >= 100 * tokens * 1_024, "{text}: {own}");
        assert!(own <= 100 * text.len() * 1_100, "{text}: {own}");
    }
    // A document above the limits is not parsed.
    assert!(need("a ".repeat(40_000).into()) <= base);
    let most = need("a ".repeat(30_000).into());
    assert!(most <= 12 << 20, "{most}");
    let tree = json!({"Operations": vec![json!({}); 100]});
    assert!(need(tree.into()) >= 100 * 1_024);
}
