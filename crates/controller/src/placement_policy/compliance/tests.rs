use std::collections::BTreeMap;

use super::*;
use crate::placement_policy::evaluation::ContentHash;
use policy_sync_rego::bundle::Bundle;
use policy_sync_rego::engine::Evaluator;
use policy_sync_rego::module::{ModuleId, Text};
use policy_sync_rego::snapshot::ReviewInputs;

fn snapshot(rules: &str) -> Snapshot {
    let text = format!("package io.k8s.federation.admission\nimport rego.v1\n{rules}");
    let text = Text { id: ModuleId::new("policies/a/a.rego"), text: text.as_str().into() };
    let engine = Evaluator::Embedded.engine(&Bundle::read(&[text]).unwrap()).unwrap();
    Snapshot::new(engine, BTreeMap::new())
}

fn without_policies() -> Snapshot {
    let engine = Evaluator::Embedded.engine(&Bundle::default()).unwrap();
    Snapshot::new(engine, BTreeMap::new())
}

/// The object after the merge patch that makes it comply.
fn patched(snapshot: &Snapshot, object: &Value) -> Value {
    match compliance(snapshot, object).unwrap() {
        Compliance::Compliant => object.clone(),
        Compliance::Differs(change) => {
            let mut object = object.clone();
            let patch = change.merge_patch("u", "7");
            json_patch::merge(&mut object, &patch);
            assert_eq!(compliance(snapshot, &object).unwrap(), Compliance::Compliant, "one patch is enough");
            object
        }
        Compliance::Violates(text) => panic!("{text}"),
    }
}

