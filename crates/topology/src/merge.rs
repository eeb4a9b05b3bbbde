//! How policies of one kind along a path are merged into one effective policy.
//!
//! At first, the rules of the most specific policy apply. Then the policies are merged one by one, up to the least
//! specific one. A less specific policy is merged later, and its strategy decides which rules remain. So no override is
//! lost to a more specific policy.
//!
//! ```text
//! target     strategy        rules    rules that apply so far
//! HTTPRoute  any             a=1 b=1  a=1 b=1
//! Gateway    MergeOverrides  a=2      a=2 b=1
//! ```
//!
//! Of two policies with the same target, the older counts as less specific by default. So the newer of two defaults
//! applies, and the older of two overrides.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use policy_sync_api::json::Hash;

use crate::locator::{KindRef, Locator};
use crate::object::Policy;
use crate::rules::PolicyRule;
use crate::topology::PolicyId;

/// A rule of an effective policy, with the policy from which the rule comes.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'p> {
    /// The policy that contains the rule.
    pub policy: PolicyId,
    /// The rule.
    pub rule: &'p PolicyRule,
}

impl<'p> Entry<'p> {
    /// The rule's key.
    #[must_use]
    pub fn key(&self) -> &'p str {
        &self.rule.key
    }
}

/// A way to merge a policy with more specific policies.
///
/// A strategy selects rules and makes no new ones, so that each effective rule has one source.
pub trait MergeStrategy: fmt::Debug {
    /// Merges the rules `own` of the policy with this strategy and `more_specific`, the rules in force of all more
    /// specific policies. Returns the rules that apply.
    ///
    /// The method is called once for each policy of a kind on a path except the most specific policy, whose rules apply
    /// as they are. A policy with several targets on the path is merged at each of them.
    ///
    /// Both lists are in the order of their keys, and each key is in a list once. The result may have any order. Each
    /// key must be in the result at most once. This is not checked: of rules with the same key,
    /// [`EffectivePolicy::rule`] returns any.
    fn merge<'p>(&self, own: Vec<Entry<'p>>, more_specific: Vec<Entry<'p>>) -> Vec<Entry<'p>>;
}

/// The policy applies unless a more specific policy has rules
/// ([GEP-713](https://gateway-api.sigs.k8s.io/geps/gep-713/#merge-strategy-atomic-defaults)).
#[derive(Clone, Copy, Debug)]
pub struct AtomicDefaults;

/// The policy applies in place of all more specific policies
/// ([GEP-713](https://gateway-api.sigs.k8s.io/geps/gep-713/#merge-strategy-atomic-overrides)).
#[derive(Clone, Copy, Debug)]
pub struct AtomicOverrides;

/// Each rule of the policy applies unless a more specific policy has a rule with the same key
/// ([GEP-713](https://gateway-api.sigs.k8s.io/geps/gep-713/#merge-strategy-patch-defaults)).
#[derive(Clone, Copy, Debug)]
pub struct MergeDefaults;

/// Each rule of the policy replaces the rules with the same key in more specific policies
/// ([GEP-713](https://gateway-api.sigs.k8s.io/geps/gep-713/#merge-strategy-patch-overrides)).
#[derive(Clone, Copy, Debug)]
pub struct MergeOverrides;

impl MergeStrategy for AtomicDefaults {
    fn merge<'p>(&self, own: Vec<Entry<'p>>, more_specific: Vec<Entry<'p>>) -> Vec<Entry<'p>> {
        if more_specific.iter().any(|entry| entry.rule.is_rule) { more_specific } else { own }
    }
}

impl MergeStrategy for AtomicOverrides {
    fn merge<'p>(&self, own: Vec<Entry<'p>>, _: Vec<Entry<'p>>) -> Vec<Entry<'p>> {
        own
    }
}

impl MergeStrategy for MergeDefaults {
    fn merge<'p>(&self, own: Vec<Entry<'p>>, more_specific: Vec<Entry<'p>>) -> Vec<Entry<'p>> {
        union(more_specific, own, has_key)
    }
}

impl MergeStrategy for MergeOverrides {
    fn merge<'p>(&self, own: Vec<Entry<'p>>, more_specific: Vec<Entry<'p>>) -> Vec<Entry<'p>> {
        union(own, more_specific, has_key)
    }
}

