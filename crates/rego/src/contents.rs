//! Removes the contents of Secrets from objects that policies get: from a Secret, and from the Secrets among the
//! manifests of a work.

use regorus::Value;

use policy_sync_api::annotations::LAST_APPLIED;
use policy_sync_api::work;

/// The fields with the contents of a Secret.
pub const CONTENTS: [&str; 2] = ["data", "stringData"];
/// The kind of Secrets.
const SECRET: &str = "Secret";
/// The paths of the manifests in a ManifestWork and in a ManifestWorkReplicaSet.
const MANIFESTS: [&[&str]; 2] =
    [&["spec", "workload", "manifests"], &["spec", "manifestWorkTemplate", "workload", "manifests"]];

/// Removes the contents of a Secret, and the metadata that repeats the contents or their keys.
pub fn strip_secret(secret: &mut Value) {
    CONTENTS.into_iter().for_each(|field| remove(secret, field));
    if let Some(metadata) = at(secret, "metadata") {
        remove(metadata, "managedFields");
    }
    remove_last_applied(secret);
}

/// Removes the contents of the Secrets among the manifests of `object`, if it is a work. Manifests may be works
/// themselves.
pub fn strip_work(object: &mut Value) {
    let is_work = object["apiVersion"].as_string().is_ok_and(|version| {
        version.strip_prefix(work::GROUP).is_some_and(|version| version.starts_with('/'))
    });
    if !is_work {
        return;
    }
    for path in MANIFESTS {
        let manifests = path.iter().try_fold(&mut *object, |value, field| at(value, field));
        let Some(Ok(manifests)) = manifests.map(Value::as_array_mut) else { continue };
        manifests.iter_mut().for_each(strip_manifest);
    }
    remove_last_applied(object);
}

/// Removes the annotation of `kubectl apply`, which repeats the whole object.
fn remove_last_applied(object: &mut Value) {
    if let Some(annotations) = at(object, "metadata").and_then(|metadata| at(metadata, "annotations")) {
        remove(annotations, LAST_APPLIED);
    }
}

fn strip_manifest(manifest: &mut Value) {
    if manifest["kind"] == SECRET.into() {
        strip_secret(manifest);
    }
    strip_work(manifest);
    // The items of a SecretList may lack the field `kind`.
    let are_secrets = manifest["kind"] == "SecretList".into();
    if let Some(Ok(items)) = at(manifest, "items").map(Value::as_array_mut) {
        for item in items.iter_mut() {
            if are_secrets {
                strip_secret(item);
            }
            strip_manifest(item);
        }
    }
}

/// The value of `field` in the object `value`. `None` if `value` is not an object or lacks the field.
pub fn at<'v>(value: &'v mut Value, field: &str) -> Option<&'v mut Value> {
    // Only objects have fields. `as_object_mut` copies an object that other values share.
    value.as_object().ok()?;
    value.as_object_mut().ok()?.get_mut(&field.into())
}

fn remove(value: &mut Value, field: &str) {
    if value.as_object().is_ok_and(|fields| fields.contains_key(&field.into()))
        && let Ok(fields) = value.as_object_mut()
    {
        fields.remove(&field.into());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stripped(object: serde_json::Value) -> String {
        let mut object = Value::from(object);
        strip_work(&mut object);
        object.to_json_str().unwrap()
    }

    #[test]
    fn only_contents_of_secrets_are_removed_from_works() {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": {"a": "hunter2"},
            "stringData": {"b": "hunter2"}, "metadata": {"name": "s"}});
        let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "kept"}});
        let manifests = json!([secret, other, null, 1]);
        let work = |spec: serde_json::Value| {
            let annotations = json!({LAST_APPLIED: "hunter2", "a": "b"});
            json!({"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
                "metadata": {"annotations": annotations}, "spec": spec})
        };
        let inner = work(json!({"workload": {"manifests": manifests}}));
        for spec in [
            json!({"workload": {"manifests": manifests}}),
            json!({"manifestWorkTemplate": {"workload": {"manifests": manifests}}}),
            json!({"workload": {"manifests": [inner]}}),
            json!({"workload": {"manifests": [{"apiVersion": "v1", "kind": "List", "items": manifests}]}}),
        ] {
            let found = stripped(work(spec));
            assert!(!found.contains("hunter2"), "{found}");
            for kept in ["\"kept\"", "\"Opaque\"", "\"name\": \"s\"", "\"a\": \"b\""] {
                assert!(found.contains(kept), "{kept}: {found}");
            }
        }
        for odd in [json!({"spec": 1}), json!({"spec": {"workload": {"manifests": {"a": 1}}}}), json!({})] {
            let found: serde_json::Value = serde_json::from_str(&stripped(work(odd.clone()))).unwrap();
            assert_eq!(found["spec"], odd);
        }
        let elsewhere =
            json!({"apiVersion": "example.com/v1", "spec": {"workload": {"manifests": [secret]}}});
        assert!(stripped(elsewhere).contains("hunter2"), "objects of other groups stay as they are");
    }
}
