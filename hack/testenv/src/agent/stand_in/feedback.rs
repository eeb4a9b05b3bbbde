//! Status feedback: reads the values that a work's feedback rules select from an object, with their types.
//!
//! The limits are the same as in OCM's agent. Integers, strings and booleans have no length limit. Without raw JSON,
//! only the first of several matches counts, and a list, an object or a fraction is an error. With raw JSON, several
//! matches become a list, and lists, objects and fractions are reported as JSON. JSON of more than 1,024 bytes is an
//! error. The error of one path does not affect other paths.

use policy_sync_api::work::{FeedbackRule, FeedbackRuleType, FeedbackValue, FieldValue, FieldValueType};
use serde_json::Value;

use super::path::{Path, go_type};

/// Values and errors of one manifest's feedback rules.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Feedback {
    /// Whether the manifest has any feedback rules.
    pub(super) has_rules: bool,
    /// The values of all paths that select a value.
    pub(super) values: Vec<FeedbackValue>,
    /// The errors of all paths that failed.
    pub(super) errors: Vec<String>,
}

/// Maximum length of raw JSON, in bytes.
const JSON_LIMIT: usize = 1024;

/// Evaluates `rules` on `object`; `raw` enables JSON for lists, objects and fractions.
pub(super) fn evaluate(rules: &[FeedbackRule], object: &Value, raw: bool) -> Feedback {
    let mut feedback = Feedback { has_rules: !rules.is_empty(), ..Feedback::default() };
    for rule in rules {
        match rule.rule {
            FeedbackRuleType::WellKnownStatus => {
                feedback.errors.push(format!(
                    "cannot find the wellknown statuses for resource with gvk {}",
                    kind_of(object)
                ));
            }
            FeedbackRuleType::JSONPaths => {
                for path in &rule.json_paths {
                    match value_at(&path.name, &path.path, object, raw) {
                        Ok(Some(field_value)) => {
                            feedback.values.push(FeedbackValue { name: path.name.clone(), field_value });
                        }
                        Ok(None) => {}
                        Err(error) => feedback.errors.push(error),
                    }
                }
            }
        }
    }
    feedback
}

fn kind_of(object: &Value) -> String {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    format!("{}, Kind={}", text("apiVersion"), text("kind"))
}

fn value_at(name: &str, path: &str, object: &Value, raw: bool) -> Result<Option<FieldValue>, String> {
    let parsed = Path::parse(path)
        .map_err(|error| format!("failed to parse json path {path} of {name} with error: {error}"))?;
    let values =
        parsed.all(object).map_err(|error| format!("failed to find value for {name} with error: {error}"))?;
    let several;
    let value = match values.as_slice() {
        [] => return Ok(None),
        [_, _, ..] if raw => {
            several = Value::Array(values.into_iter().cloned().collect());
            &several
        }
        [first, ..] => *first,
    };
    let empty =
        |value_type| FieldValue { value_type, integer: None, string: None, boolean: None, json_raw: None };
    match value {
        Value::Null => Ok(None),
        Value::Bool(boolean) => {
            Ok(Some(FieldValue { boolean: Some(*boolean), ..empty(FieldValueType::Boolean) }))
        }
        Value::String(string) => {
            Ok(Some(FieldValue { string: Some(string.clone()), ..empty(FieldValueType::String) }))
        }
        Value::Number(number) if number.is_i64() => {
            Ok(Some(FieldValue { integer: number.as_i64(), ..empty(FieldValueType::Integer) }))
        }
        other if raw => {
            let json = other.to_string();
            if json.len() > JSON_LIMIT {
                return Err(format!(
                    "the length of returned json raw string for name {name} is larger than the maximum length {JSON_LIMIT}"
                ));
            }
            Ok(Some(FieldValue { json_raw: Some(json), ..empty(FieldValueType::JsonRaw) }))
        }
        other => Err(format!("the type {} of the value for {name} is not found", go_type(other))),
    }
}

#[cfg(test)]
mod tests;
