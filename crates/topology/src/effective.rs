//! The effective policies of the paths of a graph. Many paths have the same policies, which are merged once.

mod fold;
mod hierarchy;

use std::collections::{BTreeMap, HashMap};

use super::graph::Graph;
use super::locator::KindRef;
use super::merge::{EffectivePolicy, Entry, fold};
use super::policies::PolicyNode;
use super::rows::RouteKind;
use super::topology::PolicyId;
use fold::{is_assumed, layers};
pub(super) use hierarchy::{NotHonored, not_honored};
use policy_sync_api::json::Hash;

/// The id of an effective policy in an [`EffectiveCache`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EffectiveId(u32);

/// The effective policy of a *stack*: the policies of one kind along a path. The rules are not stored, because many
/// stacks may have many rules. They are [merged again](EffectiveCache::rules) on demand.
#[derive(Debug)]
pub struct Effective<'f> {
    /// The kind of the policies in the stack.
    pub kind: KindRef<'f>,
    /// A hash. Two effective policies have the same hash if equal rules come from the same policies.
    pub id: Hash,
    /// The policies of the stack without a rule in force, in the order of their locators.
    pub lost: Box<[PolicyId]>,
    /// The policies of the stack with a rule in force, in the order of their locators.
    pub sources: Box<[PolicyId]>,
    stack: Box<[PolicyId]>,
    /// Whether the merge is assumed: the kind's merge strategy is not known for certain.
    pub assumed: bool,
    /// The number of paths on which the effective policy is in force.
    pub paths: u64,
}

/// The effective policies of all stacks merged so far, each stored once.
#[derive(Debug)]
pub struct EffectiveCache<'g, 'f> {
    graph: &'g Graph<'f>,
    cached: HashMap<Box<[PolicyId]>, EffectiveId>,
    effective: Vec<Effective<'f>>,
}

impl<'g, 'f> EffectiveCache<'g, 'f> {
    /// Creates a cache without effective policies.
    #[must_use]
    pub fn new(graph: &'g Graph<'f>) -> Self {
        Self { graph, cached: HashMap::new(), effective: Vec::new() }
    }

    /// The effective policy with this id.
    #[must_use]
    pub fn get(&self, id: EffectiveId) -> &Effective<'f> {
        &self.effective[id.0 as usize]
    }

    /// All effective policies in the cache.
    pub fn all(&self) -> impl Iterator<Item = (EffectiveId, &Effective<'f>)> {
        let ids = (0..).map(EffectiveId);
        ids.zip(&self.effective)
    }

    /// The rules in force, in the order of their keys.
    #[must_use]
    pub fn rules(&self, id: EffectiveId) -> Vec<Entry<'g>> {
        fold(&layers(self.graph, &self.get(id).stack))
    }

    /// The policies that were merged into the effective policy `id`, the least specific first.
    #[must_use]
    pub fn stack(&self, id: EffectiveId) -> &[PolicyId] {
        &self.get(id).stack
    }

    /// The policy with this id.
    #[must_use]
    pub fn policy(&self, number: PolicyId) -> &'g PolicyNode<'f> {
        self.graph.policy(number)
    }

    pub(super) fn count(&mut self, id: EffectiveId, paths: u64) {
        self.effective[id.0 as usize].paths += paths;
    }

    /// The number of paths on which each rule of each policy is in force, by the policy's id and the rule's
    /// key.
    #[must_use]
    pub fn shared(&self) -> HashMap<(PolicyId, &'g str), u64> {
        let mut shared = HashMap::new();
        for (id, effective) in self.all() {
            for Entry { policy, rule } in self.rules(id) {
                *shared.entry((policy, rule.key.as_str())).or_default() += effective.paths;
            }
        }
        shared
    }

    /// The effective policies for `stack`, the policies along a path to a route of the kind `route`, in the
    /// order of their kinds.
    pub(super) fn along(&mut self, stack: &[PolicyId], route: Option<RouteKind>) -> Vec<EffectiveId> {
        let mut kinds: BTreeMap<KindRef<'f>, Vec<PolicyId>> = BTreeMap::new();
        for number in stack {
            let policy = self.graph.policy(*number);
            if route.is_none_or(|route| policy.merge_behavior.is_for(route)) {
                kinds.entry(policy.locator.kind).or_default().push(*number);
            }
        }
        kinds.into_values().map(|stack| self.fold(stack)).collect()
    }

    fn fold(&mut self, stack: Vec<PolicyId>) -> EffectiveId {
        let stack: Box<[PolicyId]> = stack.into();
        if let Some(cached) = self.cached.get(&stack) {
            return *cached;
        }
        let id = EffectiveId(u32::try_from(self.effective.len()).unwrap_or(u32::MAX));
        let kind = self.graph.policy(stack[0]).locator.kind;
        let EffectivePolicy { id: hash, lost, sources, .. } =
            EffectivePolicy::fold(kind, layers(self.graph, &stack));
        self.effective.push(Effective {
            kind,
            id: hash,
            lost: lost.into(),
            sources: sources.into(),
            stack: stack.clone(),
            assumed: is_assumed(self.graph, &stack),
            paths: 0,
        });
        self.cached.insert(stack, id);
        id
    }
}
