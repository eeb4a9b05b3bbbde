//! Recognizes updates that only release a terminating object, for example by removing a finalizer. [`cel`] excludes
//! them in the match conditions of the webhooks, so that deletions finish while no replica is available. `is_release`
//! applies the same rule to requests that reach the webhooks.
//!
//! Only the stored object shows whether it is terminating. In a server-side apply, the API server passes on a
//! `deletionTimestamp` that the client has sent.

use serde_json::{Map, Value};

/// The field that contains the fields in [`METADATA`].
const METADATA_FIELD: &str = "metadata";
/// The top-level fields that may differ, besides those of `metadata`.
const OBJECT: [&str; 1] = ["status"];
/// The fields of `metadata` that may differ. The API server rejects new finalizers on a terminating object.
const METADATA: [&str; 3] = ["finalizers", "managedFields", "resourceVersion"];

/// Whether `operation` is an update of the terminating object `old` that changes only the fields in [`OBJECT`] and
/// [`METADATA`].
#[must_use]
pub(super) fn is_release(operation: &str, object: &Value, old: &Value) -> bool {
    let (Some(object), Some(old)) = (object.as_object(), old.as_object()) else { return false };
    let metadata =
        |object: &Map<String, Value>| object.get(METADATA_FIELD).and_then(Value::as_object).cloned();
    let (Some(metadata), Some(old_metadata)) = (metadata(object), metadata(old)) else { return false };
    operation == "UPDATE"
        && old_metadata.get("deletionTimestamp").is_some_and(|at| !at.is_null())
        && are_equal_except(&[&OBJECT[..], &[METADATA_FIELD]].concat(), object, old)
        && are_equal_except(&METADATA, &metadata, &old_metadata)
}

fn are_equal_except(fields: &[&str], one: &Map<String, Value>, other: &Map<String, Value>) -> bool {
    let others = |map: &Map<String, Value>| map.keys().filter(|key| !fields.contains(&key.as_str())).count();
    others(one) == others(other)
        && one.iter().all(|(key, value)| fields.contains(&key.as_str()) || other.get(key) == Some(value))
}

/// A CEL expression that is false for updates of terminating objects that change only status, finalizers or managed
/// fields. It is true for all other requests.
#[must_use]
pub fn cel() -> String {
    let differ = |path: &str, fields: &[&str]| {
        let fields = Value::from(fields.to_vec());
        let (object, old) = (format!("object{path}"), format!("oldObject{path}"));
        format!(
            "{object}.exists(k, !(k in {fields}) && !(k in {old} && {object}[k] == {old}[k])) || \
             {old}.exists(k, !(k in {fields}) && !(k in {object}))"
        )
    };
    format!(
        "request.operation != \"UPDATE\" || !has(oldObject.metadata.deletionTimestamp) || {} || {}",
        differ("", &[&OBJECT[..], &[METADATA_FIELD]].concat()),
        differ(".metadata", &METADATA)
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stored() -> Value {
        json!({"kind": "Service", "metadata": {"name": "web", "deletionTimestamp": "2026-01-01T00:00:00Z",
                "finalizers": ["example.com/a"], "resourceVersion": "1", "labels": {"a": "b"}},
            "spec": {"type": "ClusterIP"}, "status": {"a": 1}})
    }

    fn merged(patch: &Value) -> Value {
        let mut object = stored();
        json_patch::merge(&mut object, patch);
        object
    }

    #[test]
    fn only_finalizers_status_and_server_fields_may_differ() {
        for patch in [
            json!({}),
            json!({"metadata": {"finalizers": null}}),
            json!({"metadata": {"finalizers": [], "resourceVersion": "2", "managedFields": [1]}, "status": null}),
        ] {
            assert!(is_release("UPDATE", &merged(&patch), &stored()), "{patch}");
        }
        for patch in [
            json!({"spec": {"type": "NodePort"}}),
            json!({"spec": null}),
            json!({"data": {"a": "b"}}),
            json!({"metadata": {"labels": {"a": "c"}}}),
            json!({"metadata": {"labels": null}}),
            json!({"metadata": {"annotations": {"a": "b"}, "finalizers": null}}),
            json!({"metadata": {"ownerReferences": [{"name": "a"}]}}),
            json!({"metadata": {"deletionTimestamp": null}}),
        ] {
            assert!(!is_release("UPDATE", &merged(&patch), &stored()), "{patch}");
        }
    }

    #[test]
    fn only_the_stored_object_proves_termination() {
        let mut live = stored();
        live["metadata"].as_object_mut().unwrap().remove("deletionTimestamp");
        assert!(!is_release("UPDATE", &stored(), &live));
        assert!(!is_release("CREATE", &stored(), &Value::Null));
        assert!(!is_release("CREATE", &stored(), &stored()));
        for other in [Value::Null, json!([]), json!({}), json!({"metadata": 1})] {
            assert!(!is_release("UPDATE", &other, &stored()) && !is_release("UPDATE", &stored(), &other));
        }
    }
}
