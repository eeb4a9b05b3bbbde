//! Checks samples of reviews in Rego tests: the patches of all denials must be applicable together.

use regorus::Value;

use super::denial::{Denial, ResourceRef, sorted_unique};
use super::patches::merge;
use super::review_query::at;
use policy_sync_rego::embedded::Embedded;
use policy_sync_rego::queries::expected;

/// The expected format, for error messages.
const SAMPLE: &str = "{\"reviewed\": [kind, namespace, name, object]}";

/// Evaluates the package `admission` of `engine` for the sample `input`, `{"reviewed": [kind, namespace,
/// name, object]}`, and merges the patches of all denials.
///
/// # Errors
///
/// If the sample is malformed, the evaluation fails, or the patches conflict or cannot be applied.
pub fn check_patches(engine: &Embedded, admission: &str, input: &Value) -> Result<(), String> {
    let reviewed = input["reviewed"].as_array().map_err(|_| expected(SAMPLE, input))?;
    let [kind, namespace, name, object] = reviewed.as_slice() else { return Err(expected(SAMPLE, input)) };
    let [kind, namespace, name] = [kind, namespace, name].map(|part| part.as_string().map(AsRef::as_ref));
    let (Ok(kind), Ok(namespace), Ok(name)) = (kind, namespace, name) else {
        return Err(expected(SAMPLE, input));
    };
    let query = format!("data.{admission}.deny{}", at(kind, namespace, name));
    let evaluated = engine.evaluate(&query, input).map_err(|failure| failure.to_string())?;
    let Some(answer) = evaluated.into_value() else { return Ok(()) };
    let denials = sorted_unique(Denial::read(&answer, ResourceRef { kind, namespace, name })?);
    if let Some(fault) = denials.iter().find(|denial| denial.is_fault) {
        return Err(fault.text());
    }
    let denials: Vec<&Denial> = denials.iter().filter(|denial| !denial.patches.is_empty()).collect();
    let object = serde_json::to_value(object).map_err(|error| error.to_string())?;
    merge(&denials, &object).map(drop)
}
