use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::*;
use crate::admission::test_snapshot::test_snapshot;
use policy_sync_rego::bundle::Bundle;
use policy_sync_rego::engine::Evaluator;

const EXEC: &str = r#"package authorization
deny[{"id": "exec", "resource": {"kind": "pods", "namespace": "kube-system", "name": name}, "resolution": {
    "message": sprintf("%s may not exec here", [review.spec.user])}}] {
    matches[["pods", "kube-system", name, review]]
    review.spec.resourceAttributes.subresource == "exec"
}
"#;

fn snapshot(texts: &[&str], enforcement: EnforcementAction) -> Snapshot {
    test_snapshot("policies/p/", texts, json!({}), enforcement)
}

fn access(version: &str, spec: &Json) -> AccessReview {
    let version = format!("authorization.k8s.io/{version}");
    let review = json!({"apiVersion": version, "kind": "SubjectAccessReview", "spec": spec});
    AccessReview::read(review.to_string().into_bytes()).unwrap()
}

fn of(resource: &Json) -> AccessReview {
    access("v1", &json!({"user": "jane", "groups": ["dev"], "resourceAttributes": resource}))
}

fn exec(namespace: &str) -> AccessReview {
    of(
        &json!({"namespace": namespace, "name": "dns", "verb": "get", "resource": "pods", "subresource": "exec"}),
    )
}

fn opinion(texts: &[&str], access: &AccessReview) -> AccessDecision {
    review(&snapshot(texts, EnforcementAction::Deny), access).unwrap().opinion
}

fn denied(reason: &str) -> AccessDecision {
    AccessDecision::Denied(reason.to_owned())
}

#[test]
fn denials_carry_the_policys_message_and_other_requests_get_no_opinion() {
    assert_eq!(opinion(&[EXEC], &exec("kube-system")), denied("exec: jane may not exec here"));
    assert_eq!(opinion(&[EXEC], &exec("shop")), AccessDecision::None);
    let get = json!({"namespace": "kube-system", "name": "dns", "verb": "get", "resource": "pods"});
    assert_eq!(opinion(&[EXEC], &of(&get)), AccessDecision::None);
    assert_eq!(opinion(&[], &exec("kube-system")), AccessDecision::None);
    let admission = "package admission\ndeny[\"nothing is written\"] { true }\n";
    assert_eq!(opinion(&[admission], &exec("kube-system")), AccessDecision::None);
}

