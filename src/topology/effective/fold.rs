//! The fold of one stack.

use super::Entry;
use crate::topology::graph::Graph;
use crate::topology::rules::{Strategy, has_place_of};

/// The rules that the policies `stack` come to, the least specific first, in the order of their keys.
pub(super) fn fold<'g>(graph: &'g Graph<'_>, stack: &[u32]) -> Vec<Entry<'g>> {
    let entries = |policy: u32| -> Vec<Entry<'g>> {
        let rules = &graph.policy(policy).rules.rules;
        rules.iter().map(|rule| Entry { policy, rule }).collect()
    };
    let Some((last, others)) = stack.split_last() else { return Vec::new() };
    let mut folded = entries(*last);
    for policy in others.iter().rev() {
        let node = graph.policy(*policy);
        let places = node.manner.has_places();
        folded = match node.rules.strategy {
            // Of policies that are not merged the more specific holds.
            Strategy::None => folded,
            Strategy::AtomicDefaults if folded.iter().any(|entry| entry.rule.is_rule) => folded,
            Strategy::AtomicDefaults | Strategy::AtomicOverrides => entries(*policy),
            Strategy::MergedDefaults => merge(folded, entries(*policy), places),
            Strategy::MergedOverrides => merge(entries(*policy), folded, places),
        };
    }
    folded
}

/// All rules of `winner`, and those of `loser` that they leave room for. Both are in the order of their keys, and so is what comes
/// of them.
fn merge<'g>(winner: Vec<Entry<'g>>, loser: Vec<Entry<'g>>, places: bool) -> Vec<Entry<'g>> {
    let keys: Vec<&str> = winner.iter().map(|entry| entry.rule.key.as_str()).collect();
    let room: Vec<Entry<'g>> =
        loser.into_iter().filter(|entry| !is_taken(&keys, &entry.rule.key, places)).collect();
    let mut merged = winner;
    merged.extend(room);
    merged.sort_by(|left, right| left.rule.key.cmp(&right.rule.key));
    merged
}

/// Whether one of `keys`, which are sorted, takes the place of `key`.
fn is_taken(keys: &[&str], key: &str, places: bool) -> bool {
    keys.binary_search(&key).is_ok() || (places && has_place_of(keys, key))
}
