use serde_json::json;

use super::*;

fn named(spec: &Value) -> Vec<String> {
    let text = |named: ListenerSecret| format!("{}: {}", named.listener, named.secret);
    listener_secrets(spec, "shop").map(text).collect()
}

fn references(references: &Value) -> Vec<String> {
    named(&json!({"listeners": [{"name": "https", "tls": {"certificateRefs": references}}]}))
}

#[test]
fn references_name_their_secrets() {
    assert_eq!(references(&json!([{"name": "a"}])), ["https: shop/a"]);
    let whole = json!([{"group": "", "kind": "Secret", "name": "a", "namespace": "tls"}, {"name": "b"}]);
    assert_eq!(references(&whole), ["https: tls/a", "https: shop/b"]);
}

#[test]
fn references_to_other_kinds_are_skipped() {
    for reference in [
        json!({"kind": "ConfigMap", "name": "a"}),
        json!({"group": "example.com", "name": "a"}),
        json!({"group": "core", "name": "a"}),
        json!({"kind": 5, "name": "a"}),
        json!({"name": 5}),
        json!({"name": "a", "namespace": ["tls"]}),
        json!({}),
        json!("a"),
        json!(null),
    ] {
        assert_eq!(references(&json!([reference])), Vec::<String>::new(), "{reference}");
    }
}

#[test]
fn passthrough_listeners_are_skipped() {
    let spec = json!({"listeners": [
        {"name": "a", "tls": {"mode": "Passthrough", "certificateRefs": [{"name": "a"}]}},
        {"name": "b", "tls": {"mode": "Terminate", "certificateRefs": [{"name": "b"}]}},
        {"tls": {"certificateRefs": [{"name": "c"}]}},
        {"name": "http"},
    ]});
    assert_eq!(named(&spec), ["b: shop/b", "listeners[2]: shop/c"]);
}

#[test]
fn invalid_specs_name_no_secrets() {
    for spec in [
        json!(null),
        json!([]),
        json!({"listeners": {}}),
        json!({"listeners": [null, 5, {"tls": []}, {"tls": {"certificateRefs": "a"}}]}),
    ] {
        assert_eq!(named(&spec), Vec::<String>::new(), "{spec}");
    }
}
