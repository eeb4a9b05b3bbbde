//! The rules of Kuadrant's AuthPolicy: one for each entry of its scheme, one for each named pattern (`patterns`), and
//! one for the conditions.

use serde_json::{Map, Value};

use super::PolicyRule;
use super::block::{Block, Expected, entries, object};
use crate::fault::Fault;

pub(super) fn rules(block: &Block<'_>) -> Result<Vec<PolicyRule>, Fault> {
    let mut rules = block.entries("patterns", Expected::ObjectOrList)?;
    for pattern in &mut rules {
        // A named pattern has no effect without rules that refer to it.
        pattern.is_rule = false;
    }
    rules.extend(block.list("when", "conditions#")?);
    let Some((place, scheme)) = block.field("rules") else { return Ok(rules) };
    let scheme = object(&place, scheme)?;
    for key in ["authentication", "metadata", "authorization", "callbacks"] {
        if let Some(value) = field(scheme, key) {
            rules.extend(entries(&format!("{place}.{key}"), value, key, Expected::Object)?);
        }
    }
    if let Some(response) = field(scheme, "response") {
        rules.extend(of_response(&format!("{place}.response"), response)?);
    }
    Ok(rules)
}

fn of_response(place: &str, response: &Value) -> Result<Vec<PolicyRule>, Fault> {
    let response = object(place, response)?;
    let mut rules = Vec::new();
    for key in ["unauthenticated", "unauthorized"] {
        if let Some(value) = field(response, key) {
            object(&format!("{place}.{key}"), value)?;
            rules.push(PolicyRule::new(format!("response.{key}#"), value));
        }
    }
    let Some(success) = field(response, "success") else { return Ok(rules) };
    let place = format!("{place}.success");
    let success = object(&place, success)?;
    // Filters write the metadata of a request, so the keys of their rules have `metadata` instead of `filters`.
    for (key, name) in [("headers", "headers"), ("filters", "metadata")] {
        if let Some(value) = field(success, key) {
            let rule = format!("response.success.{name}");
            rules.extend(entries(&format!("{place}.{key}"), value, &rule, Expected::Object)?);
        }
    }
    Ok(rules)
}

fn field<'v>(fields: &'v Map<String, Value>, key: &str) -> Option<&'v Value> {
    fields.get(key).filter(|value| !value.is_null())
}
