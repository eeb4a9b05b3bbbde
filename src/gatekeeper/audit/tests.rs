use serde_json::{Value as Json, json};

use super::*;
use crate::api::rego_policy::Enforcement;
use crate::gatekeeper::in_force::in_force;

const PULL: &str = "package admission
deny[{\"id\": \"pull\", \"resource\": {\"kind\": \"pods\", \"namespace\": namespace, \"name\": name}, \"resolution\": {
    \"message\": \"images are always pulled\", \"patches\": [{\"op\": \"replace\", \"path\": \"/spec/pull\", \"value\": \"Always\"}]}}] {
    matches[[\"pods\", namespace, name, pod]]
    pod.spec.pull != \"Always\"
}
";
const QUOTA: &str = "package admission
deny[{\"id\": \"quota\", \"resource\": {\"kind\": \"pods\", \"namespace\": namespace, \"name\": name}}] {
    matches[[\"pods\", namespace, name, _]]
    count(data.kubernetes.pods[namespace]) > 1
}
";
/// Fails where there is a label, and denies nothing.
const FAILS: &str = "package admission
deny[{\"id\": \"fails\"}] { input.reviewed[3].fails; numbers.range(1, 1000000) }
";

fn pods() -> Json {
    json!({"shop": {"one": {"kind": "Pod", "spec": {"pull": "Always"}}, "two": {"kind": "Pod", "spec": {"pull": "Never"}}},
        "other": {"one": {"kind": "Pod", "spec": {"pull": "Never"}, "fails": true},
            "going": {"kind": "Pod", "metadata": {"deletionTimestamp": "now"}}}})
}

fn snapshot(texts: &[&str], enforcement: Enforcement) -> Snapshot {
    in_force("", texts, json!({"kubernetes": {"pods": pods()}}), enforcement)
}

/// What all pods break, each as `namespace/name id message enforcement`.
fn all(snapshot: &Snapshot) -> Vec<String> {
    let gvr = GroupVersionResource::new("", "v1", "pods");
    let mut found = Vec::new();
    for (namespace, pods) in pods().as_object().unwrap() {
        for (name, object) in pods.as_object().unwrap() {
            let object = object.clone().into();
            found.extend(audit(snapshot, Standing { gvr: &gvr, namespace, name, object: &object }));
        }
    }
    let line = |Violation { resource, id, resolution, enforcement, .. }: &Violation| {
        format!("{}/{} {id} {enforcement} {}", resource.namespace, resource.name, resolution.message)
    };
    found.iter().map(line).collect()
}

#[test]
fn what_stands_breaks_what_it_would_if_it_was_written_now() {
    let found = all(&snapshot(&[PULL, QUOTA], Enforcement::Deny));
    let expected = [
        "other/one pull deny images are always pulled",
        "other/one quota deny ",
        "shop/one quota deny ",
        "shop/two pull deny images are always pulled",
        "shop/two quota deny ",
    ];
    assert_eq!(found, expected);
    let found = all(&snapshot(&[PULL], Enforcement::Warn));
    assert_eq!(found[0], "other/one pull warn images are always pulled");
    assert_eq!(all(&snapshot(&[], Enforcement::Deny)), [""; 0]);
}

#[test]
fn what_fails_for_one_object_is_told_of_it_and_hides_no_other() {
    let found = all(&snapshot(&[PULL, FAILS], Enforcement::Deny));
    assert_eq!(found.len(), 2);
    assert!(found[0].starts_with("other/one  error ") && found[0].contains("100000 elements"), "{found:?}");
    assert_eq!(found[1], "shop/two pull deny images are always pulled");
}

#[test]
fn a_report_counts_all_and_tells_a_thousand() {
    let gvr = GroupVersionResource::new("", "v1", "pods");
    let object = json!({"kind": "Pod", "spec": {"pull": "Never"}}).into();
    let standing = Standing { gvr: &gvr, namespace: "shop", name: "two", object: &object };
    let violations = audit(&snapshot(&[PULL], Enforcement::Deny), standing);
    let one = json!({
        "id": "pull", "resource": {"kind": "pods", "namespace": "shop", "name": "two"}, "policy": "0.rego", "enforcement": "deny",
        "resolution": {"message": "images are always pulled", "patches": [{"op": "replace", "path": "/spec/pull", "value": "Always"}]},
    });
    let expected = json!({"message": "total violations:1", "violations": [one], "truncated": false});
    assert_eq!(report(&violations), expected);
    let many = vec![violations[0].clone(); 1_001];
    let report = report(&many);
    assert_eq!((&report["message"], &report["truncated"]), (&json!("total violations:1001"), &json!(true)));
    assert_eq!(report["violations"].as_array().unwrap().len(), 1_000);
}
