use serde_json::{Value as Json, json};

use super::*;
use policy_sync_api::object::WithText;

fn document(text: &str) -> Value {
    let object: WithText = serde_json::from_str(text).unwrap();
    Document::prune(&object.into(), &ControllerName::new("c")).value
}

#[test]
fn documents_lack_only_managed_fields_and_last_applied() {
    let object = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {
            "name": "web", "labels": {"managedFields": "x"}, "managedFields": [{"manager": "kubectl"}],
            "annotations": {"a": "b", LAST_APPLIED: "{}"}, "ownerReferences": [{"uid": "1"}],
        },
        "rules": [{"verbs": ["get"], "managedFields": 1}], "numbers": [1, -1, 1.5, 18446744073709551615u64, true, null],
    });
    let found: Json = serde_json::to_value(document(&object.to_string())).unwrap();
    let mut expected = object;
    let metadata = expected["metadata"].as_object_mut().unwrap();
    metadata.remove("managedFields");
    metadata["annotations"].as_object_mut().unwrap().remove(LAST_APPLIED);
    assert_eq!(found, expected);
}

#[test]
fn parts_below_the_maximum_depth_are_removed() {
    for depth in [50, 99, 100, 127, 128, 5_000] {
        let deep = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        let text =
            format!(r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"a"}},"spec":{deep},"x":1}}"#);
        let found = document(&text);
        assert_eq!(
            (&found["x"], &found["metadata"]["name"]),
            (&Value::from(1), &Value::from("a")),
            "{depth}"
        );
        let text = found["spec"].to_json_str().unwrap();
        assert_eq!(text.contains('1'), depth + 1 < MAX_DEPTH, "{depth}");
    }
}
