use serde_json::json;

use super::*;
use crate::admission::denial::ResourceRef;
use policy_sync_api::annotations::LAST_APPLIED;

fn secret() -> Value {
    json!({"kind": "Secret", "type": "Opaque", "data": {"password": "aHVudGVyMg=="}, "stringData": {"a": "hunter2"},
        "metadata": {"name": "a", "managedFields": [{"fieldsV1": {"f:data": {"f:password": {}}}}],
            "annotations": {LAST_APPLIED: "{\"data\": \"aHVudGVyMg==\"}", "kept": "yes"}}})
    .into()
}

#[test]
fn contents_are_removed() {
    let expected = json!({"kind": "Secret", "type": "Opaque", "metadata": {"name": "a", "annotations": {"kept": "yes"}}});
    assert_eq!(without_contents(secret()), expected.clone().into());
    let mut request = Value::from(json!({"operation": "UPDATE", "oldObject": null}));
    request.as_object_mut().unwrap().insert("object".into(), secret());
    let expected = json!({"operation": "UPDATE", "oldObject": null, "object": expected});
    assert_eq!(request_without_contents(request), expected.into());
    for odd in [json!(null), json!([]), json!({"metadata": null}), json!({"metadata": {"annotations": 1}})] {
        assert_eq!(without_contents(odd.clone().into()), odd.into());
    }
}

#[test]
fn patches_of_contents_become_faults() {
    let found = |kind: &str, patch: serde_json::Value| {
        let denial = json!([{"id": "a", "resolution": {"patches": [patch]}}]);
        let place = ResourceRef { kind, namespace: "shop", name: "a" };
        let denials = Denial::read(&denial.into(), place).unwrap();
        let [denial] = &without_patches_of_contents(&GroupResource::new("", kind), denials)[..] else {
            panic!()
        };
        (denial.is_fault, denial.patches.len(), denial.message.clone())
    };
    let refused = |field: &str| {
        (true, 0, format!("resolution.patches: a Rego policy cannot change the {field} of a Secret"))
    };
    for (patch, field) in [
        (json!({"op": "add", "path": "/data/a", "value": "b"}), "data"),
        (json!({"op": "remove", "path": "data"}), "data"),
        (json!({"op": "replace", "path": "/stringData/a", "value": "b"}), "stringData"),
        (json!({"op": "copy", "from": "/data/a", "path": "/metadata/annotations/a"}), "data"),
        (json!({"op": "move", "from": "/stringData", "path": "/a"}), "stringData"),
        (json!({"op": "test", "path": "/data/a", "value": "b"}), "data"),
    ] {
        assert_eq!(found("secrets", patch.clone()), refused(field), "{patch}");
        assert_eq!(found("configmaps", patch).1, 1);
    }
    let label = json!({"op": "add", "path": "/metadata/labels", "value": {"data": "x"}});
    assert_eq!(found("secrets", label), (false, 1, String::new()));
}

#[test]
fn patches_that_read_the_manifests_of_a_work_become_faults() {
    let is_fault = |group: &str, patch: serde_json::Value| {
        let denial = json!([{"id": "a", "resolution": {"patches": [patch]}}]);
        let place = ResourceRef { kind: "manifestworks", namespace: "eu-1", name: "a" };
        let denials = Denial::read(&denial.into(), place).unwrap();
        let kind = GroupResource::new(group, "manifestworks");
        let [denial] = &without_patches_of_contents(&kind, denials)[..] else { panic!() };
        denial.is_fault
    };
    let works = "work.open-cluster-management.io";
    let password = "/spec/workload/manifests/0/data/password";
    for from in [password, "/spec/workload", "/spec", "/metadata/annotations/a"] {
        for word in ["copy", "move"] {
            let patch = json!({"op": word, "from": from, "path": "/metadata/labels/x"});
            assert!(is_fault(works, patch.clone()), "{patch}");
            assert!(!is_fault("example.com", patch));
        }
    }
    assert!(is_fault(works, json!({"op": "test", "path": password, "value": "a"})));
    let secret = json!({"apiVersion": "v1", "kind": "Secret"});
    for value in
        [secret.clone(), json!([secret]), json!({"workload": {"manifests": [{"kind": "SecretList"}]}})]
    {
        for word in ["add", "replace"] {
            let patch = json!({"op": word, "path": "/spec/workload/manifests", "value": value});
            assert!(is_fault(works, patch.clone()), "{patch}");
            assert!(!is_fault("example.com", patch));
        }
    }
    for patch in [
        json!({"op": "add", "path": "/spec/workload/manifests/0/metadata/labels", "value": {"kind": "a"}}),
        json!({"op": "copy", "from": "/metadata/labels/a", "path": "/metadata/labels/x"}),
        json!({"op": "add", "path": "/spec/workload/manifests/0", "value": {}}),
        json!({"op": "remove", "path": "/spec/workload/manifests/0"}),
    ] {
        assert!(!is_fault(works, patch.clone()), "{patch}");
    }
}
