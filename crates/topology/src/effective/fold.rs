//! The merge layers of one stack of policies, and whether their merge is assumed.

use crate::graph::Graph;
use crate::merge::Layer;
use crate::rows::RouteKind;
use crate::rules::strategy::{MergeByPath, MostSpecific};
use crate::rules::{PolicyRule, Strategy};
use crate::topology::PolicyId;

/// The policies of `stack` with their merge strategies, the least specific first.
pub(super) fn layers<'g>(graph: &'g Graph<'_>, stack: &[PolicyId]) -> Vec<Layer<'g>> {
    let layer = |id: &PolicyId| Layer::of(*id, graph.policy(*id));
    let Some(parent) = parent(graph, stack) else { return stack.iter().map(layer).collect() };
    let merged = |id: &PolicyId| match *id == parent {
        true => Layer { strategy: &MergeByPath::Defaults, ..layer(id) },
        false => Layer { strategy: &MostSpecific, ..layer(id) },
    };
    stack.iter().map(merged).collect()
}

/// For policies of Envoy Gateway: the *parent policy*, with which the most specific policy of `stack` is merged. It is
/// the closest policy on a Gateway, a ListenerSet or a listener.
fn parent(graph: &Graph<'_>, stack: &[PolicyId]) -> Option<PolicyId> {
    let (last, others) = stack.split_last()?;
    if !matches!(graph.policy(*last).rules.strategy, Strategy::JsonMerge | Strategy::StrategicMerge) {
        return None;
    }
    let is_parent = |policy: &&PolicyId| {
        let targets = graph.policy(**policy).targets.iter();
        let mut kinds = targets.filter(|target| target.node.is_ok()).map(|target| target.locator.kind);
        kinds.any(|kind| RouteKind::named(kind).is_none())
    };
    others.iter().rev().find(is_parent).copied()
}

/// Whether the merge of `stack` is assumed: the merge strategy of the kind is unknown, or a strategic merge may combine
/// lists of the most specific policy and its parent policy.
pub(super) fn is_assumed(graph: &Graph<'_>, stack: &[PolicyId]) -> bool {
    let Some(last) = stack.last().map(|id| graph.policy(*id)) else { return false };
    if last.merge_behavior.is_assumed() {
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
