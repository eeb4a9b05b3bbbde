//! Checks the hierarchy of RFC 0007 on a spoke. A policy of the spoke takes precedence over a copy of a hub's policy
//! with the same target. Controllers that ignore the annotation of copies, such as Kuadrant 1.5.2, decide by creation
//! time instead.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::fold::layers;
use crate::graph::Graph;
use crate::locator::Locator;
use crate::merge::fold;
use crate::object::Policy;
use crate::policies::{AttachedTarget, PolicyNode};
use crate::reason::Reason;
use crate::topology::PolicyId;
use policy_sync_api::generators::{GENERATORS, Generator};

/// The maximum number of copies, and of other policies, that are compared for one kind and one target. Tenants can
/// create any number of policies.
const COMPARED: usize = 16;

/// A copy that takes precedence over a policy of the spoke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NotHonored<'f> {
    /// The copy that takes precedence.
    pub copy: Locator<'f>,
    /// The hub policy that was copied, `<namespace>/<name>`.
    pub origin: Arc<str>,
    /// The policy of the spoke that does not take precedence.
    pub policy: Locator<'f>,
    /// The target of both policies.
    pub target: Locator<'f>,
}

/// The policies of one kind with one target.
struct TargetPolicies<'f> {
    target: Locator<'f>,
    copies: Vec<PolicyId>,
    others: Vec<PolicyId>,
}

/// The copies of a hub's policies in `graph` that take precedence over a policy of the cluster with the same target.
#[must_use]
pub(crate) fn not_honored<'f>(graph: &Graph<'f>) -> Vec<NotHonored<'f>> {
    let mut found = Vec::new();
    for on in on_targets(graph).into_values() {
        for copy in on.copies.iter().take(COMPARED) {
            let wins = |other: &&PolicyId| takes_precedence(graph, *copy, **other);
            let Some(other) = on.others.iter().take(COMPARED).find(wins) else { continue };
            let (copy, other) = (graph.policy(*copy), graph.policy(*other));
            let Some(origin) = copy.row.origin.clone() else { continue };
            found.push(NotHonored { copy: copy.locator, origin, policy: other.locator, target: on.target });
        }
    }
    found
}

/// The policies of `graph` by kind and target. Targets without a copy, or with copies only, are left out.
fn on_targets<'f>(graph: &Graph<'f>) -> BTreeMap<(String, String), TargetPolicies<'f>> {
    let mut all: BTreeMap<(String, String), TargetPolicies<'f>> = BTreeMap::new();
    let generated = generated(graph);
    for (id, policy) in graph.topology().policies() {
        let Locator { kind, namespace, name, .. } = policy.locator;
        let is_copy = policy.row.origin.is_some();
        if !is_copy && generated.contains(&(kind.group, kind.kind, namespace, name)) {
            continue;
        }
        // A copy that is not in force on the target does not take precedence there.
        let counts = |target: &&AttachedTarget<'_>| target.node.is_ok() || !is_copy && exists(policy, target);
        for target in policy.targets.iter().filter(counts) {
            let key = (policy.locator.kind.to_string(), target.locator.to_string());
            let new = || TargetPolicies { target: target.locator, copies: Vec::new(), others: Vec::new() };
            let on = all.entry(key).or_insert_with(new);
            if is_copy {
                on.copies.push(id);
            } else {
                on.others.push(id);
            }
        }
    }
    all.retain(|_, on| !on.copies.is_empty() && !on.others.is_empty());
    all
}

/// Whether `target` of `policy` exists, even if another policy is in force on this target. In that case, a controller
/// may report `policy` as `Accepted=False` with the reason `Conflicted`.
fn exists(policy: &PolicyNode<'_>, target: &AttachedTarget<'_>) -> bool {
    let is_conflicted = || policy.row.rejected.as_deref().is_some_and(|why| why.starts_with("Conflicted"));
    match &target.node {
        Ok(_) => true,
        Err((Reason::Conflicted, _)) => !policy.row.deleting,
        Err((Reason::NotAccepted, _)) => is_conflicted(),
        Err(_) => false,
    }
}

/// The policies that controllers of the cluster generate from the copies in `graph`: group, kind, namespace and name.
fn generated<'f>(graph: &Graph<'f>) -> BTreeSet<(&'static str, &'static str, &'f str, &'f str)> {
    let copies = graph.policies().iter().filter(|policy| policy.row.origin.is_some());
    let generated = |policy: &PolicyNode<'f>| {
        let Locator { kind, namespace, name, .. } = policy.locator;
        let is_of = |generator: &&Generator| {
            (kind.group, kind.kind) == (generator.source.group, generator.source.kind)
        };
        let generated = GENERATORS.iter().find(is_of)?.generated;
        Some((generated.group, generated.kind, namespace, name))
    };
    copies.filter_map(generated).collect()
}

/// Whether `copy` would replace a rule of the policy `other` if there were no further policies.
fn takes_precedence(graph: &Graph<'_>, copy: PolicyId, other: PolicyId) -> bool {
    let [first, second] = [copy, other].map(|id| graph.policy(id));
    let is_void = |policy: &PolicyNode<'_>| policy.has_effect() == Some(false);
    match (is_void(first), is_void(second)) {
        (true, _) => return false,
        (false, true) => return first.merge_behavior.is_exclusive(),
        (false, false) => {}
    }
    let mut stack = [copy, other];
    stack.sort_by_cached_key(|id| graph.policy(*id).precedence());
    let folded = fold(&layers(graph, &stack));
    let in_force = folded.iter().filter(|entry| entry.policy == other).count();
    folded.iter().any(|entry| entry.policy == copy) && in_force < second.rules.rules.len()
}
