use serde_json::{Value, json};

use super::*;
use crate::testing::objects::{CONTROLLER, Object, policy};

fn row(object: &Object) -> Policy {
    let object: HubObject = serde_json::from_str(&object.json.to_string()).unwrap();
    Policy::new(&object, &ControllerName::new(CONTROLLER).hub_field_manager())
}

/// A policy with annotations of these keys, which `manager` owns.
fn owned(manager: &str, keys: &[&str]) -> Policy {
    let fields: serde_json::Map<String, Value> =
        keys.iter().map(|key| (format!("f:{key}"), json!({}))).collect();
    let owner = json!({"manager": manager, "operation": "Apply", "fieldsV1": {"f:metadata": {"f:annotations": fields}}});
    row(&policy("limits")
        .annotation("kuadrant.io/policies-synced", "[]")
        .metadata("managedFields", json!([owner])))
}

#[test]
fn other_controllers_that_own_the_annotations_are_recognized() {
    assert_eq!(owned("policy-sync-other", &["kuadrant.io/policies-synced"]).fields.other_owners.len(), 1);
    assert!(!owned("policy-sync-other", &["kuadrant.io/policies-synced"]).fields.is_ours_to_remove());
}

#[test]
fn unrelated_owners_are_ignored() {
    let ours = ControllerName::new(CONTROLLER).hub_field_manager();
    for (manager, key) in [
        ("policy-sync-other", "note"),
        ("kubectl", "kuadrant.io/policies-synced"),
        (&*ours, "kuadrant.io/policies-synced"),
    ] {
        assert!(owned(manager, &[key]).fields.is_ours_to_remove(), "{manager} {key}");
    }
}

#[test]
fn invalid_managed_fields_own_nothing() {
    for fields in [json!(null), json!({}), json!([]), json!({"f:metadata": 5})] {
        let owner = json!({"manager": "policy-sync-other", "fieldsV1": fields});
        let policy = row(&policy("limits").metadata("managedFields", json!([owner])));
        assert!(policy.fields.other_owners.is_empty());
    }
}

#[test]
fn size_of_other_annotations_is_counted() {
    let policy = policy("limits")
        .annotation("kubectl.kubernetes.io/last-applied-configuration", "{}")
        .annotation("ü", "é")
        .annotation("kuadrant.io/policies-synced", "[]");
    assert_eq!(row(&policy).fields.other_bytes, 48 + 2 + 4);
    assert_eq!(
        row(&policy).annotations.keys().collect::<Vec<_>>(),
        ["ü"],
        "and only those that travel are kept"
    );
}
