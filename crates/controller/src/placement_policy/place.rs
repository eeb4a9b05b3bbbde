//! Applies the result of placement policies to an object.

use std::collections::BTreeMap;

use serde_json::Value;

use super::answer::{Answer, AnswerFault};
use policy_sync_api::annotations::PLACED_BY_POLICY;
use policy_sync_api::placed_by_policy::{Placed, Set, Strings, put, strings, write};
use policy_sync_api::text::grouped;

/// Maximum total size of an object's annotations in bytes, keys and values, as enforced by the API server.
const ANNOTATIONS: usize = 256 * 1024;

/// Applies `answer` to `object`, whose original form is `wish`, and records the original values in an
/// annotation.
///
/// # Errors
///
/// If the annotations would exceed the limit of the API server.
pub fn place(object: &Value, wish: &Value, answer: &Answer) -> Result<Value, AnswerFault> {
    let (mut result, mut placed) = (object.clone(), Placed::default());
    let mut labels = strings(wish, "labels");
    placed.labels = set(&mut labels, &answer.labels);
    write(&mut result, "labels", &labels);
    let mut annotations = strings(wish, "annotations");
    placed.annotations = set(&mut annotations, &answer.annotations);
    if !placed.is_empty() {
        let text = serde_json::to_string(&placed).unwrap_or_default();
        annotations.insert(PLACED_BY_POLICY.to_owned(), text);
    }
    write(&mut result, "annotations", &annotations);
    let bytes: usize = annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
    if bytes > ANNOTATIONS && !placed.is_empty() {
        let (bytes, limit) = (grouped(bytes), grouped(ANNOTATIONS));
        let text = format!("the object's annotations would have {bytes} bytes, at most {limit} are allowed");
        return Err(AnswerFault::new("annotations", text));
    }
    Ok(result)
}

/// Applies `answer` to `strings`, which hold the original values. Returns a record of each change.
fn set(strings: &mut Strings, answer: &BTreeMap<String, Option<String>>) -> BTreeMap<String, Set> {
    let mut set = BTreeMap::new();
    for (key, value) in answer {
        let before = strings.get(key).cloned();
        // If both agree, there is no original value to record.
        if before != *value {
            set.insert(key.clone(), Set::new(value.as_deref(), before.as_deref()));
            put(strings, key, value.clone());
        }
    }
    set
}

#[cfg(test)]
mod tests;
