use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::*;
use crate::admission::test_snapshot::test_snapshot;
use policy_sync_api::moment::Moment;
use policy_sync_api::rego_policy::EnforcementAction;
use policy_sync_rego::fault::Fault;
use policy_sync_rego::module::ModuleId;
use policy_sync_rego::secrets::SecretContents;
use policy_sync_rego::snapshot::ReviewInputs;

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
/// A Rego module that denies nothing. For objects with the field `fails`, its evaluation runs out of memory.
const FAILS: &str = "package admission
deny[{\"id\": \"fails\"}] { input.reviewed[3].fails; numbers.range(1, 1000000) }
";

fn pods() -> Json {
    json!({"shop": {"one": {"kind": "Pod", "spec": {"pull": "Always"}}, "two": {"kind": "Pod", "spec": {"pull": "Never"}}},
        "other": {"one": {"kind": "Pod", "spec": {"pull": "Never"}, "fails": true},
            "terminating": {"kind": "Pod", "metadata": {"deletionTimestamp": "now"}, "spec": {"pull": "Never"}}}})
}

fn snapshot(texts: &[&str], enforcement: EnforcementAction) -> Snapshot {
    test_snapshot("", texts, json!({"kubernetes": {"pods": pods()}}), enforcement)
}

/// All violations of all pods, each as `namespace/name id enforcement message`.
fn all(snapshot: &Snapshot) -> Vec<String> {
    let gvr = GroupVersionResource::new("", "v1", "pods");
    let mut found = Vec::new();
    for (namespace, pods) in pods().as_object().unwrap() {
        for (name, object) in pods.as_object().unwrap() {
            let object = object.clone().into();
            found.extend(
                audit(snapshot, ExistingObject { gvr: &gvr, namespace, name, object: &object }).violations,
            );
        }
    }
    let line = |Violation { resource, id, resolution, enforcement, .. }: &Violation| {
        format!("{}/{} {id} {enforcement} {}", resource.namespace, resource.name, resolution.message)
    };
    found.iter().map(line).collect()
}

#[test]
fn existing_objects_violate_the_same_policies_as_new_ones() {
    let found = all(&snapshot(&[PULL, QUOTA], EnforcementAction::Deny));
    let expected = [
        "other/one pull deny images are always pulled",
        "other/one quota deny ",
        "other/terminating pull deny images are always pulled",
        "other/terminating quota deny ",
        "shop/one quota deny ",
        "shop/two pull deny images are always pulled",
        "shop/two quota deny ",
    ];
    assert_eq!(found, expected);
    let found = all(&snapshot(&[PULL], EnforcementAction::Warn));
    assert_eq!(found[0], "other/one pull warn images are always pulled");
    assert_eq!(all(&snapshot(&[], EnforcementAction::Deny)), [""; 0]);
}

#[test]
fn failed_evaluation_is_an_error_of_one_object_only() {
    let found = all(&snapshot(&[PULL, FAILS], EnforcementAction::Deny));
    assert_eq!(found.len(), 3);
    assert!(found[0].starts_with("other/one  error ") && found[0].contains("above its limit"), "{found:?}");
    assert_eq!(found[1], "other/terminating pull deny images are always pulled");
    assert_eq!(found[2], "shop/two pull deny images are always pulled");
}

#[test]
fn conflicting_patches_are_reported_with_the_object() {
    let never = PULL.replace("Always", "IfNotPresent").replace("\"pull\"", "\"never\"");
    let gvr = GroupVersionResource::new("", "v1", "pods");
    let conflict = |texts: &[&str], enforcement| {
        let object = json!({"kind": "Pod", "spec": {"pull": "Never"}}).into();
        let existing = ExistingObject { gvr: &gvr, namespace: "shop", name: "two", object: &object };
        audit(&snapshot(texts, enforcement), existing).conflict
    };
    let found = conflict(&[PULL, &never], EnforcementAction::Deny).unwrap();
    let text = "pods shop/two: pull: replace /spec/pull conflicts with never: replace /spec/pull";
    let mut policies = found.policies.clone();
    policies.sort();
    assert_eq!(policies, ["0.rego", "1.rego"]);
    let turned = "pods shop/two: never: replace /spec/pull conflicts with pull: replace /spec/pull";
    assert!([text, turned].contains(&found.text.as_str()), "{found:?}");
    assert_eq!(conflict(&[PULL, PULL], EnforcementAction::Deny), None, "they want the same");
    assert_eq!(conflict(&[PULL, &never], EnforcementAction::Warn), None, "they mend nothing");
    assert_eq!(conflict(&[PULL, &never, QUOTA], EnforcementAction::Deny), None, "it is refused anyway");
}

#[test]
fn report_counts_all_violations_and_lists_the_first_thousand() {
    let gvr = GroupVersionResource::new("", "v1", "pods");
    let object = json!({"kind": "Pod", "spec": {"pull": "Never"}}).into();
    let existing = ExistingObject { gvr: &gvr, namespace: "shop", name: "two", object: &object };
    let violation = audit(&snapshot(&[PULL], EnforcementAction::Deny), existing).violations.remove(0);
    let findings = |count: usize| {
        let mut findings = Findings::default();
        (0..count).for_each(|_| findings.add(violation.clone()));
        findings.sorted()
    };
    let one = json!({
        "id": "pull", "resource": {"kind": "pods", "namespace": "shop", "name": "two"}, "policy": "0.rego", "enforcement": "deny",
        "resolution": {"message": "images are always pulled", "patches": [{"op": "replace", "path": "/spec/pull", "value": "Always"}]},
    });
    let expected = json!({"message": "total violations:1", "violations": [one], "truncated": false});
    assert_eq!(json!(findings(1).report()), expected);
    assert_eq!(json!(findings(1).report_at(Moment(0)))["at"], "1970-01-01T00:00:00Z");
    let many = json!(findings(5_001).report());
    assert_eq!((&many["message"], &many["truncated"]), (&json!("total violations:5001"), &json!(true)));
    assert_eq!(many["violations"].as_array().unwrap().len(), 1_000);
}

#[test]
fn first_violations_in_sort_order_are_kept_regardless_of_arrival() {
    let violation = |name: usize| Violation {
        enforcement: if name.is_multiple_of(2) { "deny" } else { "warn" }.to_owned(),
        ..Violation::placement(
            Resource { kind: "pods".into(), namespace: "shop".into(), name: format!("{name:04}") },
            TypeMeta::default(),
            &"long ".repeat(1_000),
            false,
        )
    };
    let mut findings = Findings::default();
    (0..4_000).map(|number| (number * 1_237) % 4_000).for_each(|name| findings.add(violation(name)));
    let findings = findings.sorted();
    let names = findings.kept().iter().map(|violation| violation.resource.name.clone());
    assert_eq!(names.collect::<Vec<_>>(), (0..1_000).map(|name| format!("{name:04}")).collect::<Vec<_>>());
    assert_eq!(findings.counts(), &BTreeMap::from([("deny".to_owned(), 2_000), ("warn".to_owned(), 2_000)]));
    assert_eq!(json!(findings.report())["violations"].as_array().unwrap().len(), 1_000);
    let report = json!(findings.report_at(Moment(0)));
    assert!(report.to_string().len() < 1 << 20, "a MiB");
    assert!(report["violations"].as_array().unwrap().len() > 700, "and not much less");
    assert_eq!((&report["message"], &report["truncated"]), (&json!("total violations:4000"), &json!(true)));
}

#[test]
fn objects_exempt_from_webhooks_are_exempt_from_the_audit() {
    let exemptions = Exemptions::new(["kube-*".to_owned()]);
    let ignored: Value = json!({"metadata": {"labels": {"openpolicyagent.org/webhook": "ignore"}}}).into();
    let plain: Value = json!({"metadata": {}}).into();
    let left_out = AuditExemptions::new(&exemptions, [("quiet", &ignored), ("shop", &plain)]);
    let gvr = |kind: &str| GroupVersionResource::new("", "v1", kind);
    let object = Value::new_object();
    for (kind, namespace, name, is) in [
        ("pods", "quiet", "a", true),
        ("pods", "kube-system", "a", true),
        ("pods", "shop", "a", false),
        ("pods", "unknown", "kube-system", false),
        ("namespaces", "", "quiet", true),
        ("namespaces", "", "kube-system", true),
        ("namespaces", "", "shop", false),
        ("nodes", "", "quiet", false),
    ] {
        let gvr = gvr(kind);
        let existing = ExistingObject { gvr: &gvr, namespace, name, object: &object };
        assert_eq!(left_out.has(existing), is, "{kind} {namespace}/{name}");
    }
}

#[test]
fn large_patches_are_omitted() {
    let large = "package admission
deny[{\"id\": \"large\", \"resolution\": {\"patches\": [{\"op\": \"add\", \"path\": \"/a\", \"value\": input.reviewed[3].spec}]}}] {
    input.reviewed[0] == \"pods\"
}
";
    let gvr = GroupVersionResource::new("", "v1", "pods");
    let snapshot = snapshot(&[large], EnforcementAction::Deny);
    let patches = |length: usize| {
        let object = json!({"kind": "Pod", "spec": "x".repeat(length)}).into();
        let existing = ExistingObject { gvr: &gvr, namespace: "shop", name: "two", object: &object };
        audit(&snapshot, existing).violations.remove(0).resolution.patches.len()
    };
    assert_eq!((patches(8_000), patches(9_000)), (1, 0));
}

#[test]
fn resources_of_the_controller_itself_are_exempt() {
    let exemptions = Exemptions::default().with_own("ours");
    let left_out = AuditExemptions::new(&exemptions, []);
    let object = json!({}).into();
    let has = |group: &str, plural: &str, namespace: &str, name: &str| {
        let gvr = GroupVersionResource::new(group, "v1", plural);
        left_out.has(ExistingObject { gvr: &gvr, namespace, name, object: &object })
    };
    assert!(has("rbac.authorization.k8s.io", "clusterroles", "", "ours-rego"));
    assert!(!has("rbac.authorization.k8s.io", "clusterroles", "", "theirs"));
    assert!(!has("rbac.authorization.k8s.io", "clusterroles", "shop", "ours-rego"));
}

#[test]
fn reports_contain_no_secret_contents() {
    let gvr = GroupVersionResource::new("", "v1", "secrets");
    let object: Value = json!({"kind": "Secret", "data": {"password": "aHVudGVyMg=="}}).into();
    let existing = ExistingObject { gvr: &gvr, namespace: "shop", name: "db", object: &object };
    let of = |rule: &str, secrets: SecretContents| {
        let snapshot = snapshot(&[&format!("package admission\n{rule}")], EnforcementAction::Deny);
        let judged = audit(
            &snapshot.with_review_inputs(ReviewInputs { secrets, ..ReviewInputs::default() }),
            existing,
        );
        let mut findings = Findings::default();
        judged.violations.into_iter().for_each(|violation| findings.add(violation));
        json!(findings.report()).to_string()
    };
    let tells = of("deny[x] { x := json.marshal(input) }", SecretContents::Withheld(None));
    assert!(tells.contains("shop") && !tells.contains("aHVudGVyMg=="), "{tells}");
    let fault = Fault::new(&ModuleId::new("p"), None, "reads it");
    let unread = of("deny[x] { x := json.marshal(input) }", SecretContents::Withheld(Some(fault)));
    assert!(unread.contains("p: reads it") && unread.contains("\"error\""), "{unread}");
    for rule in [
        "deny[x] { x := input.reviewed[3].data.password & {\"a\"} }",
        "deny[x] { x := {\"id\": \"a\", \"resolution\": input.reviewed[3].data.password} }",
        "deny[{\"id\": \"a\", \"resolution\": {\"patches\": [\
            {\"op\": \"add\", \"path\": \"/data/copy\", \"value\": input.reviewed[3].data.password}]}}] { true }",
    ] {
        let report = of(rule, SecretContents::Readable);
        assert!(report.contains("\"error\"") && !report.contains("aHVudGVyMg=="), "{rule}: {report}");
    }
}
