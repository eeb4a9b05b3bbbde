//! The rules of Kuadrant's RateLimitPolicy and TokenRateLimitPolicy: one for each limit, and one for the
//! conditions.

use super::PolicyRule;
use super::block::{Block, Expected};
use crate::fault::Fault;

pub(super) fn rules(block: &Block<'_>) -> Result<Vec<PolicyRule>, Fault> {
    let mut rules = block.entries("limits", Expected::Object)?;
    rules.extend(block.list("when", "conditions#")?);
    Ok(rules)
}
