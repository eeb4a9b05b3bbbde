use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use policy_sync_api::names::GroupResource;
use policy_sync_rego::bundle::Bundle;
use policy_sync_rego::engine::Evaluator;
use policy_sync_rego::module::{ModuleId, Text};
use policy_sync_rego::omitted_documents::OmittedDocuments;
use policy_sync_rego::queries::QueriedPackages;

const PCI: &str = include_str!("../../../../../docs/examples/rego/placement/pci.rego");
const PREFERENCES: &str = "federation.kubernetes.io/replica-set-preferences";

fn snapshot(rego: &str, clusters: Value) -> Snapshot {
    let text = Text { id: ModuleId::new("policies/pci/pci.rego"), text: rego.into() };
    let data = json!({"kubernetes": {"clusters": clusters}});
    let engine =
        Evaluator::Embedded.engine(&Bundle::read(&[text]).unwrap()).unwrap().with_data(data.into()).unwrap();
    Snapshot::new(engine, BTreeMap::new())
}

fn fleet() -> Value {
    let cluster = |zone: &str| json!({"metadata": {"labels": {"zone": zone, "pci": "certified"}}});
    json!({"c1": cluster("eu"), "c2": cluster("us")})
}

fn app(annotations: Value) -> Value {
    json!({"kind": "Deployment", "metadata": {"name": "shop", "namespace": "shop", "annotations": annotations}})
}

/// The stored object after `object` replaces `old`, or the code and message of the denial.
fn written(snapshot: &Snapshot, object: &Value, old: &Value) -> Result<Value, (u16, String)> {
    let request =
        AdmissionRequest { object: object.clone(), old_object: old.clone(), ..AdmissionRequest::default() };
    match review(snapshot, &request).unwrap_or_else(|error| AdmissionDecision::failed(error.to_string())) {
        AdmissionDecision::Denied { code, message } => Err((code, message)),
        AdmissionDecision::Allowed { patch, .. } => {
            let mut object = object.clone();
            json_patch::patch(&mut object, &patch).unwrap();
            Ok(object)
        }
    }
}

