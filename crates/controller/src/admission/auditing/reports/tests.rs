use serde_json::json;

use super::*;
use crate::admission::audit::{Resolution, Resource, TypeMeta};

fn violation(namespace: &str, name: &str, enforcement: &str) -> Violation {
    Violation {
        resource: Resource { kind: "pods".into(), namespace: namespace.into(), name: name.into() },
        id: "pull".into(),
        resolution: Resolution { message: "images are pulled".into(), patches: Vec::new() },
        policy: Some("policies/pull/pull.rego".into()),
        enforcement: enforcement.into(),
        type_meta: TypeMeta { api_version: "v1".into(), kind: "Pod".into() },
    }
}

fn reports(violations: impl IntoIterator<Item = Violation>) -> BTreeMap<Arc<str>, Report> {
    let mut found = ByNamespace::default();
    violations.into_iter().for_each(|violation| found.add(violation));
    found.reports("policy-sync", &ControllerName::new("example.com/ours"))
}

#[test]
fn each_namespace_and_the_cluster_get_a_report() {
    let error = Violation::error(Resource::default(), "Rego policy p is unavailable".to_owned());
    let found = reports([violation("shop", "till", "deny"), violation("shop", "web", "warn"), error]);
    assert_eq!(found.keys().map(|namespace| &**namespace).collect::<Vec<_>>(), ["", "shop"]);
    let Report { hash: content_hash, object } = &found["shop"];
    let hash = ControllerName::new("example.com/ours").hash().to_owned();
    let result = |name: &str, result: &str, scored: bool| {
        json!({"policy": "policies/pull/pull.rego", "rule": "pull", "result": result, "scored": scored,
            "message": "images are pulled",
            "resources": [{"apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": name}]})
    };
    let expected = json!({
        "apiVersion": "openreports.io/v1alpha1", "kind": "Report",
        "metadata": {"name": "policy-sync", "namespace": "shop",
            "labels": {"app.kubernetes.io/managed-by": "policy-sync", "kuadrant.io/controller": hash},
            "annotations": {"kuadrant.io/reported": content_hash}},
        "source": "policy-sync",
        "configuration": {"limits": {"maxResults": 100, "statusFilter": ["fail", "warn", "error"]}},
        "summary": {"pass": 0, "fail": 1, "warn": 1, "error": 0, "skip": 0},
        "results": [result("till", "fail", true), result("web", "warn", false)],
    });
    assert_eq!(*object, expected);
    let of_cluster = &found[""].object;
    assert_eq!(
        (&of_cluster["kind"], &of_cluster["metadata"]["namespace"]),
        (&json!("ClusterReport"), &json!(null))
    );
    let result = json!({"policy": "policy-sync", "rule": "", "result": "error", "scored": true,
        "message": "Rego policy p is unavailable"});
    assert_eq!(of_cluster["results"], json!([result]));
}

#[test]
fn report_counts_all_violations_and_lists_the_first_hundred() {
    let name = |number: usize| format!("{number:04}");
    let all =
        |order: fn(usize) -> usize| reports((0..500).map(|n| violation("shop", &name(order(n)), "deny")));
    let (one, other) = (all(|n| n), all(|n| 499 - n));
    assert_eq!(one, other);
    let report = &one["shop"].object;
    assert_eq!(report["summary"]["fail"], 500);
    let names: Vec<_> =
        report["results"].as_array().unwrap().iter().map(|of| &of["resources"][0]["name"]).collect();
    assert_eq!((names.len(), names[99]), (100, &json!("0099")));
}

#[test]
fn dryrun_violations_are_not_reported() {
    assert_eq!(reports([violation("shop", "till", "dryrun")]), BTreeMap::new());
}

#[test]
fn hash_changes_with_the_content() {
    let hash = |violation| reports([violation])["shop"].hash.clone();
    let one = hash(violation("shop", "till", "deny"));
    assert_eq!(one, hash(violation("shop", "till", "deny")));
    assert_ne!(one, hash(violation("shop", "till", "warn")));
    assert_ne!(one, hash(violation("shop", "web", "deny")));
}
