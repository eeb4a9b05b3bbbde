use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::admission::test_snapshot::test_snapshot;
use policy_sync_rego::bundle::Bundle;
use policy_sync_rego::confined;
use policy_sync_rego::engine::Evaluator;
use policy_sync_rego::module::{ModuleId, Text};
use policy_sync_rego::omitted_documents::OmittedDocuments;
use policy_sync_rego::secrets::SecretContents;
use policy_sync_rego::snapshot::ReviewInputs;

const PULL: &str = r#"package admission
deny[{"id": "pull", "resource": {"kind": "pods", "namespace": namespace, "name": name}, "resolution": {
    "message": "images are always pulled",
    "patches": [{"op": "replace", "path": sprintf("spec/containers/%d/imagePullPolicy", [i]), "value": "Always"}]}}] {
    matches[["pods", namespace, name, pod]]
    pod.spec.containers[i].imagePullPolicy != "Always"
}
"#;
const QUOTA: &str = r#"package admission
deny[{"id": "quota", "resource": {"kind": "pods", "namespace": namespace, "name": name}, "resolution": {
    "message": sprintf("%d pods in %s, 2 are allowed", [found, namespace])}}] {
    matches[["pods", namespace, name, _]]
    found := count(data.kubernetes.pods[namespace])
    found > 2
}
"#;

fn pod(name: &str, policies: &[&str]) -> serde_json::Value {
    let container = |policy: &&str| json!({"name": "c", "image": "i", "imagePullPolicy": policy});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "shop", "managedFields": [1]},
        "spec": {"containers": policies.iter().map(container).collect::<Vec<_>>()}})
}

fn snapshot(texts: &[&str], pods: &[&str], enforcement: EnforcementAction) -> Snapshot {
    let pods: serde_json::Map<String, serde_json::Value> =
        pods.iter().map(|name| ((*name).to_owned(), pod(name, &["Always"]))).collect();
    test_snapshot("policies/p/", texts, json!({"kubernetes": {"pods": {"shop": pods}}}), enforcement)
}

fn admission_review(
    change: impl FnOnce(&mut serde_json::Value),
    object: &serde_json::Value,
) -> AdmissionReview {
    let mut request = json!({"uid": "u", "operation": "CREATE", "namespace": "shop", "name": object["metadata"]["name"],
        "resource": {"group": "", "version": "v1", "resource": "pods"}, "object": object, "userInfo": {"username": "me"}});
    change(&mut request);
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    AdmissionReview::read(&serde_json::to_vec(&review).unwrap()).unwrap()
}

fn reviewed(snapshot: &Snapshot, admission_review: &AdmissionReview, phase: AdmissionPhase) -> ReviewResult {
    review(snapshot, &admission_review.request().unwrap(), admission_review, phase).unwrap()
}

fn verdict(snapshot: &Snapshot, object: &serde_json::Value, phase: AdmissionPhase) -> AdmissionDecision {
    reviewed(snapshot, &admission_review(|_| {}, object), phase).verdict
}

fn message(verdict: AdmissionDecision) -> String {
    match verdict {
        AdmissionDecision::Denied { code, message } => format!("{code} {message}"),
        AdmissionDecision::Allowed { patch, warnings } => format!("{} {warnings:?}", json!(patch)),
    }
}

#[test]
fn mutating_review_patches_and_validating_review_denies_unpatched_objects() {
    let snapshot = snapshot(&[PULL], &[], EnforcementAction::Deny);
    let web = pod("web", &["Always", "Never", "IfNotPresent"]);
    let AdmissionDecision::Allowed { patch, .. } = verdict(&snapshot, &web, AdmissionPhase::Mutating) else {
        panic!("it is denied")
    };
    let mut mended = web.clone();
    json_patch::patch(&mut mended, &patch).unwrap();
    assert_eq!(mended, pod("web", &["Always", "Always", "Always"]).clone());
    assert_eq!(verdict(&snapshot, &mended, AdmissionPhase::Validating), AdmissionDecision::allowed());
    assert_eq!(
        message(verdict(&snapshot, &web, AdmissionPhase::Validating)),
        "403 pull: still requires replace /spec/containers/1/imagePullPolicy; \
         pull: still requires replace /spec/containers/2/imagePullPolicy"
    );
}

