//! The rules of policies of Envoy Gateway, and of policies without a known structure: one for each field that is
//! not an object. The key is its [JSON pointer](https://www.rfc-editor.org/rfc/rfc6901). A list is one field.

use serde_json::{Map, Value};

use super::block::Block;
use super::{PolicyRule, PolicyRules, Strategy};
use crate::fault::Fault;
use policy_sync_api::json::pointer;
use policy_sync_api::text::excerpt;

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

/// Reads a [policy of Envoy
/// Gateway](https://gateway.envoyproxy.io/docs/api/extension_types/#mergetype) from its spec. Only the most
/// specific policy along a path applies. If it targets a route and has a `mergeType`, it is merged with the closest
/// policy on a Gateway, a ListenerSet or a listener.
pub(super) fn read_envoy(spec: &Map<String, Value>) -> PolicyRules {
    let (strategy, fault) = match spec.get("mergeType") {
        None | Some(Value::Null) => (Strategy::None, None),
        Some(Value::String(name)) if name == "JSONMerge" => (Strategy::JsonMerge, None),
        Some(Value::String(name)) if name == "StrategicMerge" => (Strategy::StrategicMerge, None),
        Some(Value::String(name)) => {
            let text = format!("{:?} is not JSONMerge or StrategicMerge: ignored", excerpt(name));
            (Strategy::None, Some(Fault::new("spec.mergeType", text)))
        }
        Some(other) => (Strategy::None, Some(Fault::expected("spec.mergeType", "a string", other))),
    };
    let mut rules = rules(&Block::of_envoy(spec, strategy));
    rules.sort_by(|left, right| left.key.cmp(&right.key));
    PolicyRules { strategy, rules, faults: fault.into_iter().collect() }
}

/// Whether one of the sorted paths `places` contains the path `place`, or is inside `place`. If so, a merge as in
/// [RFC 7396](https://www.rfc-editor.org/rfc/rfc7396) cannot keep the values at both paths.
pub(crate) fn has_overlapping_path(places: &[&str], place: &str) -> bool {
    let mut outer = place.match_indices('/').skip(1).map(|(at, _)| &place[..at]);
    if outer.any(|outer| places.binary_search(&outer).is_ok()) {
        return true;
    }
    let inside = format!("{place}/");
    let begin = places.partition_point(|known| *known < inside.as_str());
    places.get(begin).is_some_and(|known| known.starts_with(&inside))
}
