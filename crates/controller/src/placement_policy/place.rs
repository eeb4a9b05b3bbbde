//! Applies the result of placement policies to an object.

use std::collections::BTreeMap;

use serde_json::Value;

use super::placement_result::{InvalidPlacementResult, PlacementResult};
use policy_sync_api::annotations::PLACED_BY_POLICY;
use policy_sync_api::placed_by_policy::{MetadataChange, PlacedByPolicy, Strings, put, strings, write};
use policy_sync_api::text::group_digits;

/// Maximum total size of an object's annotations in bytes, keys and values, as enforced by the API server.
const MAX_ANNOTATION_BYTES: usize = 256 * 1024;

/// Applies `placement_result` to `object`, whose original form is `original`, and records the original values in an
/// annotation.
///
/// # Errors
///
/// If the annotations would exceed the limit of the API server.
pub fn place(
    object: &Value,
    original: &Value,
    placement_result: &PlacementResult,
) -> Result<Value, InvalidPlacementResult> {
    let (mut result, mut placed) = (object.clone(), PlacedByPolicy::default());
    let mut labels = strings(original, "labels");
    placed.labels = set(&mut labels, &placement_result.labels);
    write(&mut result, "labels", &labels);
    let mut annotations = strings(original, "annotations");
    placed.annotations = set(&mut annotations, &placement_result.annotations);
    if !placed.is_empty() {
        let text = serde_json::to_string(&placed).unwrap_or_default();
        annotations.insert(PLACED_BY_POLICY.to_owned(), text);
    }
    write(&mut result, "annotations", &annotations);
    let bytes: usize = annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
    if bytes > MAX_ANNOTATION_BYTES && !placed.is_empty() {
        let (bytes, limit) = (group_digits(bytes), group_digits(MAX_ANNOTATION_BYTES));
        let text = format!("the object's annotations would have {bytes} bytes, at most {limit} are allowed");
        return Err(InvalidPlacementResult::new("annotations", text));
    }
    Ok(result)
}

/// Applies `placement_result` to `strings`, which contain the original values. Returns a record of each change.
fn set(
    strings: &mut Strings,
    placement_result: &BTreeMap<String, Option<String>>,
) -> BTreeMap<String, MetadataChange> {
    let mut set = BTreeMap::new();
    for (key, value) in placement_result {
        let before = strings.get(key).cloned();
        // If the result equals the original value, there is nothing to record.
        if before != *value {
            set.insert(key.clone(), MetadataChange::new(value.as_deref(), before.as_deref()));
            put(strings, key, value.clone());
        }
    }
    set
}

#[cfg(test)]
mod tests;
