//! The merge of policies whose kinds are configured in parameters.

use serde_json::Value;

use super::PolicyRule;
use super::block::{Block, object};
use crate::fault::Fault;
use policy_sync_api::json::step::Step;
use policy_sync_api::params::{Level, Merge};

/// The configuration of a kind in parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeConfig {
    /// The most specific level that policies of the kind may target.
    pub level: Level,
    /// The fields with rules: the key and the path of each. If empty, each field is a rule.
    pub rules: Vec<(String, Vec<String>)>,
}

impl From<&Merge> for MergeConfig {
    fn from(merge: &Merge) -> Self {
        Self { level: merge.level, rules: merge.rule_paths() }
    }
}

impl MergeConfig {
    pub(super) fn rules(&self, block: &Block<'_>) -> Result<Vec<PolicyRule>, Fault> {
        let mut rules = Vec::new();
        for (key, path) in &self.rules {
            match find(block, path)? {
                Some(Value::Object(entries)) => {
                    rules.extend(
                        entries.iter().map(|(name, value)| PolicyRule::new(format!("{key}#{name}"), value)),
                    );
                }
                Some(value) => rules.push(PolicyRule::new(format!("{key}#"), value)),
                None => {}
            }
        }
        Ok(rules)
    }
}

/// The value at `path`; `None` if there is none.
fn find<'s>(block: &Block<'s>, path: &[String]) -> Result<Option<&'s Value>, Fault> {
    let Some((first, others)) = path.split_first() else { return Ok(None) };
    let Some((mut place, mut value)) = block.field(first) else { return Ok(None) };
    for name in others {
        match object(&place, value)?.get(name) {
            None | Some(Value::Null) => return Ok(None),
            Some(found) => value = found,
        }
        place = format!("{place}{}", Step::key(name));
    }
    Ok(Some(value))
}
