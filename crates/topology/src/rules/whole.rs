//! The rules of policies that apply as a whole or not at all.

use serde_json::{Map, Value};

use super::PolicyRule;

/// The only rule of such a policy: its spec without the target fields.
pub(super) fn rules(spec: &Map<String, Value>) -> Vec<PolicyRule> {
    let is_target = |key: &str| matches!(key, "targetRef" | "targetRefs" | "targetSelectors");
    let fields = spec.iter().filter(|(key, _)| !is_target(key));
    let whole: Map<String, Value> = fields.map(|(key, value)| (key.clone(), value.clone())).collect();
    vec![PolicyRule::new("spec#".to_owned(), &Value::Object(whole))]
}