#[test]
fn reviewed_object_replaces_its_stored_version() {
    let of = |pods: &[&str], name: &str| {
        message(verdict(
            &snapshot(&[QUOTA], pods, EnforcementAction::Deny),
            &pod(name, &["Always"]),
            AdmissionPhase::Mutating,
        ))
    };
    assert_eq!(of(&["a", "b"], "c"), "403 quota: 3 pods in shop, 2 are allowed");
    assert_eq!(of(&["a", "b"], "b"), "[] []", "it is one of them already");
    assert_eq!(of(&["a"], "b"), "[] []");
    // Names are quoted, so they cannot inject Rego code.
    assert_eq!(of(&["a", "b"], "a\"] as 1 with input as {\"x"), "403 quota: 3 pods in shop, 2 are allowed");
}

#[test]
fn object_with_a_generated_name_replaces_no_stored_object() {
    let snapshot = snapshot(&[QUOTA], &["a", "b"], EnforcementAction::Deny);
    // The API server generates the name between the two reviews, and leaves the name in the request empty.
    let of = |metadata: serde_json::Value, phase| {
        let created = admission_review(
            |request| {
                request["name"] = "".into();
                request["object"]["metadata"] = metadata;
            },
            &pod("", &["Always"]),
        );
        message(reviewed(&snapshot, &created, phase).verdict)
    };
    let generated = json!({"generateName": "b", "name": "b4x7k", "namespace": "shop"});
    let denied = "403 quota: 3 pods in shop, 2 are allowed";
    assert_eq!(of(generated, AdmissionPhase::Validating), denied);
    let nameless = json!({"generateName": "b", "namespace": "shop"});
    assert_eq!(of(nameless, AdmissionPhase::Mutating), "[] []", "the last review decides");
}

#[test]
fn denial_without_patches_is_final_even_beside_patches() {
    let snapshot = snapshot(&[PULL, QUOTA], &["a", "b"], EnforcementAction::Deny);
    let response = message(verdict(&snapshot, &pod("c", &["Never"]), AdmissionPhase::Mutating));
    assert_eq!(response, "403 pull: images are always pulled; quota: 3 pods in shop, 2 are allowed");
}

#[test]
fn warn_and_dryrun_policies_deny_nothing() {
    let web = pod("c", &["Never"]);
    let with = |enforcement, phase| {
        reviewed(&snapshot(&[PULL, QUOTA], &["a", "b"], enforcement), &admission_review(|_| {}, &web), phase)
    };
    let warned = with(EnforcementAction::Warn, AdmissionPhase::Validating);
    assert_eq!(
        message(warned.verdict),
        r#"[] ["pull: images are always pulled", "quota: 3 pods in shop, 2 are allowed"]"#
    );
    assert_eq!(
        message(with(EnforcementAction::Warn, AdmissionPhase::Mutating).verdict),
        "[] []",
        "one warning is enough"
    );
    let dry = with(EnforcementAction::Dryrun, AdmissionPhase::Mutating);
    assert_eq!((message(dry.verdict).as_str(), dry.dryrun_denials), ("[] []", 2));
}

#[test]
fn writes_are_reviewed_without_documents_of_other_namespaces_with_one_warning() {
    let pods = [GroupResource::new("", "pods")];
    let incomplete = |namespace: &str| OmittedDocuments {
        namespaces: [(namespace.into(), pods.clone().into())].into(),
        read: [(ADMISSION, pods.clone().into())].into(),
        denying: [(ADMISSION, pods.clone().into())].into(),
    };
    let review = |namespace: &str, name: &str, phase| {
        let snapshot =
            snapshot(&[QUOTA], &["a", "b"], EnforcementAction::Deny).with_omitted(incomplete(namespace));
        let admission_review = admission_review(|_| {}, &pod(name, &["Always"]));
        let verdict =
            match super::review(&snapshot, &admission_review.request().unwrap(), &admission_review, phase) {
                Ok(reviewed) => reviewed.verdict,
                Err(error) => AdmissionDecision::failed(error.to_string()),
            };
        admission_review.response(&verdict)["response"].clone()
    };
    let answer = review("greedy", "a", AdmissionPhase::Validating);
    let expected = "reviewed without pods of namespaces that exceed their share of --replicate-bytes or --replicate-limit";
    assert_eq!(answer, json!({"uid": "u", "allowed": true, "warnings": [expected]}));
    let answer = review("greedy", "a", AdmissionPhase::Mutating);
    assert_eq!(answer, json!({"uid": "u", "allowed": true}), "one warning is enough");
    let denied = review("greedy", "c", AdmissionPhase::Validating);
    assert_eq!(denied["status"]["message"], "quota: 3 pods in shop, 2 are allowed");
    assert!(!denied.to_string().contains("greedy"), "{denied}");
    let own = review("shop", "a", AdmissionPhase::Validating);
    assert_eq!(own["allowed"], false, "{own}");
}

