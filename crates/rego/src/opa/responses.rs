//! Parses responses of OPA.

use std::collections::BTreeMap;

use regorus::Value;
use serde::Deserialize;

use super::contents::PREFIX;
use super::installed::UNDEFINED;
use crate::bundle::Bundle;
use crate::evaluation_error::EvaluationError;
use crate::fault::{Fault, Position};
use crate::module::ModuleId;

#[derive(Deserialize)]
struct QueryResponse {
    /// The solutions of the query: one, if the marker is set.
    #[serde(default)]
    result: Vec<Bindings>,
}

#[derive(Deserialize)]
struct Bindings {
    decision: Vec<Value>,
    revision: String,
}

#[derive(Default, Deserialize)]
struct ErrorResponse {
    #[serde(default)]
    errors: Vec<Error>,
}

#[derive(Deserialize)]
struct Error {
    #[serde(default)]
    code: String,
    message: String,
    #[serde(default)]
    location: Option<Location>,
}

#[derive(Deserialize)]
struct Location {
    file: String,
    row: u32,
    col: u32,
}

/// A decision, if it is defined, and the marker; `None` without a marker.
pub(super) fn decision(body: &[u8]) -> Result<Option<(Option<Value>, String)>, serde_json::Error> {
    let decided: QueryResponse = serde_json::from_slice(body)?;
    let found = decided.result.into_iter().next();
    Ok(found.map(|found| (found.decision.into_iter().next(), found.revision)))
}

/// Whether OPA rejects a query because the [proof module](super::installed) is absent.
pub(super) fn lacks_modules(body: &[u8]) -> bool {
    let response = serde_json::from_slice::<ErrorResponse>(body);
    response.is_ok_and(|response| response.errors.iter().any(|error| error.message.contains(UNDEFINED)))
}

/// The place and the kind of an evaluation error in a module of `bundle`; `None` if the response names no such module.
pub(super) fn failure(bundle: &Bundle, body: &[u8]) -> Option<Fault> {
    let text = |error: &Error| EvaluationError::of_opa(&error.code).to_string();
    faults(bundle, body, text).into_values().flatten().next()
}

/// Compile errors of modules of `bundle`, by module, with OPA's messages. The messages quote no data, because OPA
/// compiles modules without evaluating data.
pub(super) fn compile_errors(bundle: &Bundle, body: &[u8]) -> BTreeMap<ModuleId, Vec<Fault>> {
    // Places in the message refer to the edited text.
    let words =
        |error: &Error| error.message.replace(PREFIX, "").split_whitespace().collect::<Vec<_>>().join(" ");
    faults(bundle, body, words)
}

fn faults(bundle: &Bundle, body: &[u8], text: impl Fn(&Error) -> String) -> BTreeMap<ModuleId, Vec<Fault>> {
    let response: ErrorResponse = serde_json::from_slice(body).unwrap_or_default();
    let mut faults: BTreeMap<ModuleId, Vec<Fault>> = BTreeMap::new();
    for error in response.errors {
        let Some(Location { file, row, col }) = &error.location else { continue };
        let Some(id) = file.strip_prefix(PREFIX).map(ModuleId::new) else { continue };
        if bundle.module(&id).is_none() {
            continue;
        }
        let place = Position { line: *row, column: *col };
        let fault = Fault::new(&id, place, format!("OPA: {}", text(&error)));
        faults.entry(id).or_default().push(bundle.original_of_opa(fault));
    }
    faults
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::module::Text;

    fn bytes(value: &serde_json::Value) -> Vec<u8> {
        serde_json::to_vec(value).unwrap()
    }

    #[test]
    fn decision_requires_the_marker() {
        let read = |value: serde_json::Value| decision(&bytes(&value)).unwrap();
        assert_eq!(read(json!({})), None);
        assert_eq!(read(json!({"result": []})), None);
        let undefined = json!({"result": [{"decision": [], "revision": "a"}]});
        assert_eq!(read(undefined), Some((None, "a".to_owned())));
        let decided = json!({"result": [{"decision": [{"x": 1}], "revision": "a"}]});
        assert_eq!(read(decided), Some((Some(json!({"x": 1}).into()), "a".to_owned())));
        assert!(decision(b"{").is_err());
        assert!(decision(&bytes(&json!({"result": [{"decision": [1]}]}))).is_err());
    }

    #[test]
    fn undefined_proof_function_means_missing_modules() {
        let error = |message: &str| {
            bytes(
                &json!({"code": "invalid_parameter", "message": "compiling", "errors": [{"code": "rego_type_error", "message": message}]}),
            )
        };
        assert!(lacks_modules(&error("undefined function data.policysync.installed.complete")));
        assert!(!lacks_modules(&error("undefined function data.lib.f")));
        assert!(!lacks_modules(b"{"));
    }

    #[test]
    fn errors_are_mapped_to_the_original_place() {
        let text = Text { id: ModuleId::new("ns/a/a.rego"), text: "package a\n\np := 1".into() };
        let bundle = Bundle::read(&[text]).unwrap();
        let error = |file: &str| {
            bytes(&json!({"code": "internal_error", "message": "error(s) occurred", "errors": [{
                "code": "eval_conflict_error", "message": "conflict:\n  1 at policysync/ns/a/a.rego:4",
                "location": {"file": file, "row": 4, "col": 1}}]}))
        };
        let found = failure(&bundle, &error("policysync/ns/a/a.rego")).unwrap();
        let expected = "ns/a/a.rego:3:1: OPA: conflicting values of a rule or a function";
        assert_eq!(found.to_string(), expected, "OPA's message may quote values");
        let found = compile_errors(&bundle, &error("policysync/ns/a/a.rego"));
        let found: Vec<String> = found.into_values().flatten().map(|fault| fault.to_string()).collect();
        assert_eq!(found, ["ns/a/a.rego:3:1: OPA: conflict: 1 at ns/a/a.rego:4"]);
        for file in ["", "ns/a/a.rego", "policysync/ns/a/b.rego"] {
            assert_eq!(failure(&bundle, &error(file)), None, "{file}");
        }
        assert_eq!(failure(&bundle, b"{"), None);
    }
}
