//! The responses of the webhooks to invalid results of Rego policies, to each form of a denial, and to
//! invalid reviews.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use policy_sync_api::admission::{AdmissionDecision, AdmissionRequest, AdmissionReview};
use policy_sync_api::names::GroupResource;
use policy_sync_controller::admission::review as admission;
use policy_sync_controller::placement_policy::review::review;
use policy_sync_rego::bundle::Bundle;
use policy_sync_rego::engine::Evaluator;
use policy_sync_rego::module::{ModuleId, Text};
use policy_sync_rego::snapshot::{ReviewInputs, Snapshot};
use policy_sync_testenv::bad_input::{self, code};
use serde_json::{Value, json};

/// A description of the Rego policy's result, the rules of the Rego policy, and the message for the author of the
/// object.
const ANSWERS: [(&str, &str, &str); 18] = [
    ("`annotations` as a list", "annotations := [1]", "QUERY: annotations: expected an object, found a list"),
    (
        "an annotation of the controller",
        r#"annotations["kuadrant.io/policies-synced"] := "[]""#,
        "QUERY: annotations.kuadrant.io/policies-synced: it is reserved for the controller",
    ),
    (
        "a forged `placed-by-policy`",
        r#"annotations["kuadrant.io/placed-by-policy"] := "{}""#,
        "QUERY: annotations.kuadrant.io/placed-by-policy: it is reserved for the controller",
    ),
    (
        "a key with quotes and a backslash",
        r#"annotations["a\"] as \\b"] := 1"#,
        r#"QUERY: annotations.a"] as \b: is not a valid key"#,
    ),
    (
        "a number as a key",
        "annotations[1] := 2",
        "QUERY: annotations: expected strings as keys, found a number",
    ),
    (
        "an invalid label value",
        r#"labels["zone"] := "in Europe""#,
        r#"QUERY: labels.zone: "in Europe" is not a valid label value"#,
    ),
    (
        "300 KiB of annotations",
        "",
        "QUERY: annotations: the object's annotations would have 304,095 bytes, at most 262,144 are allowed",
    ),
    (
        "two values for one key",
        "annotations[\"a\"] := 1 if input.metadata.name\nannotations[\"a\"] := 2 if input.metadata.name",
        "ID:4:12: conflicting values of a rule or a function",
    ),
    (
        "`errors` with other values than strings",
        "errors contains 1",
        "QUERY: errors: expected a list of strings, found a set",
    ),
    ("`errors` as a string", "errors := \"no\"", "QUERY: errors: expected a list of strings, found a string"),
    ("one error", "errors contains \"no\"", "no"),
    ("two errors", "errors contains \"b\"\nerrors contains \"a\"", "a; b"),
    ("the same error twice", "errors := [\"a\", \"a\"]", "a"),
    (
        "a rule that does not end",
        "n := count([1 | some a in range; some b in range; a == b])\nrange := numbers.range(1, 50000)",
        "ID: QUERY took more than 1 s",
    ),
    (
        "a string that grows to 66 MB",
        "errors contains d(d(d(d(d(\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde\")))))\nd(s) := concat(\"\", [s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s])",
        "ID:4:15: the evaluation took more than 32 MiB of memory",
    ),
    ("a built-in function that fails", "errors contains to_number(\"x\")", ""),
    ("no result", "p := 1", ""),
    ("`null` as a value, which removes the key", "annotations[\"gone\"] := null", ""),
];

const ID: &str = "policies/p/p.rego";
const QUERY: &str = "data.io.k8s.federation.admission";

/// A snapshot with a module of `package` and these rules.
fn snapshot(package: &str, rules: &str) -> Result<Snapshot> {
    let text =
        Text { id: ModuleId::new(ID), text: format!("package {package}\nimport rego.v1\n{rules}\n").into() };
    let bundle = Bundle::read(&[text]).map_err(|faults| anyhow::anyhow!("{faults:?}"))?;
    let engine = Evaluator::Embedded.engine(&bundle).map_err(|fault| anyhow::anyhow!("{fault}"))?;
    Ok(Snapshot::new(engine, BTreeMap::new()))
}

/// The message of the denial; empty if the object is allowed.
fn answer(rules: &str) -> Result<String> {
    let snapshot = snapshot("io.k8s.federation.admission", rules)?;
    let request =
        AdmissionRequest { object: json!({"metadata": {"name": "web"}}), ..AdmissionRequest::default() };
    Ok(match review(&snapshot, &request) {
        Ok(AdmissionDecision::Denied { message, .. }) => message,
        Ok(AdmissionDecision::Allowed { .. }) => String::new(),
        Err(error) => error.to_string(),
    })
}

