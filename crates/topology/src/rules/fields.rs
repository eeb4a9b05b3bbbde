//! The rules of policies without a known structure: one for each field that is not an object. The key is its
//! [JSON pointer](https://www.rfc-editor.org/rfc/rfc6901). A list is one field.

use serde_json::Value;

use super::PolicyRule;
use super::block::Block;
use policy_sync_api::json::pointer;

pub(super) fn rules(block: &Block<'_>) -> Vec<PolicyRule> {
    let mut rules = Vec::new();
    for (key, value) in block.fields() {
        collect(&pointer("", key), value, &mut rules);
    }
    rules
}

fn collect(place: &str, value: &Value, to: &mut Vec<PolicyRule>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                collect(&pointer(place, key), value, to);
            }
        }
        // Null is the same as a missing field.
        Value::Null => {}
        _ => to.push(PolicyRule::new(place.to_owned(), value)),
    }
}

/// Whether one of the sorted `places` contains `place`, or is inside it. Then an object at one place
/// conflicts with a value at the other, as in [RFC 7396](https://www.rfc-editor.org/rfc/rfc7396).
pub(crate) fn has_overlapping_path(places: &[&str], place: &str) -> bool {
    let mut outer = place.match_indices('/').skip(1).map(|(at, _)| &place[..at]);
    if outer.any(|outer| places.binary_search(&outer).is_ok()) {
        return true;
    }
    let inside = format!("{place}/");
    let begin = places.partition_point(|known| *known < inside.as_str());
    places.get(begin).is_some_and(|known| known.starts_with(&inside))
}
