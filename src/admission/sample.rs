//! Samples of reviews, which tests of policies bring: whether what policies want to mend can be mended.

use regorus::Value;

use super::denial::{Denial, Place, in_order};
use super::patches::merge;
use super::question::at;
use policy_sync_rego::asked::expected;
use policy_sync_rego::embedded::Embedded;

/// What a sample is.
const SAMPLE: &str = "{\"reviewed\": [kind, namespace, name, object]}";

/// Asks the package `admission` of `engine` what is denied of the sample `input`, `{"reviewed": [kind, namespace, name, object]}`, and has it mended.
///
/// # Errors
///
/// Where it is no sample, or what policies want cannot be done: two of them want different things.
pub fn mended(engine: &Embedded, admission: &str, input: &Value) -> Result<(), String> {
    let reviewed = input["reviewed"].as_array().map_err(|_| expected(SAMPLE, input))?;
    let [kind, namespace, name, object] = reviewed.as_slice() else { return Err(expected(SAMPLE, input)) };
    let [kind, namespace, name] = [kind, namespace, name].map(|part| part.as_string().map(AsRef::as_ref));
    let (Ok(kind), Ok(namespace), Ok(name)) = (kind, namespace, name) else {
        return Err(expected(SAMPLE, input));
    };
    let query = format!("data.{admission}.deny{}", at(kind, namespace, name));
    let evaluated = engine.evaluate(&query, input).map_err(|failure| failure.to_string())?;
    let Some(answer) = evaluated.into_value() else { return Ok(()) };
    let denials = in_order(Denial::read(&answer, Place { kind, namespace, name })?);
    if let Some(fault) = denials.iter().find(|denial| denial.is_fault) {
        return Err(fault.text());
    }
    let denials: Vec<&Denial> = denials.iter().filter(|denial| !denial.patches.is_empty()).collect();
    let object = serde_json::to_value(object).map_err(|error| error.to_string())?;
    merge(&denials, &object).map(drop)
}