#[test]
fn deletes_and_releases_of_terminating_objects_are_not_reviewed() {
    let snapshot = snapshot(&[QUOTA], &["a", "b"], EnforcementAction::Deny);
    let of = |change: fn(&mut serde_json::Value)| {
        message(
            reviewed(&snapshot, &admission_review(change, &pod("c", &[])), AdmissionPhase::Mutating).verdict,
        )
    };
    assert!(of(|_| {}).starts_with("403"));
    let claims: fn(&mut serde_json::Value) =
        |request| request["object"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    assert!(of(claims).starts_with("403"), "its sender alone says that it is terminating");
    let release = |request: &mut serde_json::Value| {
        claims(request);
        request["operation"] = "UPDATE".into();
        request["oldObject"] = request["object"].clone();
        request["oldObject"]["metadata"]["finalizers"] = json!(["example.com/a"]);
    };
    let answer = reviewed(&snapshot, &admission_review(release, &pod("c", &[])), AdmissionPhase::Mutating);
    assert_eq!(message(answer.verdict), "[] []");
    assert_eq!(of(|request| request["operation"] = "DELETE".into()), "[] []");
    assert_eq!(
        of(|request| request["subResource"] = "status".into()),
        r#"[] ["Rego policies are not evaluated for subresource status"]"#
    );
    assert_eq!(of(|request| request["object"] = serde_json::Value::Null), "500 there is no object");
}

#[test]
fn policies_see_the_request_and_namespaces_are_cluster_scoped() {
    let says = "package admission\nimport rego.v1\ndeny contains sprintf(\"%s %s %v\", [input.request.operation, input.request.userInfo.username, [input.reviewed[0], input.reviewed[1], input.reviewed[2]]])\n";
    let snapshot = snapshot(&[says], &[], EnforcementAction::Deny);
    let of = |admission_review: &AdmissionReview| {
        message(reviewed(&snapshot, admission_review, AdmissionPhase::Mutating).verdict)
    };
    let named = admission_review(|_| {}, &pod("web", &[]));
    assert_eq!(of(&named), r#"403 CREATE me ["pods", "shop", "web"]"#);
    let nameless = admission_review(
        |request| {
            request["name"] = "".into();
            request["object"]["metadata"] = json!({"generateName": "web-"});
        },
        &pod("web", &[]),
    );
    assert_eq!(of(&nameless), r#"403 CREATE me ["pods", "shop", "web-"]"#);
    let namespace = admission_review(
        |request| {
            request["resource"]["resource"] = "namespaces".into();
            request["namespace"] = "web".into();
        },
        &pod("web", &[]),
    );
    assert_eq!(of(&namespace), r#"403 CREATE me ["namespaces", "", "web"]"#);
}

#[test]
fn message_lists_the_first_denials_and_counts_the_rest() {
    let many = "package admission\nimport rego.v1\ndeny contains sprintf(\"no %d\", [n]) if some n in numbers.range(1000, 11000)\n";
    let response = message(verdict(
        &snapshot(&[many], &[], EnforcementAction::Deny),
        &pod("web", &[]),
        AdmissionPhase::Mutating,
    ));
    assert!(
        response.starts_with("403 no 1000; no 10000; ") && response.ends_with("; and 9981 more"),
        "{response}"
    );
}

#[test]
fn failed_evaluations_reject_the_write() {
    let slow = "package admission\nimport rego.v1\ndeny contains \"slow\" if count([1 | some a in r; some b in r; a == b]) == 0\nr := numbers.range(1, 50000)\n";
    let admission_review = admission_review(|_| {}, &pod("web", &[]));
    let answer = review(
        &snapshot(&[slow], &[], EnforcementAction::Deny),
        &admission_review.request().unwrap(),
        &admission_review,
        AdmissionPhase::Mutating,
    );
    assert!(answer.unwrap_err().is_timeout());
    let large = "package admission\nimport rego.v1\nd(s) := concat(\"\", [s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s])\n\
                 deny contains d(d(d(d(d(d(d(input.request.name)))))))\n";
    let large = snapshot(&[large], &[], EnforcementAction::Deny);
    let error =
        review(&large, &admission_review.request().unwrap(), &admission_review, AdmissionPhase::Mutating)
            .unwrap_err();
    assert_eq!(error.reason(), "memory");
    assert!(error.to_string().ends_with(":3:15: the evaluation took more than 32 MiB of memory"), "{error}");
    let engine = Evaluator::Embedded.engine(&Bundle::read(&[]).unwrap()).unwrap();
    let cannot =
        Snapshot::new(engine, BTreeMap::from([(ADMISSION, "Rego policy p is unavailable: why".to_owned())]));
    let answer =
        review(&cannot, &admission_review.request().unwrap(), &admission_review, AdmissionPhase::Mutating);
    assert_eq!(answer.unwrap_err().to_string(), "Rego policy p is unavailable: why");
}

#[test]
fn denials_without_a_resource_use_the_enforcement_of_their_policy() {
    let plain = "package admission\nimport rego.v1\ndeny contains {\"id\": \"a\", \"resolution\": {\"message\": \"no\"}}\n";
    let empty = "package admission\nimport rego.v1\ndeny contains {}\n";
    for (text, warned) in
        [(plain, "a: no"), (empty, "policies/p/0.rego: deny: expected an object with an id")]
    {
        let snapshot = snapshot(&[text], &[], EnforcementAction::Warn);
        let response = message(verdict(&snapshot, &pod("web", &[]), AdmissionPhase::Validating));
        assert!(response.starts_with(&format!("[] [\"{warned}")), "{response}");
    }
}

const PLANTED: &str = "aHVudGVyMg==";

/// Reviews a Secret with the Rego policies `texts`. If `contents` is `None`, static analysis determines whether Rego
/// policies receive the contents of Secrets.
fn of_secret(texts: &[&str], contents: Option<SecretContents>) -> Result<ReviewResult, RegoQueryError> {
    of_secret_with(EnforcementAction::Deny, texts, contents)
}

fn of_secret_with(
    enforcement: EnforcementAction,
    texts: &[&str],
    contents: Option<SecretContents>,
) -> Result<ReviewResult, RegoQueryError> {
    let texts: Vec<Text> = texts
        .iter()
        .enumerate()
        .map(|(number, text)| Text { id: ModuleId::new(&format!("p/{number}.rego")), text: (*text).into() })
        .collect();
    let bundle = Bundle::read(&texts).unwrap();
    let secrets = contents.unwrap_or_else(|| {
        let checked = confined::checked(&texts, Default::default(), &Default::default());
        assert!(checked.faults.is_empty(), "{:?}", checked.faults);
        checked.secrets.withheld()
    });
    let engine = Evaluator::Embedded.engine(&bundle).unwrap();
    let enforcement_overrides = texts.iter().map(|text| (text.id.clone(), enforcement)).collect();
    let review_inputs = ReviewInputs { secrets, enforcement_overrides, ..ReviewInputs::default() };
    let snapshot = Snapshot::new(engine, BTreeMap::new()).with_review_inputs(review_inputs);
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": {"password": PLANTED},
        "metadata": {"name": "db", "namespace": "shop", "labels": {"app": "shop"}, "annotations":
            {"kubectl.kubernetes.io/last-applied-configuration": format!("{{\"data\": {{\"password\": {PLANTED:?}}}}}")}}});
    let admission_review = admission_review(
        |request| {
            request["resource"]["resource"] = "secrets".into();
            request["kind"] = json!({"group": "", "version": "v1", "kind": "Secret"});
            request["operation"] = "UPDATE".into();
            request["oldObject"] = request["object"].clone();
        },
        &secret,
    );
    review(&snapshot, &admission_review.request().unwrap(), &admission_review, AdmissionPhase::Validating)
}

/// A Rego module that returns its whole input as a denial.
const DENIES_WITH_INPUT: &str = "package admission\nimport rego.v1\n\
    deny contains msg if { msg := json.marshal(input) }\n\
    deny contains msg if { msg := json.marshal(data.kubernetes) }\n";

#[test]
fn contents_of_secrets_are_not_in_the_input() {
    // Contents are removed even if the static analysis was not run.
    let found =
        message(of_secret(&[DENIES_WITH_INPUT], Some(SecretContents::Withheld(None))).unwrap().verdict);
    assert!(found.contains("Opaque") && found.contains("shop"), "{found}");
    assert!(!found.contains(PLANTED) && !found.contains("password"), "{found}");
    let found = message(of_secret(&[DENIES_WITH_INPUT], Some(SecretContents::Readable)).unwrap().verdict);
    assert!(found.contains(PLANTED), "{found}");
}

#[test]
fn policies_that_may_read_secret_contents_fail_the_review() {
    let error = of_secret(&[DENIES_WITH_INPUT], None).unwrap_err();
    let expected = "p/0.rego:3:44: the policy may read the contents of a Secret: restrict its rule to other kinds, \
                    or run the controller with --replicate secrets";
    assert_eq!(error.to_string(), expected);
    assert_eq!(error.reason(), "evaluation");
    let content = "package admission\ndeny[\"weak\"] { input.request.object.data.password == \"YQ==\" }";
    assert!(of_secret(&[content], None).is_err(), "undefined would let it pass");
    let of_maps = content.replace("{ ", "{ input.request.kind.kind == \"ConfigMap\"; ");
    assert_eq!(of_secret(&[&of_maps], None).unwrap().verdict, AdmissionDecision::allowed());
}

#[test]
fn labels_of_secrets_are_reviewed() {
    let labels = "package admission\ndeny[\"no owner\"] { not input.request.object.metadata.labels.owner }\n\
                  deny[\"app\"] { input.request.oldObject.metadata.labels.app == \"shop\" }";
    assert_eq!(message(of_secret(&[labels], None).unwrap().verdict), "403 app; no owner");
}

#[test]
fn patches_of_contents_are_rejected() {
    let patch = "package admission\ndeny[{\"id\": \"mends\", \"resolution\": {\"patches\": [\
                 {\"op\": \"replace\", \"path\": \"/data/password\", \"value\": \"YQ==\"}]}}] { input.request.name }";
    for contents in [None, Some(SecretContents::Readable)] {
        let found = message(of_secret(&[patch], contents).unwrap().verdict);
        assert_eq!(found, "500 mends: resolution.patches: a Rego policy cannot change the data of a Secret");
    }
}

#[test]
fn failed_evaluations_quote_no_contents() {
    for rule in [
        "deny[x] { x := input.request.object.data.password & {\"a\"} }",
        "deny[x] { x := base64.decode(input.request.object.data.password) & {\"a\"} }",
        "deny[x] { x := {k: v | v := [input.request.object.data.password, \"b\"][_]; k := 1} }",
        "deny[x] { m := {\"a\": 1}; types := {\"a\": input.request.object}; x := m[types[m]] }",
        "deny[x] { x := p }\np = x { x := [input.request.object.data.password, \"b\"][_] }",
    ] {
        let text = format!("package admission\n{rule}");
        let found = match of_secret(&[&text], Some(SecretContents::Readable)) {
            Ok(reviewed) => message(reviewed.verdict),
            Err(error) => error.to_string(),
        };
        assert!(!found.contains(PLANTED) && !found.contains("hunter2"), "{rule}: {found}");
    }
}

#[test]
fn warnings_about_secrets_quote_no_contents() {
    let warns = |message: &str| {
        format!(
            "package admission\ndeny[{{\"id\": \"warns\", \"resolution\": {{\"message\": message}}}}] {{ message := {message} }}"
        )
    };
    for (message, contents) in [
        ("sprintf(\"no owner: %v\", [input.request.object.metadata])", None),
        ("json.marshal(input)", Some(SecretContents::Withheld(None))),
    ] {
        let reviewed = of_secret_with(EnforcementAction::Warn, &[&warns(message)], contents).unwrap();
        let AdmissionDecision::Allowed { warnings, .. } = reviewed.verdict else {
            panic!("{message}: it is denied")
        };
        let [warning] = warnings.as_slice() else { panic!("{message}: {warnings:?}") };
        assert!(warning.starts_with("warns: ") && warning.contains("shop"), "{warning}");
        assert!(!warning.contains(PLANTED) && !warning.contains("hunter2"), "{warning}");
    }
    for message in [
        "input.request.object.data.password & {\"a\"}",
        "base64.decode(input.request.object.data.password) & {\"a\"}",
        "{k: v | v := [input.request.object.data.password, \"b\"][_]; k := 1}",
    ] {
        let failed =
            of_secret_with(EnforcementAction::Warn, &[&warns(message)], Some(SecretContents::Readable));
        let error = failed.expect_err(message).to_string();
        assert!(!error.contains(PLANTED) && !error.contains("hunter2"), "{message}: {error}");
    }
}

#[test]
fn results_of_the_wrong_type_are_not_quoted() {
    for rule in [
        "deny[x] { x := {\"id\": 1, \"a\": input.request.object.data} }",
        "deny[x] { x := {\"id\": \"a\", \"resolution\": {\"message\": input.request.object.data}} }",
        "deny[x] { x := {\"id\": \"a\", \"resolution\": {\"patches\": [{\"op\": input.request.object.data.password, \"path\": \"/a\"}]}} }",
        "deny = x { x := input.request.object.data }",
    ] {
        let text = format!("package admission\n{rule}");
        let found = message(of_secret(&[&text], Some(SecretContents::Readable)).unwrap().verdict);
        assert!(found.starts_with("500 ") && !found.contains(PLANTED), "{rule}: {found}");
    }
}
