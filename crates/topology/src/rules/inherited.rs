//! The merge of inherited policies of [GEP-2649](https://gateway-api.sigs.k8s.io/geps/gep-2649/).
//! `spec.override` takes precedence over more specific policies. A field of `spec.default` applies unless a more
//! specific policy sets the field. Both are merged field by field, as in gwctl.

use serde_json::{Map, Value};

use super::block::Block;
use super::{PolicyRule, PolicyRules, Strategy, fields};
use crate::fault::Fault;

/// Whether `spec` has a field of GEP-2649, and none of GEP-713.
pub(super) fn has_shape(spec: &Map<String, Value>) -> bool {
    let has = |key: &str| spec.get(key).is_some_and(|value| !value.is_null());
    (has("override") || has("default")) && !has("overrides") && !has("defaults")
}

/// Reads the rules of a policy from its `spec`: each field in `spec.override` and `spec.default` is a rule. If both set
/// the same field, only the override is a rule.
pub(super) fn read(spec: &Map<String, Value>) -> PolicyRules {
    match (part(spec, "override", "spec.override"), part(spec, "default", "spec.default")) {
        (Ok(mut overrides), Ok(defaults)) => {
            overrides.iter_mut().for_each(|rule| rule.is_override = true);
            let keys: Vec<&str> = overrides.iter().map(|rule| rule.key.as_str()).collect();
            let is_free = |rule: &PolicyRule| {
                keys.binary_search(&rule.key.as_str()).is_err()
                    && !fields::has_overlapping_path(&keys, &rule.key)
            };
            let defaults: Vec<PolicyRule> = defaults.into_iter().filter(is_free).collect();
            let mut rules = overrides;
            rules.extend(defaults);
            rules.sort_by(|left, right| left.key.cmp(&right.key));
            PolicyRules { strategy: Strategy::Inherited, rules, faults: Vec::new() }
        }
        (Err(wrong), _) | (_, Err(wrong)) => {
            PolicyRules { strategy: Strategy::Inherited, faults: vec![wrong], ..PolicyRules::default() }
        }
    }
}

/// The rules in the field `key`, in the order of their keys.
fn part(spec: &Map<String, Value>, key: &str, place: &'static str) -> Result<Vec<PolicyRule>, Fault> {
    let Some(value) = spec.get(key).filter(|value| !value.is_null()) else { return Ok(Vec::new()) };
    let value = value.as_object().ok_or_else(|| Fault::expected(place, "an object", value))?;
    let mut rules = fields::rules(&Block::of_part(place, value, Strategy::Inherited));
    rules.sort_by(|left, right| left.key.cmp(&right.key));
    Ok(rules)
}
