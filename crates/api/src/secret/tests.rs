use serde_json::json;

use super::*;

fn redacted(mut value: Value) -> Value {
    redact(&mut value);
    value
}

fn secret(key: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": TLS_TYPE,
        "metadata": {"name": "a", "labels": {"team": "shop"}, "annotations": {"example.com/original": key}},
        "data": {"tls.crt": "Y2VydA==", "tls.key": key}, "stringData": {"tls.key": key},
    })
}

#[test]
fn values_of_secrets_are_hidden() {
    let found =
        redacted(json!({"spec": {"workload": {"manifests": [{"kind": "List", "items": [secret("TOP")]}]}}}));
    assert!(!found.to_string().contains("TOP") && !found.to_string().contains("Y2VydA"), "{found}");
    let found = &found["spec"]["workload"]["manifests"][0]["items"][0];
    assert_eq!(found["metadata"]["name"], "a");
    assert_eq!(found["metadata"]["labels"]["team"], "shop");
    assert_eq!(found["type"], TLS_TYPE);
    let text = found["data"]["tls.crt"].as_str().unwrap();
    assert!(text.starts_with("<hidden, blake3 ") && text.len() == 25, "{text}");
}

#[test]
fn hidden_values_are_equal_if_the_values_are() {
    assert_eq!(redacted(secret("a")), redacted(secret("a")));
    assert_ne!(redacted(secret("a"))["data"], redacted(secret("b"))["data"]);
}

#[test]
fn values_of_unexpected_types_are_hidden() {
    for data in [json!("TOP"), json!(["TOP"]), json!({"tls.key": {"a": "TOP"}})] {
        let found = redacted(json!({"kind": "Secret", "data": data}));
        assert!(!found.to_string().contains("TOP"), "{found}");
    }
    assert_eq!(redacted(json!({"kind": "Secret", "data": null})), json!({"kind": "Secret", "data": null}));
}

#[test]
fn other_objects_are_unchanged() {
    let work = json!({"kind": "ConfigMap", "metadata": {"annotations": {"a": "b"}}, "data": {"a": "b"},
        "spec": {"certificateRefs": [{"kind": "Secret", "name": "a"}]}});
    assert_eq!(redacted(work.clone()), work);
}