#[test]
fn one_patch_applies_policies_and_another_restores_the_original() {
    let app = json!({"metadata": {"name": "app", "uid": "u", "resourceVersion": "7",
        "annotations": {"mine": "1", "ours": "wish", "gone": "x"}, "labels": {"l": "1"}}});
    let policy = snapshot(
        "annotations := {\"ours\": \"policy\", \"gone\": null, \"new\": {\"a\": 1}}\nlabels.l := \"2\"",
    );
    let placed = patched(&policy, &app);
    let annotations = &placed["metadata"]["annotations"];
    assert_eq!((&annotations["ours"], &annotations["new"]), (&json!("policy"), &json!(r#"{"a":1}"#)));
    assert_eq!((&annotations["mine"], &annotations["gone"]), (&json!("1"), &Value::Null));
    assert_eq!(placed["metadata"]["labels"], json!({"l": "2"}));
    assert_eq!(patched(&without_policies(), &placed), app);
    let other = patched(&snapshot("annotations := {\"ours\": input.metadata.annotations.gone}"), &placed);
    assert_eq!(other["metadata"]["annotations"]["ours"], "x", "it is asked about the wish");
    assert_eq!(other["metadata"]["labels"], json!({"l": "1"}));
    assert_eq!(compliance(&without_policies(), &app).unwrap(), Compliance::Compliant);
}

#[test]
fn patch_contains_the_difference_with_uid_and_version() {
    let app = json!({"metadata": {"name": "app", "annotations": {"a": "1", "b": "2"}}});
    let Compliance::Differs(change) =
        compliance(&snapshot("annotations := {\"a\": \"1\", \"b\": null}"), &app).unwrap()
    else {
        panic!("it does not differ")
    };
    let mut patch = change.merge_patch("u", "7");
    assert!(patch["metadata"]["annotations"].as_object_mut().unwrap().remove(PLACED_BY_POLICY).is_some());
    assert_eq!(patch, json!({"metadata": {"uid": "u", "resourceVersion": "7", "annotations": {"b": null}}}));
    assert_eq!(change.to_string(), "annotation b: removed");
}

#[test]
fn description_of_a_change_is_capped_in_length() {
    let long = "x".repeat(1_000);
    let policy = snapshot(&format!("annotations.a := \"{long}\"\nlabels.l := \"v\""));
    let Compliance::Differs(change) = compliance(&policy, &json!({"metadata": {"name": "app"}})).unwrap()
    else {
        panic!("it does not differ")
    };
    let lines: Vec<String> = change.lines().collect();
    assert!(lines[0].starts_with("annotation a: \"xxx") && lines[0].len() < 250, "{}", lines[0]);
    assert_eq!(lines[1], "label l: \"v\"");
    // Keys that placement policies no longer set get their original values back.
    let placed =
        patched(&snapshot("annotations.a := \"p\""), &json!({"metadata": {"annotations": {"a": "w"}}}));
    let mut wished = placed.clone();
    wished["metadata"]["annotations"]["a"] = "w".into();
    let Compliance::Differs(change) = compliance(&without_policies(), &wished).unwrap() else {
        panic!("it does not differ")
    };
    assert_eq!(change.to_string(), "the stored original values");
}

#[test]
fn rejected_objects_and_invalid_results_are_violations() {
    let app = json!({"metadata": {"name": "app"}});
    let breaks = |rules: &str| match compliance(&snapshot(rules), &app).unwrap() {
        Compliance::Violates(text) => text,
        other => panic!("{other:?}"),
    };
    assert_eq!(breaks("errors contains \"b\"\nerrors contains \"a\""), "a; b");
    let query = "data.io.k8s.federation.admission";
    assert_eq!(
        breaks("annotations := 1"),
        format!("{query}: annotations: expected an object, found a number")
    );
    let starting = without_policies().starting("pods are not listed".to_owned());
    assert!(matches!(compliance(&starting, &app), Err(RegoQueryError::Starting(_))));
}

#[test]
fn hidden_documents_are_missing_from_data() {
    let engine = |rules: &str, data: Value| {
        let text = format!("package io.k8s.federation.admission\nimport rego.v1\n{rules}");
        let text = Text { id: ModuleId::new("policies/a/a.rego"), text: text.as_str().into() };
        let engine = Evaluator::Embedded.engine(&Bundle::read(&[text]).unwrap()).unwrap();
        let kind = |group: &str, resource: &str| GroupResource::new(group, resource);
        let review_inputs = ReviewInputs {
            names: [
                (kind("example.com", "managedclusters"), ["clusters".to_owned()].into()),
                (kind("", "pods"), ["pods".to_owned()].into()),
            ]
            .into(),
            ..ReviewInputs::default()
        };
        Snapshot::new(engine.with_data(data.into()).unwrap(), BTreeMap::new())
            .with_review_inputs(review_inputs)
    };
    let rules = "annotations.clusters := concat(\",\", [name | some name, cluster in data.kubernetes.clusters; not cluster.closed])\nannotations.pods := concat(\",\", [name | some name, _ in data.kubernetes.pods.shop])";
    let data = json!({"kubernetes": {"clusters": {"a": {}, "b\"] as 1": {}, "c": {"closed": true}},
        "pods": {"shop": {"p": {}, "q": {}}, "other": {"p": {}}}}});
    let (snapshot, app) = (engine(rules, data), json!({"metadata": {"name": "app"}}));
    let cluster =
        |name: &str| (GroupResource::new("example.com", "managedclusters"), ObjectKey::new("", name));
    let pod = |name: &str| (GroupResource::new("", "pods"), ObjectKey::new("shop", name));
    let listed =
        |hidden: &[(GroupResource, ObjectKey)]| match compliance_without(&snapshot, &app, hidden).unwrap() {
            Compliance::Differs(change) => {
                ["clusters", "pods"].map(|key| change.annotations[key].clone().unwrap())
            }
            other => panic!("{other:?}"),
        };
    assert_eq!(listed(&[]), ["a,b\"] as 1", "p,q"]);
    assert_eq!(listed(&[cluster("b\"] as 1")]), ["a", "p,q"]);
    assert_eq!(listed(&[cluster("a"), cluster("c"), pod("q"), pod("none")]), ["b\"] as 1", "p"]);
}

#[test]
fn content_hash_ignores_status_and_resource_version() {
    let policy = snapshot("annotations.a := \"p\"");
    let app = json!({"metadata": {"name": "app", "uid": "u", "resourceVersion": "7", "annotations": {"b": "1"}}, "status": {"n": 1}});
    let hash = ContentHash::of_stored;
    let mut placed = patched(&policy, &app);
    assert_ne!(hash(&placed), hash(&app));
    let set = |field: &str| strings(&placed, field);
    assert_eq!(ContentHash::of_patched(&app, &set("labels"), &set("annotations")), hash(&placed));
    let before = hash(&placed);
    placed["status"]["n"] = 2.into();
    placed["metadata"]["resourceVersion"] = "8".into();
    placed["metadata"]["labels"] = json!({});
    assert_eq!(hash(&placed), before);
    // The owner removes the annotation set by the placement policy: the original object is unchanged, but the content
    // differs.
    placed["metadata"]["annotations"].as_object_mut().unwrap().remove("a");
    assert_ne!(hash(&placed), before);
}
