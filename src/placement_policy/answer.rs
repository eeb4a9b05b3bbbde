//! What a policy answers: `{"annotations": {…}, "labels": {…}, "errors": […]}`, each optional.

use std::collections::BTreeMap;

use regorus::Value;

use policy_sync_api::annotations::{REMEDIATE, is_ours};
use policy_sync_api::syntax::{is_label_key, is_label_value};
use policy_sync_rego::asked::{expected, short};

/// What a policy answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Annotations of the object; `None` removes one.
    pub annotations: BTreeMap<String, Option<String>>,
    /// Labels of the object; `None` removes one.
    pub labels: BTreeMap<String, Option<String>>,
    /// Why it may not be written, sorted.
    pub errors: Vec<String>,
}

/// What is wrong with an answer: `annotations.kuadrant.io/parent: only the controller writes it`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {text}")]
pub struct AnswerFault {
    at: String,
    text: String,
}

impl AnswerFault {
    pub(super) fn new(at: impl Into<String>, text: impl Into<String>) -> Self {
        Self { at: at.into(), text: text.into() }
    }
}

impl Answer {
    /// Reads what a query gave.
    ///
    /// # Errors
    ///
    /// Where it is of another shape, sets a key that the controller writes, or one that the API does not take.
    pub fn read(value: &Value) -> Result<Self, AnswerFault> {
        let expected = |at: &str, what: &str, value: &Value| AnswerFault::new(at, expected(what, value));
        let fields = value.as_object().map_err(|_| expected("answer", "an object", value))?;
        let mut answer = Self::default();
        for (name, value) in fields.iter() {
            match name.as_string().map(AsRef::as_ref) {
                Ok(field @ ("annotations" | "labels")) => {
                    let values = value.as_object().map_err(|_| expected(field, "an object", value))?;
                    for (key, value) in values.iter() {
                        let key = key.as_string().map_err(|_| expected(field, "texts as keys", key))?;
                        let at = format!("{field}.{key}");
                        let text = text(value).map_err(|_| expected(&at, "what JSON can say", value))?;
                        check(field, key, text.as_deref()).map_err(|text| AnswerFault::new(at, text))?;
                        let put =
                            if field == "labels" { &mut answer.labels } else { &mut answer.annotations };
                        put.insert(key.to_string(), text);
                    }
                }
                Ok("errors") => {
                    answer.errors =
                        errors(value).ok_or_else(|| expected("errors", "a list of texts", value))?
                }
                // What else a package has is the business of its rules.
                _ => {}
            }
        }
        Ok(answer)
    }
}

/// The errors, sorted, each once.
fn errors(value: &Value) -> Option<Vec<String>> {
    let text = |value: &Value| value.as_string().ok().map(ToString::to_string);
    let mut errors: Vec<String> = match value {
        Value::Set(items) => items.iter().map(text).collect::<Option<_>>()?,
        Value::Array(items) => items.iter().map(text).collect::<Option<_>>()?,
        _ => return None,
    };
    errors.sort();
    errors.dedup();
    Some(errors)
}

/// The text of an annotation or a label: what is none is compact JSON, and null removes it.
fn text(value: &Value) -> anyhow::Result<Option<String>> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.to_string())),
        Value::Undefined => anyhow::bail!("undefined"),
        value => Ok(Some(serde_json::to_string(value)?)),
    }
}

fn check(field: &str, key: &str, value: Option<&str>) -> Result<(), String> {
    if is_ours(key) {
        return Err("only the controller writes it".to_owned());
    }
    if key == REMEDIATE {
        return Err("only the object's owner writes it".to_owned());
    }
    if !is_label_key(key) {
        return Err("is no key that the API takes".to_owned());
    }
    match value {
        Some(value) if field == "labels" && !is_label_value(value) => {
            Err(format!("{} is no value that a label can have", short(&format!("{value:?}"))))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
