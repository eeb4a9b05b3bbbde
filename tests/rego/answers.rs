//! What becomes of an object where a policy gives an answer that cannot be used.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use policy_sync::api::admission::{Request, Verdict};
use policy_sync::placement::review::review;
use policy_sync::rego::bundle::Bundle;
use policy_sync::rego::engine::Evaluator;
use policy_sync::rego::module::{ModuleId, Text};
use policy_sync::rego::snapshot::Snapshot;
use policy_sync_testenv::bad_input::{self, code};
use serde_json::json;

/// What a policy does, how it is written, and what whoever writes an object is told.
const ANSWERS: [(&str, &str, &str); 17] = [
    (
        "`annotations` that are a list",
        "annotations := [1]",
        "QUERY: annotations: expected an object, found [1]",
    ),
    (
        "an annotation that the controller writes",
        r#"annotations["kuadrant.io/policies-synced"] := "[]""#,
        "QUERY: annotations.kuadrant.io/policies-synced: only the controller writes it",
    ),
    (
        "`placed-by-policy` forged",
        r#"annotations["kuadrant.io/placed-by-policy"] := "{}""#,
        "QUERY: annotations.kuadrant.io/placed-by-policy: only the controller writes it",
    ),
    (
        "a key with quotes and a backslash",
        r#"annotations["a\"] as \\b"] := 1"#,
        r#"QUERY: annotations.a"] as \b: is no key that the API takes"#,
    ),
    ("a key that is a number", "annotations[1] := 2", "QUERY: annotations: expected texts as keys, found 1"),
    (
        "a label that no label can be",
        r#"labels["zone"] := "in Europe""#,
        r#"QUERY: labels.zone: "in Europe" is no value that a label can have"#,
    ),
    (
        "300 KiB of annotations",
        "",
        "QUERY: annotations: the object's would have 304,095 bytes, 262,144 are allowed",
    ),
    (
        "two values of one key",
        "annotations[\"a\"] := 1 if input.metadata.name\nannotations[\"a\"] := 2 if input.metadata.name",
        "ID:4:12: rule conflicts with rule at ID:3:12",
    ),
    ("`errors` that are no texts", "errors contains 1", "QUERY: errors: expected a list of texts, found [1]"),
    (
        "`errors` that are a text",
        "errors := \"no\"",
        r#"QUERY: errors: expected a list of texts, found "no""#,
    ),
    ("one error", "errors contains \"no\"", "no"),
    ("two errors", "errors contains \"b\"\nerrors contains \"a\"", "a; b"),
    ("the same error twice", "errors := [\"a\", \"a\"]", "a"),
    (
        "a loop",
        "n := count([1 | some a in range; some b in range; a == b])\nrange := numbers.range(1, 50000)",
        "ID: QUERY took more than 1 s",
    ),
    ("a builtin that fails", "errors contains to_number(\"x\")", ""),
    ("nothing", "p := 1", ""),
    ("a key that `null` removes", "annotations[\"gone\"] := null", ""),
];

const ID: &str = "policies/p/p.rego";
const QUERY: &str = "data.io.k8s.federation.admission";

/// The message of the refusal, empty where there is none.
fn answer(rules: &str) -> Result<String> {
    let text = Text {
        id: ModuleId::new(ID),
        text: format!("package io.k8s.federation.admission\nimport rego.v1\n{rules}\n").into(),
    };
    let bundle = Bundle::read(&[text]).map_err(|faults| anyhow::anyhow!("{faults:?}"))?;
    let engine = Evaluator::Embedded.engine(&bundle).map_err(|fault| anyhow::anyhow!("{fault}"))?;
    let request = Request { object: json!({"metadata": {"name": "web"}}), ..Request::default() };
    Ok(match review(&Snapshot::new(engine, BTreeMap::new()), &request) {
        Ok(Verdict::Denied { message, .. }) => message,
        Ok(Verdict::Allowed { .. }) => String::new(),
        Err(error) => error.to_string(),
    })
}

#[test]
fn what_becomes_of_answers_that_cannot_be_used_is_in_the_documentation() -> Result<()> {
    // A line has 4,096 columns at most.
    let large: String =
        (10..85).map(|n| format!("annotations[\"k{n}\"] := \"{}\"\n", "x".repeat(4_000))).collect();
    let mut wrong = Vec::new();
    let mut table = "| answer | the object |\n|---|---|\n".to_owned();
    for (what, rules, expected) in ANSWERS {
        let found = answer(if rules.is_empty() { &large } else { rules }).with_context(|| what.to_owned())?;
        let found = found.replace(ID, "ID").replace(QUERY, "QUERY");
        if found != expected {
            wrong.push(format!("{what}: {found}"));
        }
        let told = if found.is_empty() { "is written".to_owned() } else { code(&found) };
        table += &format!("| {what} | {told} |\n");
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    bad_input::holds("rego answers", &table)
}