#[test]
fn app_gets_annotations_from_policy_and_forbidden_choice_is_denied() {
    let snapshot = snapshot(PCI, fleet());
    let stored = written(&snapshot, &app(json!({"requires-pci": "true"})), &Value::Null).unwrap();
    let preferences = stored["metadata"]["annotations"][PREFERENCES].as_str().unwrap();
    assert_eq!(preferences, r#"{"clusters":{"c1":{"weight":1}},"rebalance":true}"#);
    let original = app(json!({"requires-pci": "true", PREFERENCES: r#"{"clusters":{"c2":{"weight":1}}}"#}));
    let denied = (403, "shop handles card data: cluster c2 is not certified for it".to_owned());
    assert_eq!(written(&snapshot, &original, &Value::Null), Err(denied.clone()));
    // The object is rejected even if it replaces an object that the placement policy has placed.
    assert_eq!(written(&snapshot, &original, &stored), Err(denied));
    let other = app(json!({"requires-pci": "false"}));
    assert_eq!(written(&snapshot, &other, &Value::Null).unwrap(), other);
}

#[test]
fn values_set_by_policy_do_not_pin_an_app_when_the_fleet_changes() {
    let stored =
        written(&snapshot(PCI, fleet()), &app(json!({"requires-pci": "true"})), &Value::Null).unwrap();
    let mut fleet = fleet();
    fleet["c1"]["metadata"]["labels"]["pci"] = "expired".into();
    fleet["c3"] = json!({"metadata": {"labels": {"zone": "eu", "pci": "certified"}}});
    let moved = written(&snapshot(PCI, fleet), &stored, &stored).unwrap();
    let preferences = moved["metadata"]["annotations"][PREFERENCES].as_str().unwrap();
    assert_eq!(preferences, r#"{"clusters":{"c3":{"weight":1}},"rebalance":true}"#);
    // Without a placement policy, the original object is restored.
    let back = written(&snapshot("package io.k8s.federation.admission", json!({})), &moved, &moved).unwrap();
    assert_eq!(back, app(json!({"requires-pci": "true"})));
}

#[test]
fn input_has_no_status_and_no_values_set_by_policies() {
    let rego = "package io.k8s.federation.admission\nannotations[\"example.com/seen\"] := input";
    let mut object = app(json!({"a": "b", "kubectl.kubernetes.io/last-applied-configuration": "{}"}));
    object["status"] = json!({"replicas": 1});
    object["metadata"]["managedFields"] = json!([{"manager": "kubectl"}]);
    let first = written(&snapshot(rego, json!({})), &object, &Value::Null).unwrap();
    let second = written(&snapshot(rego, json!({})), &first, &first).unwrap();
    assert_eq!(first, second);
    let seen: Value =
        serde_json::from_str(first["metadata"]["annotations"]["example.com/seen"].as_str().unwrap()).unwrap();
    assert_eq!(seen, app(json!({"a": "b"})));
    assert_eq!(first["status"], object["status"], "it is only not shown");
}

#[test]
fn failed_evaluations_and_invalid_results_are_denied() {
    let object = app(json!({}));
    let denied = |rego: &str| written(&snapshot(rego, json!({})), &object, &Value::Null).unwrap_err();
    let query = "data.io.k8s.federation.admission";
    for (rules, expected) in [
        ("annotations := [1]", format!("{query}: annotations: expected an object, found a list")),
        (
            "annotations := {\"kuadrant.io/parent\": \"x\"}",
            format!("{query}: annotations.kuadrant.io/parent: it is reserved for the controller"),
        ),
        (
            "annotations := {\"kuadrant.io/remediate\": \"manual\"}",
            format!("{query}: annotations.kuadrant.io/remediate: only the owner of the object may set it"),
        ),
        (
            "annotations := {\"big\": concat(\"\", [x | some i in numbers.range(1, 40000); x := \"12345678\"])}",
            format!(
                "{query}: annotations: the object's annotations would have 320,099 bytes, at most 262,144 are allowed"
            ),
        ),
        ("errors := [1]", format!("{query}: errors: expected a list of strings, found a list")),
    ] {
        let rego = format!("package io.k8s.federation.admission\nimport rego.v1\n{rules}");
        assert_eq!(denied(&rego), (500, expected), "{rules}");
    }
    let conflict = "package io.k8s.federation.admission\nimport rego.v1\nannotations[\"a\"] := 1\nannotations[\"a\"] := 2";
    let (code, message) = denied(conflict);
    assert!(code == 500 && message.starts_with("policies/pci/pci.rego:"), "{message}");
    let slow = "package io.k8s.federation.admission\nimport rego.v1\nerrors contains \"x\" if {\n\
                some a in numbers.range(1, 90000)\nsome b in numbers.range(1, 90000)\na + b == 0\n}";
    let (code, message) = denied(slow);
    assert!(code == 500 && message.ends_with("took more than 1 s"), "{message}");
}

#[test]
fn values_of_earlier_policies_are_not_taken_for_the_original() {
    // The controller and `placement apply` send the object with updated values. A client may also resend an older
    // version.
    let rego = "package io.k8s.federation.admission\nimport rego.v1\nannotations.a := \
                sprintf(\"%s in %s\", [input.metadata.annotations.a, data.kubernetes.clusters.c1.metadata.labels.zone])";
    let mut moved = fleet();
    moved["c1"]["metadata"]["labels"]["zone"] = "us".into();
    let (before, after) = (snapshot(rego, fleet()), snapshot(rego, moved));
    let stored = written(&before, &app(json!({"a": "mine"})), &Value::Null).unwrap();
    assert_eq!(stored["metadata"]["annotations"]["a"], "mine in eu");
    let brought = written(&after, &stored, &stored).unwrap();
    assert_eq!(brought["metadata"]["annotations"]["a"], "mine in us");
    assert_eq!(written(&after, &brought, &stored).unwrap(), brought, "it is let in as it is");
    assert_eq!(written(&after, &stored, &brought).unwrap(), brought, "what was stored before is no wish");
    // A record that changes the original object is forged.
    let mut forged = stored.clone();
    let text = forged["metadata"]["annotations"]["kuadrant.io/placed-by-policy"].as_str().unwrap();
    forged["metadata"]["annotations"]["kuadrant.io/placed-by-policy"] = text.replace("mine", "theirs").into();
    assert_ne!(forged, stored);
    assert_eq!(written(&before, &forged, &stored).unwrap(), stored);
}

#[test]
fn no_evaluation_without_policies_or_when_finalizers_are_removed() {
    let denies = "package io.k8s.federation.admission\nimport rego.v1\nerrors contains \"no\"";
    let object = app(json!({}));
    assert!(written(&snapshot(denies, json!({})), &object, &Value::Null).is_err());
    assert_eq!(written(&snapshot("package admission", json!({})), &object, &Value::Null).unwrap(), object);
    let mut terminating = object.clone();
    terminating["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let update = |object: &Value, old: &Value| {
        let [object, old_object] = [object, old].map(Clone::clone);
        let request = AdmissionRequest {
            operation: "UPDATE".to_owned(),
            object,
            old_object,
            ..AdmissionRequest::default()
        };
        review(&snapshot(denies, json!({})), &request).unwrap().is_allowed()
    };
    assert!(update(&terminating, &terminating));
    assert!(!update(&terminating, &object), "its sender alone says that it is terminating");
    assert!(written(&snapshot(denies, json!({})), &terminating, &Value::Null).is_err());
}

#[test]
fn writes_are_denied_until_policies_are_loaded_and_valid() {
    let (object, rego) = (app(json!({})), "package admission");
    let starting = snapshot(rego, json!({})).starting("pods are not listed".to_owned());
    let expected = (500, "Rego policies are not loaded yet: pods are not listed".to_owned());
    assert_eq!(written(&starting, &object, &Value::Null), Err(expected));
    let text = Text { id: ModuleId::new("a"), text: rego.into() };
    let engine = Evaluator::Embedded.engine(&Bundle::read(&[text]).unwrap()).unwrap();
    let denials = BTreeMap::from([(PACKAGE, "Rego policy b is unavailable: it is wrong".to_owned())]);
    let unasked = Snapshot::new(engine, denials);
    let expected = (500, "Rego policy b is unavailable: it is wrong".to_owned());
    assert_eq!(written(&unasked, &object, &Value::Null), Err(expected));
}

#[test]
fn objects_missing_from_other_namespaces_cause_a_warning() {
    let pods = [GroupResource::new("", "pods")];
    let review = |namespace: &str| {
        let incomplete = OmittedDocuments {
            namespaces: [(namespace.into(), pods.clone().into())].into(),
            read: [(PACKAGE, pods.clone().into())].into(),
            denying: [(PACKAGE, pods.clone().into())].into(),
        };
        let request = AdmissionRequest { object: app(json!({})), ..AdmissionRequest::default() };
        review(&snapshot(PCI, fleet()).with_omitted(incomplete), &request)
    };
    let expected = "reviewed without pods of namespaces that exceed their share of --replicate-bytes or --replicate-limit";
    assert_eq!(review("greedy").unwrap(), AdmissionDecision::warned(vec![expected.to_owned()]));
    assert!(matches!(review("shop"), Err(RegoQueryError::DocumentsOmitted(_))));
}

#[test]
fn placement_package_is_configurable() {
    let rego = "package kubernetes.admission\nimport rego.v1\nlabels.zone := \"eu\"\n";
    let packages = QueriedPackages::new("kubernetes.admission", "admission").unwrap();
    let asking = |rego: &str| snapshot(rego, json!({})).with_packages(packages.clone());
    let zone = |snapshot: &Snapshot| {
        let stored = written(snapshot, &app(json!({})), &Value::Null).unwrap();
        stored["metadata"]["labels"]["zone"].as_str().map(str::to_owned)
    };
    assert_eq!(zone(&asking(rego)).as_deref(), Some("eu"));
    assert_eq!(zone(&snapshot(rego, json!({}))), None, "by default nobody asks it");
    assert_eq!(zone(&asking(&rego.replace("kubernetes.admission", "io.k8s.federation.admission"))), None);
    let errors = rego.replace("labels.zone := \"eu\"", "annotations := 1");
    let (_, message) = written(&asking(&errors), &app(json!({})), &Value::Null).unwrap_err();
    assert!(message.starts_with("data.kubernetes.admission: annotations: expected an object"), "{message}");
}
