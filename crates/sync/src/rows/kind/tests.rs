use serde_json::json;

use super::*;

fn checked(scope: &str, version: &str, spec: serde_json::Value) -> Result<KindInfo, Resolution> {
    let definition: CustomResourceDefinitionSpec = serde_json::from_value(json!({
        "group": "example.com", "scope": scope, "names": {"kind": "P", "plural": "ps"},
        "versions": [
            {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object",
                "properties": {"spec": {"type": "object", "properties": spec}}}}},
            {"name": "v1alpha1", "served": false, "storage": false},
        ],
    }))
    .unwrap();
    check(&definition, &GroupVersionResource::new("example.com", version, "ps"), Role::Policy)
}

#[test]
fn namespaced_kind_with_a_target_reference_is_a_policy() {
    for spec in [json!({"targetRef": {"type": "object"}}), json!({"targetRefs": {"type": "array"}})] {
        let info = checked("Namespaced", "v1", spec.clone()).unwrap();
        assert_eq!((&*info.kind, info.can_patch), ("P", true));
        let schema = serde_json::from_value(json!({"type": "object", "properties": spec})).unwrap();
        assert_eq!(info.schema.as_deref(), Some(&Schema::new(&schema)));
    }
}

#[test]
fn kind_has_ancestors_if_its_status_lists_them() {
    let with = |status: serde_json::Value| {
        let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
        "type": "object", "properties": {
            "spec": {"type": "object", "properties": {"targetRefs": {"type": "array"}}},
            "status": {"type": "object", "properties": status},
        }}}});
        let definition = json!({"group": "example.com", "scope": "Namespaced", "versions": [version],
            "names": {"kind": "P", "plural": "ps"}});
        let definition: CustomResourceDefinitionSpec = serde_json::from_value(definition).unwrap();
        check(&definition, &GroupVersionResource::new("example.com", "v1", "ps"), Role::Policy)
            .unwrap()
            .has_ancestors
    };
    assert!(with(json!({"ancestors": {"type": "array", "items": {"type": "object"}}})));
    assert!(!with(json!({"ancestors": {"type": "object"}})));
    assert!(!with(json!({"conditions": {"type": "array", "items": {"type": "object"}}})));
}

#[test]
fn unsyncable_kinds_give_a_reason() {
    let reference = json!({"targetRef": {"type": "object"}});
    let reason = |result: Result<KindInfo, Resolution>| result.unwrap_err().reason().as_str();
    assert_eq!(reason(checked("Cluster", "v1", reference.clone())), "NotAPolicy");
    assert_eq!(reason(checked("Namespaced", "v1", json!({"other": {"type": "object"}}))), "NotAPolicy");
    assert_eq!(reason(checked("Namespaced", "v2", reference.clone())), "UnknownResource");
    assert_eq!(reason(checked("Namespaced", "v1alpha1", reference)), "UnknownResource");
}
