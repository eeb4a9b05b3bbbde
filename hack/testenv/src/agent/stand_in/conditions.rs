//! Condition rules: conditions computed from an object with CEL, as in OCM's agent.
//!
//! If an expression fails, the condition is `False` with a separate reason. If a message expression fails, the
//! condition keeps its status, and its message is the error. Each computed condition carries the generation of
//! the work. A condition of another generation belongs to a deleted rule, and is removed.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use policy_sync_api::work::{ConditionRule, ConditionRuleType, ManifestStatus};
use policy_sync_cel as cel;
use serde_json::Value;

/// Prefix of the reasons of computed conditions.
const REASONS: &str = "ConditionRule";
const EVALUATED: &str = "ConditionRuleEvaluated";
const EXPRESSION_ERROR: &str = "ConditionRuleExpressionError";
const AGGREGATED: &str = "ConditionRulesAggregated";

/// A condition without transition time; [`set`](super::status::set) adds it.
pub(super) fn condition(
    kind: &str,
    status: &str,
    reason: &str,
    message: String,
    generation: Option<i64>,
) -> Condition {
    Condition {
        type_: kind.into(),
        status: status.into(),
        reason: reason.into(),
        message,
        observed_generation: generation,
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
    }
}

/// Evaluates the CEL rules for `object`. `generation` is the generation of the work.
pub(super) fn computed(rules: &[ConditionRule], object: &Value, generation: i64) -> Vec<Condition> {
    // This agent has no well-known conditions.
    let rules = rules.iter().filter(|rule| rule.rule == ConditionRuleType::CEL);
    rules.map(|rule| compute(rule, object, generation)).collect()
}

fn compute(rule: &ConditionRule, object: &Value, generation: i64) -> Condition {
    let (status, reason, message) = match holds(&rule.cel_expressions, object) {
        Err(error) => ("False", EXPRESSION_ERROR, error),
        Ok(holds) => (if holds { "True" } else { "False" }, EVALUATED, message(rule, object, holds)),
    };
    condition(&rule.condition, status, reason, message, Some(generation))
}

fn holds(expressions: &[String], object: &Value) -> Result<bool, String> {
    for expression in expressions {
        if !cel::boolean(expression, object)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn message(rule: &ConditionRule, object: &Value, holds: bool) -> String {
    let made = rule.message_expression.as_ref().map(|expression| cel::text(expression, object, holds));
    match made {
        Some(Err(error)) => error,
        Some(Ok(text)) if !text.is_empty() => text,
        _ => format!("Manifest is {}{}", if holds { "" } else { "not " }, rule.condition),
    }
}

/// Removes computed conditions of other generations of the work.
pub(super) fn prune(conditions: &mut Vec<Condition>, generation: i64) {
    conditions
        .retain(|known| !known.reason.starts_with(REASONS) || known.observed_generation == Some(generation));
}

/// Combines the computed conditions of all manifests by type: `False` takes precedence over `Unknown` and `True`.
pub(super) fn aggregated(manifests: &[ManifestStatus], generation: i64) -> Vec<Condition> {
    let mut by_type: BTreeMap<&str, Vec<&Condition>> = BTreeMap::new();
    let all = manifests.iter().flat_map(|manifest| &manifest.conditions);
    for computed in all.filter(|computed| computed.reason.starts_with(REASONS)) {
        by_type.entry(&computed.type_).or_default().push(computed);
    }
    let aggregate = |(name, found): (&str, Vec<&Condition>)| {
        let has = |status: &str| found.iter().any(|computed| computed.status == status);
        let status = ["False", "Unknown"].into_iter().find(|status| has(status)).unwrap_or("True");
        let message = match found.as_slice() {
            [one] if !one.message.is_empty() => one.message.clone(),
            several => format!("Aggregated from {} manifest conditions", several.len()),
        };
        condition(name, status, AGGREGATED, message, Some(generation))
    };
    by_type.into_iter().map(aggregate).collect()
}

#[cfg(test)]
mod tests;