#[test]
fn policies_find_the_request_in_input_reviewed_and_in_the_review() {
    let tells = "package authorization\ndeny[msg] { [kind, namespace, name, review] := input.reviewed\n\
        msg := sprintf(\"%s|%s|%s|%s|%v\", [kind, namespace, name, review.spec.user, review.spec.groups]) }\n";
    let list = json!({"verb": "list", "group": "apps", "resource": "deployments"});
    assert_eq!(opinion(&[tells], &of(&list)), denied(r#"deployments|||jane|["dev"]"#));
    let path =
        json!({"user": "jane", "groups": [], "nonResourceAttributes": {"path": "/logs/", "verb": "get"}});
    assert_eq!(opinion(&[tells], &access("v1", &path)), denied("None||/logs/|jane|[]"));
    // v1beta1 has the field `group` instead of `groups`.
    let before = json!({"user": "jane", "group": ["dev", "ops"], "resourceAttributes": list});
    assert_eq!(
        opinion(&[tells], &access("v1beta1", &before)),
        denied(r#"deployments|||jane|["dev", "ops"]"#)
    );
    let reads = "package authorization\ndeny[input.spec.user] { input.spec.groups[_] == \"g9999\" }\n";
    let many: Vec<String> = (0..10_000).map(|number| format!("g{number}")).collect();
    let many = json!({"user": "jane", "groups": many, "resourceAttributes": list});
    assert_eq!(opinion(&[reads], &access("v1", &many)), denied("jane"));
}

#[test]
fn denials_are_sorted_and_those_beyond_twenty_counted() {
    let many =
        "package authorization\ndeny[{\"id\": id}] { id := sprintf(\"d%02d\", [numbers.range(1, 25)[_]]) }\n";
    let named: Vec<String> = (1..=20).map(|number| format!("d{number:02}: denied")).collect();
    assert_eq!(opinion(&[many], &exec("shop")), denied(&format!("{}; and 5 more", named.join("; "))));
}

#[test]
fn invalid_policy_results_deny_the_request() {
    let list = "package authorization\ndeny := \"everything\"\n";
    let fault = "data.authorization.deny: expected a set, found a string";
    assert_eq!(opinion(&[list], &exec("shop")), denied(fault));
    let number = "package authorization\ndeny[7] { true }\n";
    assert_eq!(
        opinion(&[number], &exec("shop")),
        denied("deny: expected a string or an object, found a number")
    );
    let empty = access("v1", &json!({"user": "jane"}));
    let fault = "the review has neither resourceAttributes nor nonResourceAttributes";
    assert_eq!(opinion(&[EXEC], &empty), denied(fault));
    let is_fault =
        |texts: &[&str]| review(&snapshot(texts, EnforcementAction::Deny), &exec("shop")).unwrap().is_fault;
    assert!(is_fault(&[list]) && is_fault(&[number]) && !is_fault(&[EXEC]));
    let also = "package authorization\ndeny[\"no\"] { true }\n";
    assert!(!is_fault(&[number, also]), "a policy denies it as well");
    assert_eq!(opinion(&[], &empty), AccessDecision::None, "nobody is asked");
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let deep = format!(
        r#"{{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {{"resourceAttributes": {{}}, "extra": {{"deep": {deep}}}}}}}"#
    );
    let deep = AccessReview::read(deep.into_bytes()).unwrap();
    let AccessDecision::Denied(reason) = opinion(&[EXEC], &deep) else { panic!("there is no opinion") };
    assert!(reason.starts_with("the review cannot be read: recursion limit"), "{reason}");
}

#[test]
fn dryrun_policies_deny_nothing() {
    let snapshot = snapshot(&[EXEC], EnforcementAction::Dryrun);
    let judged = review(&snapshot, &exec("kube-system")).unwrap();
    assert_eq!(judged, AccessReviewResult { dryrun_denials: 1, ..AccessReviewResult::NONE });
}

#[test]
fn review_fails_while_policies_cannot_be_evaluated() {
    let starting = snapshot(&[], EnforcementAction::Deny).starting("pods are not listed".to_owned());
    let error = review(&starting, &exec("shop")).unwrap_err();
    assert_eq!(error.to_string(), "Rego policies are not loaded yet: pods are not listed");
    let engine = Evaluator::Embedded.engine(&Bundle::read(&[]).unwrap()).unwrap();
    let denials = BTreeMap::from([(AUTHORIZATION, "a policy is refused".to_owned())]);
    let error = review(&Snapshot::new(engine, denials), &exec("shop")).unwrap_err();
    assert_eq!(error.to_string(), "a policy is refused");
}

#[test]
fn requests_that_repair_policies_are_recognized() {
    let namespaces = BTreeSet::from(["policies".to_owned()]);
    let is = |access: &AccessReview| is_for_repair(access, &namespaces);
    let map = |group: &str, resource: &str, namespace: &str| {
        of(
            &json!({"verb": "update", "group": group, "resource": resource, "namespace": namespace, "name": "p"}),
        )
    };
    let path = |path: &str| access("v1", &json!({"user": "jane", "nonResourceAttributes": {"path": path}}));
    for mends in [
        map("", "configmaps", "policies"),
        map("policysync.kuadrant.io", "regopolicies", ""),
        path("/api"),
        path("/apis/apps/v1"),
        path("/openapi/v3"),
        path("/version"),
    ] {
        assert!(is(&mends), "{mends:?}");
    }
    for other in [
        map("", "configmaps", "shop"),
        map("", "configmaps", ""),
        map("example.com", "configmaps", "policies"),
        map("", "secrets", "policies"),
        map("", "regopolicies", ""),
        path("/"),
        path("/metrics"),
        path("/apiserver"),
        access("v1", &json!({"user": "jane"})),
    ] {
        assert!(!is(&other), "{other:?}");
    }
}

#[test]
fn failed_evaluations_quote_no_values() {
    let fails =
        "package authorization\ndeny[x] { x := data.kubernetes.secrets.shop.db.data.password & {\"a\"} }";
    let data = json!({"kubernetes": {"secrets": {"shop": {"db": {"data": {"password": "aHVudGVyMg=="}}}}}});
    let snapshot = test_snapshot("policies/p/", &[fails], data, EnforcementAction::Deny);
    let error = review(&snapshot, &exec("shop")).unwrap_err().to_string();
    assert!(error.ends_with(": operand of the wrong type for &"), "{error}");
}
