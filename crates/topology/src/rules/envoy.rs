//! The merge of [policies of Envoy
//! Gateway](https://gateway.envoyproxy.io/docs/api/extension_types/#mergetype). Only the most specific policy
//! along a path applies. If it targets a route and has a `mergeType`, it is merged with the closest policy on
//! a Gateway, a ListenerSet or a listener.

use serde_json::{Map, Value};

use super::block::Block;
use super::{PolicyRules, Strategy, fields};
use crate::fault::Fault;
use policy_sync_api::text::excerpt;

/// Reads a policy from its spec: each field is a rule.
pub(super) fn read(spec: &Map<String, Value>) -> PolicyRules {
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
    let mut rules = fields::rules(&Block::of_envoy(spec, strategy));
    rules.sort_by(|left, right| left.key.cmp(&right.key));
    PolicyRules { strategy, rules, faults: fault.into_iter().collect() }
}