/// The rules of `winner`, and the rules of `loser` that do not collide with rules of `winner`. `taken` returns whether
/// a key collides with one of the sorted keys of `winner`. Both lists and the result are in the order of their keys.
pub(crate) fn union<'p>(
    winner: Vec<Entry<'p>>,
    loser: Vec<Entry<'p>>,
    taken: impl Fn(&[&str], &str) -> bool,
) -> Vec<Entry<'p>> {
    let keys: Vec<&str> = winner.iter().map(Entry::key).collect();
    let others: Vec<Entry<'p>> = loser.into_iter().filter(|entry| !taken(&keys, entry.key())).collect();
    let mut union = winner;
    union.extend(others);
    union.sort_by(|left, right| left.key().cmp(right.key()));
    union
}

/// Whether `key` is one of `keys`, which are sorted.
pub(crate) fn has_key(keys: &[&str], key: &str) -> bool {
    keys.binary_search(&key).is_ok()
}

/// A policy on a path, with the strategy by which it is merged with more specific policies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layer<'p> {
    pub policy: PolicyId,
    pub locator: Locator<'p>,
    pub rules: &'p [PolicyRule],
    pub strategy: &'p dyn MergeStrategy,
}

impl<'p> Layer<'p> {
    pub(crate) fn of(id: PolicyId, policy: &'p impl Policy) -> Self {
        Self { policy: id, locator: policy.locator(), rules: policy.rules(), strategy: policy.strategy() }
    }

    /// The rules in the order of their keys. If several rules have the same key, only the first counts.
    fn entries(&self) -> Vec<Entry<'p>> {
        let mut entries: Vec<Entry<'p>> =
            self.rules.iter().map(|rule| Entry { policy: self.policy, rule }).collect();
        entries.sort_by(|left, right| left.key().cmp(right.key()));
        entries.dedup_by(|later, first| later.key() == first.key());
        entries
    }

    /// Whether no two rules have the same key.
    pub(crate) fn has_unique_keys(&self) -> bool {
        self.entries().len() == self.rules.len()
    }
}

/// The rules of `layers`, the least specific first, in the order of their keys.
pub(crate) fn fold<'p>(layers: &[Layer<'p>]) -> Vec<Entry<'p>> {
    let Some((last, others)) = layers.split_last() else { return Vec::new() };
    let mut folded = last.entries();
    for layer in others.iter().rev() {
        folded = layer.strategy.merge(layer.entries(), folded);
        folded.sort_by(|left, right| left.rule.key.cmp(&right.rule.key));
    }
    folded
}

/// The merge of all policies of one kind along a path.
#[derive(Clone, Debug)]
pub struct EffectivePolicy<'t> {
    /// The kind of the policies.
    pub kind: KindRef<'t>,
    /// A [hash](struct@Hash) of the kind, and of each rule with its source. Two effective policies have the same hash
    /// if the same rules of the same policies apply.
    pub id: Hash,
    /// The rules that apply, in the order of their keys.
    pub rules: Vec<Entry<'t>>,
    /// The policies of the rules in `rules`, in the order of their locators.
    pub sources: Vec<PolicyId>,
    /// The policies on the path without a rule in force, in the order of their locators. A policy with some rules in
    /// force is only in `sources`.
    pub lost: Vec<PolicyId>,
}

impl<'t> EffectivePolicy<'t> {
    /// The effective policy of `layers`, the least specific first.
    pub(crate) fn fold(kind: KindRef<'t>, layers: Vec<Layer<'t>>) -> Self {
        let rules = fold(&layers);
        let sources: BTreeSet<PolicyId> = rules.iter().map(|entry| entry.policy).collect();
        let lost: BTreeSet<PolicyId> =
            layers.iter().map(|layer| layer.policy).filter(|policy| !sources.contains(policy)).collect();
        let locators: HashMap<PolicyId, Locator<'_>> =
            layers.iter().map(|layer| (layer.policy, layer.locator)).collect();
        let mut parts = vec![kind.to_string()];
        for Entry { policy, rule } in &rules {
            parts.extend([rule.key.clone(), locators[policy].to_string(), rule.hash.to_string()]);
        }
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let id = Hash::of_parts(&parts);
        Self { kind, id, rules, sources: sources.into_iter().collect(), lost: lost.into_iter().collect() }
    }

    /// The rule with this key.
    #[must_use]
    pub fn rule(&self, key: &str) -> Option<&Entry<'t>> {
        self.rules.binary_search_by(|entry| entry.key().cmp(key)).ok().map(|index| &self.rules[index])
    }
}

#[cfg(test)]
mod tests;
