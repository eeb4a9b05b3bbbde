//! The fold of one stack.

use super::Entry;
use crate::graph::Graph;
use crate::rows::RouteKind;
use crate::rules::{PolicyRule, Strategy, has_place_of};

/// The rules that the policies `stack` come to, the least specific first, in the order of their keys.
pub(super) fn fold<'g>(graph: &'g Graph<'_>, stack: &[u32]) -> Vec<Entry<'g>> {
    let entries = |policy: u32| -> Vec<Entry<'g>> {
        let rules = &graph.policy(policy).rules.rules;
        rules.iter().map(|rule| Entry { policy, rule }).collect()
    };
    let Some((last, others)) = stack.split_last() else { return Vec::new() };
    let mut folded = entries(*last);
    if let Some(parent) = parent(graph, stack) {
        return merge(folded, entries(parent), true);
    }
    for policy in others.iter().rev() {
        let node = graph.policy(*policy);
        let places = node.manner.has_places();
        folded = match node.rules.strategy {
            // Of policies that are not merged the more specific holds.
            Strategy::None | Strategy::JsonMerge | Strategy::StrategicMerge => folded,
            Strategy::Inherited => {
                let (overrides, defaults) =
                    entries(*policy).into_iter().partition(|entry: &Entry<'_>| entry.rule.is_override);
                merge(merge(overrides, folded, places), defaults, places)
            }
            Strategy::AtomicDefaults if folded.iter().any(|entry| entry.rule.is_rule) => folded,
            Strategy::AtomicDefaults | Strategy::AtomicOverrides => entries(*policy),
            Strategy::MergedDefaults => merge(folded, entries(*policy), places),
            Strategy::MergedOverrides => merge(entries(*policy), folded, places),
        };
    }
    folded
}

/// The policy of Envoy Gateway that the most specific one of `stack` is merged with: the closest one on a Gateway, a ListenerSet or a
/// listener.
fn parent(graph: &Graph<'_>, stack: &[u32]) -> Option<u32> {
    let (last, others) = stack.split_last()?;
    if !matches!(graph.policy(*last).rules.strategy, Strategy::JsonMerge | Strategy::StrategicMerge) {
        return None;
    }
    let is_parent = |policy: &&u32| {
        let targets = graph.policy(**policy).targets.iter();
        let mut kinds = targets.filter(|target| target.node.is_ok()).map(|target| target.locator.kind);
        kinds.any(|kind| RouteKind::named(kind).is_none())
    };
    others.iter().rev().find(is_parent).copied()
}

/// Whether the merge of `stack` is assumed: its kind is unknown, or a strategic merge may combine lists of the policy and its parent.
pub(super) fn is_assumed(graph: &Graph<'_>, stack: &[u32]) -> bool {
    let Some(last) = stack.last().map(|number| graph.policy(*number)) else { return false };
    if last.manner.is_assumed() {
        return true;
    }
    let Some(parent) = parent(graph, stack).filter(|_| last.rules.strategy == Strategy::StrategicMerge)
    else {
        return false;
    };
    let lists = |rules: &[PolicyRule]| -> Vec<String> {
        rules.iter().filter(|rule| rule.value.is_array()).map(|rule| rule.key.clone()).collect()
    };
    let of_parent = lists(&graph.policy(parent).rules.rules);
    lists(&last.rules.rules).iter().any(|key| of_parent.binary_search(key).is_ok())
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
