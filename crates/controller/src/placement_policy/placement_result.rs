//! Parses the result of placement policies: `{"annotations": {…}, "labels": {…}, "errors": […]}`, all
//! optional.

use std::collections::BTreeMap;

use regorus::Value;

use policy_sync_api::annotations::{REMEDIATE, is_controller_key};
use policy_sync_api::syntax::{is_label_key, is_label_value};
use policy_sync_rego::queries::{expected, truncated};

/// The result of placement policies for one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlacementResult {
    /// Annotations to set. The value `None` removes the annotation.
    pub annotations: BTreeMap<String, Option<String>>,
    /// Labels to set. The value `None` removes the label.
    pub labels: BTreeMap<String, Option<String>>,
    /// Reasons to reject the object, sorted.
    pub errors: Vec<String>,
}

/// An invalid result of placement policies: `annotations.kuadrant.io/parent: it is reserved for the controller`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {text}")]
pub struct InvalidPlacementResult {
    at: String,
    text: String,
}

impl InvalidPlacementResult {
    pub(super) fn new(at: impl Into<String>, text: impl Into<String>) -> Self {
        Self { at: at.into(), text: text.into() }
    }
}

impl PlacementResult {
    /// Parses the result of a query.
    ///
    /// # Errors
    ///
    /// If the result has the wrong shape, or sets a key that is invalid or reserved for the controller or the object's
    /// owner.
    pub fn read(value: &Value) -> Result<Self, InvalidPlacementResult> {
        let expected =
            |at: &str, what: &str, value: &Value| InvalidPlacementResult::new(at, expected(what, value));
        let fields = value.as_object().map_err(|_| expected("answer", "an object", value))?;
        let mut placement_result = Self::default();
        for (name, value) in fields.iter() {
            match name.as_string().map(AsRef::as_ref) {
                Ok(field @ ("annotations" | "labels")) => {
                    let values = value.as_object().map_err(|_| expected(field, "an object", value))?;
                    for (key, value) in values.iter() {
                        let key = key.as_string().map_err(|_| expected(field, "strings as keys", key))?;
                        let at = format!("{field}.{key}");
                        let text = text(value).map_err(|_| expected(&at, "a JSON value", value))?;
                        check(field, key, text.as_deref())
                            .map_err(|text| InvalidPlacementResult::new(at, text))?;
                        let put = if field == "labels" {
                            &mut placement_result.labels
                        } else {
                            &mut placement_result.annotations
                        };
                        put.insert(key.to_string(), text);
                    }
                }
                Ok("errors") => {
                    placement_result.errors =
                        errors(value).ok_or_else(|| expected("errors", "a list of strings", value))?
                }
                // Other rules of the package are helpers.
                _ => {}
            }
        }
        Ok(placement_result)
    }
}

/// The errors, sorted, without duplicates.
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

/// The string value of an annotation or label. `None` (null) removes it; other values become compact JSON.
fn text(value: &Value) -> anyhow::Result<Option<String>> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.to_string())),
        Value::Undefined => anyhow::bail!("undefined"),
        value => Ok(Some(serde_json::to_string(value)?)),
    }
}

fn check(field: &str, key: &str, value: Option<&str>) -> Result<(), String> {
    if is_controller_key(key) {
        return Err("it is reserved for the controller".to_owned());
    }
    if key == REMEDIATE {
        return Err("only the owner of the object may set it".to_owned());
    }
    if !is_label_key(key) {
        return Err("is not a valid key".to_owned());
    }
    match value {
        Some(value) if field == "labels" && !is_label_value(value) => {
            Err(format!("{} is not a valid label value", truncated(&format!("{value:?}"))))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
