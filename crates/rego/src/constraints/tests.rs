use serde_json::json;

use super::*;
use crate::bundle::Bundle;
use crate::check::check;
use crate::embedded::Embedded;
use crate::engine::EngineKind;
use crate::prefixed_rules::TEST_PREFIX;

const LIBRARY: &str = "package lib.names

import data.lib.other.text

known(name, names) {
	text(name)
	names[_] == name
}
";

const OTHER: &str = "package lib.other

text(name) {
	is_string(name)
}
";

const OWN_MODULE: &str = "package owners

import data.lib.names as n

violation[{\"msg\": msg, \"details\": {}}] {
	owner := object.get(input.review.object.metadata.labels, \"owner\", \"\")
	not n.known(owner, input.parameters.owners)
	data.lib.other.text(owner)
	msg := sprintf(\"%v may not own it\", [owner])
}
";

fn owners() -> Template {
    let object = json!({
        "apiVersion": "templates.gatekeeper.sh/v1", "kind": "ConstraintTemplate", "metadata": {"name": "owners"},
        "spec": {
            "crd": {"spec": {"names": {"kind": "Owners"}}},
            "targets": [{"target": "admission.k8s.gatekeeper.sh", "rego": OWN_MODULE, "libs": [LIBRARY, OTHER]}],
        },
    });
    Template::read(&object).unwrap().unwrap()
}

fn limited(matches: Value) -> Constraint {
    let object = json!({
        "apiVersion": "constraints.gatekeeper.sh/v1beta1", "kind": "Owners", "metadata": {"name": "some-owners"},
        "spec": {"match": matches, "parameters": {"owners": ["shop", "bank"]}},
    });
    Constraint::read(&object).unwrap().unwrap()
}

fn pods(more: Value) -> Value {
    let mut matches = json!({"kinds": [{"apiGroups": ["", "apps"], "kinds": ["Pod"]}, {"apiGroups": ["networking.k8s.io"], "kinds": ["Ingress"]}]});
    for (field, value) in more.as_object().unwrap() {
        matches[field] = value.clone();
    }
    matches
}

/// The faults of `modules`, and the tests that are not true.
fn failing(modules: &[Converted]) -> Vec<String> {
    let texts: Vec<Text> = modules
        .iter()
        .map(|module| Text { id: ModuleId::new(&module.name), text: module.text.as_str().into() })
        .collect();
    let parsed: Vec<Module> = texts.iter().map(|text| Module::parse(text).unwrap()).collect();
    let faults = check(&parsed, EngineKind::Embedded);
    if !faults.is_empty() {
        return faults.iter().map(ToString::to_string).collect();
    }
    let bundle = Bundle::read(&texts).unwrap();
    let engine = Embedded::new(&bundle, regorus::Value::new_object()).unwrap();
    let tests = bundle.rules_with_prefix(TEST_PREFIX);
    assert!(!tests.is_empty());
    let is_false = |query: &String| {
        engine.evaluate(query, &regorus::Value::Undefined).unwrap().into_value() != Some(true.into())
    };
    tests.into_iter().map(|test| test.query).filter(is_false).collect()
}

fn object(kind: (&str, &str), namespace: &str, owner: &str) -> Value {
    json!({"apiVersion": kind.0, "kind": kind.1, "metadata": {"name": "web", "namespace": namespace, "labels": {"owner": owner}}})
}

fn case(name: &str, object: Value, violations: Violations) -> Case {
    Case { name: name.to_owned(), object, assertions: vec![Assertion { violations, message: None }] }
}

const POD: (&str, &str) = ("v1", "Pod");

#[test]
fn converted_constraints_pass_the_cases_of_their_suite() {
    let template = owners();
    let none = Violations::Exactly(0);
    let ingress = ("networking.k8s.io/v1", "Ingress");
    for (matches, cases) in [
        (
            pods(json!({})),
            vec![
                case("known", object(POD, "a", "shop"), none),
                case("unknown", object(POD, "a", "x"), Violations::Some),
                case("one", object(ingress, "a", "x"), Violations::Exactly(1)),
                case("another kind", object(("v1", "Service"), "a", "x"), none),
            ],
        ),
        (
            pods(
                json!({"namespaces": ["a", "b-*"], "excludedNamespaces": ["*-c"], "name": "w*", "scope": "Namespaced"}),
            ),
            vec![
                case("a", object(POD, "a", "x"), Violations::Some),
                case("b", object(POD, "b-1", "x"), Violations::Some),
                case("excluded", object(POD, "b-c", "x"), none),
                case("other", object(POD, "other", "x"), none),
            ],
        ),
        (
            pods(json!({"excludedNamespaces": ["c"], "labelSelector": {
                "matchLabels": {"owner": "x"},
                "matchExpressions": [
                    {"key": "owner", "operator": "In", "values": ["x", "y"]}, {"key": "tier", "operator": "NotIn", "values": ["z"]},
                    {"key": "owner", "operator": "Exists"}, {"key": "tier", "operator": "DoesNotExist"},
                ],
            }})),
            vec![
                case("selected", object(POD, "a", "x"), Violations::Some),
                case("not selected", object(POD, "a", "y"), none),
                case("excluded", object(POD, "c", "x"), none),
            ],
        ),
        (
            json!({"excludedNamespaces": ["*-c", "web"], "namespaceSelector": {}, "name": ""}),
            vec![
                case("any kind", object(("v1", "Service"), "a", "x"), Violations::Some),
                case("outside of namespaces", object(("v1", "Node"), "", "x"), Violations::Some),
                case("excluded", object(("v1", "Service"), "web", "x"), none),
                case("excluded Namespace", object(("v1", "Namespace"), "", "x"), none),
            ],
        ),
        (
            json!({"kinds": [{"apiGroups": ["apps"], "kinds": ["*"]}, {"apiGroups": ["batch"]}]}),
            vec![
                case("apps", object(("apps/v1", "Deployment"), "a", "x"), Violations::Some),
                case("batch", object(("batch/v1", "Job"), "a", "x"), Violations::Some),
                case("core", object(POD, "a", "x"), none),
            ],
        ),
        (
            json!({"kinds": [{"apiGroups": [""], "kinds": ["Namespace"]}], "namespaces": ["web"]}),
            vec![case("namespace", object(("v1", "Namespace"), "", "x"), Violations::Some)],
        ),
    ] {
        let limited = limited(matches);
        let mut modules = super::template(&template).unwrap();
        modules.push(constraint(&template, &limited).unwrap());
        modules.push(tests(&template, &limited, &cases).unwrap());
        assert_eq!(failing(&modules), Vec::<String>::new(), "{modules:#?}");
    }
}

#[test]
fn assertions_count_messages() {
    let template = owners();
    let limited = limited(pods(json!({})));
    let assertion = |message: &str, violations| Case {
        name: message.to_owned(),
        object: object(POD, "a", "x"),
        assertions: vec![Assertion { violations, message: Some(message.to_owned()) }],
    };
    let review = json!({"kind": "AdmissionReview", "request": {"operation": "UPDATE", "object": object(POD, "a", "x")}});
    let cases = [
        assertion("^x may", Violations::Exactly(1)),
        assertion("other", Violations::Exactly(0)),
        assertion("other", Violations::Some),
        case("request", review, Violations::Exactly(2)),
    ];
    let mut modules = super::template(&template).unwrap();
    modules.extend([constraint(&template, &limited).unwrap(), tests(&template, &limited, &cases).unwrap()]);
    let wrong = [
        "data[\"admission_test\"].test_owners_some_owners_other_2",
        "data[\"admission_test\"].test_owners_some_owners_request",
    ];
    assert_eq!(failing(&modules), wrong);
}

#[test]
fn unsupported_constraints_are_reported() {
    let inventory = Template {
        module: "package a\nviolation[{\"msg\": \"x\"}] { data.inventory.cluster }".to_owned(),
        ..owners()
    };
    let faults: Vec<String> =
        super::template(&inventory).unwrap_err().iter().map(ToString::to_string).collect();
    assert_eq!(
        faults,
        [
            "owners:2:27: data.inventory is not converted: read data.kubernetes.PLURAL[namespace][name] instead"
        ]
    );
    let own = Template { module: "package a\np { data.a.q }".to_owned(), ..owners() };
    let faults: Vec<String> = super::template(&own).unwrap_err().iter().map(ToString::to_string).collect();
    let expected =
        "owners:2:5: only references to data.lib are converted: name rules of the same package without data";
    assert_eq!(faults, [expected]);
    let with = Template { module: "package a\np { data.lib.x with data.lib.x as 1 }".to_owned(), ..owners() };
    let expected = "package gatekeeper.owners.template\np { data.gatekeeper.owners.lib.x with data.gatekeeper.owners.lib.x as 1 }";
    assert_eq!(super::template(&with).unwrap()[0].text, expected);
    let faults = super::template(&Template { module: "package a\np := ".to_owned(), ..owners() });
    assert!(faults.is_err());
    for (matches, expected) in [
        (
            json!({"namespaceSelector": {"matchLabels": {}}}),
            "spec.match.namespaceSelector is not converted: write the condition into the module",
        ),
        (
            json!({"source": "Generated"}),
            "spec.match.source is not converted: write the condition into the module",
        ),
        (json!({"namespaces": "a"}), "spec.match.namespaces: expected a list of strings"),
        (json!({"name": 1}), "spec.match.name: expected a string"),
        (
            json!({"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}),
            "spec.match.labelSelector.matchExpressions[].operator: expected In, NotIn, Exists or DoesNotExist",
        ),
    ] {
        assert_eq!(constraint(&owners(), &limited(pods(matches))).unwrap_err(), expected);
    }
    let template = |spec: Value| {
        let object =
            json!({"apiVersion": "templates.gatekeeper.sh/v1", "kind": "ConstraintTemplate", "spec": spec});
        Template::read(&object).unwrap().unwrap_err()
    };
    assert_eq!(template(json!({})), "spec.targets: expected one target, found 0");
    let cel = json!({"targets": [{"code": [{"engine": "K8sNativeValidation", "source": {}}]}]});
    assert_eq!(template(cel), "spec.targets[0]: expected Rego: templates in CEL are not converted");
    let scoped = json!({"apiVersion": "constraints.gatekeeper.sh/v1", "kind": "Owners", "spec": {"enforcementAction": "scoped"}});
    let expected = "spec.enforcementAction: expected deny, warn or dryrun, found scoped";
    assert_eq!(Constraint::read(&scoped).unwrap().unwrap_err(), expected);
    assert!(Template::read(&scoped).is_none() && Constraint::read(&json!({"kind": "Owners"})).is_none());
}

#[test]
fn suites_name_their_files() {
    let suite_object = json!({
        "apiVersion": "test.gatekeeper.sh/v1alpha1", "kind": "Suite",
        "tests": [
            {"template": "t.yaml", "constraint": "c.yaml", "cases": [
                {"name": "a", "object": "a.yaml", "assertions": [{"violations": "no"}, {"violations": 2, "message": "m"}, {"violations": true}, {}]},
                {"name": "skipped", "skip": true}, {"name": "referential", "inventory": ["i.yaml"]},
            ]},
            {"skip": true},
        ],
    });
    let assertions = [
        (Violations::Exactly(0), None),
        (Violations::Exactly(2), Some("m")),
        (Violations::Some, None),
        (Violations::Some, None),
    ];
    let assertions =
        assertions.map(|(violations, message)| Assertion { violations, message: message.map(str::to_owned) });
    let expected = SuiteTest {
        template: "t.yaml".to_owned(),
        constraint: "c.yaml".to_owned(),
        cases: vec![("a".to_owned(), "a.yaml".to_owned(), assertions.to_vec())],
    };
    assert_eq!(suite(&suite_object), Some(vec![expected]));
    assert_eq!(suite(&json!({"kind": "Suite"})), None);
}
