use serde_json::json;

use super::*;

const WEB: ResourceRef<'_> = ResourceRef { kind: "pods", namespace: "shop", name: "web" };

fn read(elements: serde_json::Value) -> Vec<Denial> {
    Denial::read(&elements.into(), WEB).unwrap()
}

fn texts(elements: serde_json::Value) -> Vec<String> {
    read(elements).iter().map(Denial::text).collect()
}

#[test]
fn denial_is_a_string_or_an_object_with_an_id() {
    assert_eq!(
        texts(json!(["no", {"id": "a"}, {"id": "b", "resolution": {"message": "why"}}])),
        ["no", "a: denied", "b: why"]
    );
    let denial = &read(json!([{"id": "a", "policy": "policies/p/a.rego"}]))[0];
    assert_eq!((denial.policy.as_deref(), denial.is_fault), (Some("policies/p/a.rego"), false));
}

#[test]
fn denials_of_other_objects_are_omitted() {
    let of = |kind: &str, namespace: &str, name: &str| {
        texts(json!([{"id": "a", "resource": {"kind": kind, "namespace": namespace, "name": name}}])).len()
    };
    assert_eq!(of("pods", "shop", "web"), 1);
    assert_eq!(
        (of("services", "shop", "web"), of("pods", "back", "web"), of("pods", "shop", "other")),
        (0, 0, 0)
    );
    assert_eq!(
        texts(json!([{"id": "a", "resource": {"kind": "pods"}}])).len(),
        1,
        "what it leaves out is any"
    );
}

#[test]
fn invalid_denials_deny_with_an_error_message() {
    for (element, expected) in [
        (json!(1), ": deny: expected a string or an object, found a number"),
        (json!([]), ": deny: expected a string or an object, found a list"),
        (json!({"policy": "p"}), "p: deny: expected an object with an id, found an object"),
        (json!({"id": 1}), ": deny: expected an object with an id, found an object"),
        (json!({"id": "a", "resource": "web"}), "a: resource: expected an object, found a string"),
        (json!({"id": "a", "resolution": ["b"]}), "a: resolution: expected an object, found a list"),
        (
            json!({"id": "a", "resolution": {"message": 1}}),
            "a: resolution.message: expected a string, found a number",
        ),
        (
            json!({"id": "a", "resolution": {"patches": {}}}),
            "a: resolution.patches: expected a list, found an object",
        ),
        (
            json!({"id": "a", "resolution": {"patches": [1]}}),
            "a: resolution.patches[0]: expected an object, found a number",
        ),
    ] {
        let denials = read(json!([element]));
        assert!(denials[0].is_fault && denials[0].patches.is_empty(), "{element}");
        assert_eq!(denials[0].text(), expected.trim_start_matches(": "), "{element}");
    }
    assert_eq!(Denial::read(&json!({"a": 1}).into(), WEB).unwrap_err(), "expected a set, found an object");
}

#[test]
fn messages_are_capped_and_on_one_line() {
    let message = "a\nb\u{1b}[31mred ".to_owned() + &"x".repeat(1 << 20);
    let text = texts(json!([{"id": "a", "resolution": {"message": message}}])).remove(0);
    assert!(text.starts_with("a: a b\\u{1b}[31mred x") && text.len() < 1_100, "{}", text.len());
}