#[test]
fn responses_to_invalid_results_are_documented() -> Result<()> {
    // The parser accepts at most 4,096 columns in a line.
    let large: String =
        (10..85).map(|n| format!("annotations[\"k{n}\"] := \"{}\"\n", "x".repeat(4_000))).collect();
    let mut wrong = Vec::new();
    let mut table = "| result | response to the client |\n|---|---|\n".to_owned();
    for (what, rules, expected) in ANSWERS {
        let found = answer(if rules.is_empty() { &large } else { rules }).with_context(|| what.to_owned())?;
        let found = found.replace(ID, "ID").replace(QUERY, "QUERY");
        if found != expected {
            wrong.push(format!("{what}: {found}"));
        }
        table += &format!("| {what} | {} |\n", cell(&found));
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    bad_input::holds("rego answers", &table)
}

/// A description and the rules of a Rego policy that denies a Pod with one container.
const DENIALS: [(&str, &str); 28] = [
    ("a string", "deny contains \"no\""),
    ("two strings", "deny contains \"b\"\ndeny contains \"a\""),
    ("only an `id`", "deny contains {\"id\": \"a\"}"),
    ("a number", "deny contains 1"),
    ("a list as an element", "deny contains [\"a\"]"),
    ("an object without `id`", "deny contains {\"resolution\": {}}"),
    ("a number as `id`", "deny contains {\"id\": 1}"),
    ("a string as `resource`", "deny contains {\"id\": \"a\", \"resource\": \"web\"}"),
    (
        "a `resource` that is another object",
        "deny contains {\"id\": \"a\", \"resource\": {\"kind\": \"pods\", \"namespace\": \"shop\", \"name\": \"b\"}}",
    ),
    ("a list as `resolution`", "deny contains {\"id\": \"a\", \"resolution\": [1]}"),
    ("a number as `message`", "deny contains {\"id\": \"a\", \"resolution\": {\"message\": 1}}"),
    (
        "a message of two lines with an escape character",
        "deny contains {\"id\": \"a\", \"resolution\": {\"message\": \"b\\n\\u001b[31m<b>\"}}",
    ),
    (
        "a message of 1 MB",
        "deny contains {\"id\": \"a\", \"resolution\": {\"message\": concat(\"\", [\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\" | some n in numbers.range(1, 10000)])}}",
    ),
    (
        "10,000 elements",
        "deny contains {\"id\": sprintf(\"a%d\", [10000 + n])} if some n in numbers.range(1, 10000)",
    ),
    (
        "10,000 elements for another object",
        "deny contains {\"id\": sprintf(\"a%d\", [n]), \"resource\": {\"name\": \"b\"}} if some n in numbers.range(1, 10000)",
    ),
    ("no rule `deny`", "p := 1"),
    ("`deny` as an object", "deny := {\"a\": 1}"),
    ("no patches", "deny contains {\"id\": \"a\", \"resolution\": {\"patches\": []}}"),
    ("patches as an object", "deny contains {\"id\": \"a\", \"resolution\": {\"patches\": {}}}"),
    ("a patch without an operation", PATCH_WITHOUT),
    (
        "an unknown operation",
        "deny contains {\"id\": \"a\", \"resolution\": {\"patches\": [{\"op\": \"put\", \"path\": \"/a\"}]}}",
    ),
    (
        "a path that is not a JSON pointer",
        "deny contains {\"id\": \"a\", \"resolution\": {\"patches\": [{\"op\": \"remove\", \"path\": \"/a~2\"}]}}",
    ),
    (
        "a path that does not exist",
        "deny contains {\"id\": \"a\", \"resolution\": {\"patches\": [{\"op\": \"remove\", \"path\": \"/spec/none\"}]}}",
    ),
    (
        "a patch of the name",
        "deny contains {\"id\": \"a\", \"resolution\": {\"patches\": [{\"op\": \"replace\", \"path\": \"/metadata/name\", \"value\": \"b\"}]}}",
    ),
    (
        "a `test` that fails",
        "deny contains {\"id\": \"a\", \"resolution\": {\"patches\": [{\"op\": \"test\", \"path\": \"/spec/priority\", \"value\": 2}]}}",
    ),
    (
        "two patches of one field",
        "deny contains {\"id\": id, \"resolution\": {\"patches\": [{\"op\": \"replace\", \"path\": \"spec/priority\", \"value\": id}]}} if some id in [\"a\", \"b\"]",
    ),
    (
        "a patch of a field and one of a nested field",
        "deny contains {\"id\": path, \"resolution\": {\"patches\": [{\"op\": \"remove\", \"path\": path}]}} if some path in [\"/spec\", \"/spec/priority\"]",
    ),
    (
        "1 MiB of patches",
        "deny contains {\"id\": \"a\", \"resolution\": {\"patches\": [{\"op\": \"add\", \"path\": \"/spec/a\", \"value\": concat(\"\", [\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\" | some n in numbers.range(1, 20000)])}]}}",
    ),
];
const PATCH_WITHOUT: &str =
    "deny contains {\"id\": \"a\", \"resolution\": {\"patches\": [{\"path\": \"/a\"}]}}";

/// A review of a Pod.
fn pod() -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "operation": "CREATE", "namespace": "shop", "name": "a",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "object": {"metadata": {"name": "a", "namespace": "shop"}, "spec": {"priority": 1}},
    }})
}

/// The message in the response to `review` with these rules of `admission`; empty if the object is allowed.
fn reviewed(review: &Value, rules: &str) -> Result<String> {
    // On a hub, discovery maps the plural name to Pods.
    let pods = (GroupResource::new("", "pods"), BTreeSet::from(["pods".to_owned()]));
    let review_inputs = ReviewInputs { names: BTreeMap::from([pods]), ..ReviewInputs::default() };
    let snapshot = snapshot("admission", rules)?.with_review_inputs(review_inputs);
    let admission_review = match AdmissionReview::read(&serde_json::to_vec(review)?) {
        Ok(admission_review) => admission_review,
        Err(fault) => return Ok(format!("400: {fault}")),
    };
    let request = admission_review.request().map_err(|fault| anyhow::anyhow!(fault))?;
    let reviewed =
        admission::review(&snapshot, &request, &admission_review, admission::AdmissionPhase::Mutating);
    Ok(match reviewed.map(|reviewed| reviewed.verdict) {
        Ok(AdmissionDecision::Denied { message, .. }) => message,
        Ok(AdmissionDecision::Allowed { warnings, .. }) => warnings.join("; "),
        Err(error) => error.to_string(),
    })
}

#[test]
fn responses_to_each_form_of_denial_are_documented() -> Result<()> {
    let mut table = "| element of `deny` | response to the client |\n|---|---|\n".to_owned();
    for (what, rules) in DENIALS {
        let found = reviewed(&pod(), rules).with_context(|| what.to_owned())?;
        table += &format!("| {what} | {} |\n", cell(&found));
    }
    bad_input::holds("rego denials", &table)
}

/// The table cell for `found` in the documentation.
fn cell(found: &str) -> String {
    // Long texts are shortened to their beginning and end.
    let found = found.replace(ID, "ID");
    let (begins, ends) = (found.char_indices().nth(40), found.char_indices().rev().nth(40));
    match (begins, ends) {
        _ if found.is_empty() => "is admitted".to_owned(),
        (Some((begins, _)), Some((ends, _))) if found.len() > 400 => {
            format!("{} … {}, {} bytes", code(&found[..begins]), code(&found[ends..]), found.len())
        }
        _ => code(&found),
    }
}

/// A description of an invalid review, and a merge patch of a valid review of a Pod.
fn reviews() -> [(&'static str, Value); 15] {
    let request = |patch: Value| json!({ "request": patch });
    let terminating = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let mut stored = pod()["request"]["object"].clone();
    json_patch::merge(&mut stored, &terminating);
    [
        ("a complete review", json!({})),
        ("no `uid`", request(json!({"uid": null}))),
        ("a number as `uid`", request(json!({"uid": 1}))),
        ("no `request`", json!({"request": null})),
        ("no `object`", request(json!({"object": null}))),
        ("another known version of the review", json!({"apiVersion": "admission.k8s.io/v1beta1"})),
        ("an unknown version of the review", json!({"apiVersion": "admission.k8s.io/v2"})),
        ("a deletion", request(json!({"operation": "DELETE", "object": null}))),
        ("a new pod with a `deletionTimestamp`", request(json!({"object": terminating}))),
        (
            "an update of a terminating pod that removes only finalizers",
            request(json!({"operation": "UPDATE", "object": terminating, "oldObject": stored})),
        ),
        ("a subresource", request(json!({"subResource": "status"}))),
        ("a connection, such as exec", request(json!({"subResource": "exec", "operation": "CONNECT"}))),
        ("a kind without policies", request(json!({"resource": {"resource": "secrets"}}))),
        (
            "a kind with the same plural in another group",
            request(json!({"resource": {"group": "metrics.k8s.io"}})),
        ),
        (
            "a name that the server generates",
            request(json!({"name": null, "object": {"metadata": {"name": null, "generateName": "a-"}}})),
        ),
    ]
}

#[test]
fn responses_to_invalid_reviews_are_documented() -> Result<()> {
    let rules = "import data.k8s.matches\ndeny contains {\"id\": \"a\", \"resource\": {\"kind\": \"pods\", \"namespace\": ns, \"name\": name}, \
        \"resolution\": {\"message\": name}} if matches[[\"pods\", ns, name, _]]";
    let mut table = "| review | response |\n|---|---|\n".to_owned();
    for (what, patch) in reviews() {
        let mut review = pod();
        json_patch::merge(&mut review, &patch);
        table += &format!("| {what} | {} |\n", cell(&reviewed(&review, rules)?));
    }
    bad_input::holds("admission reviews", &table)
}
