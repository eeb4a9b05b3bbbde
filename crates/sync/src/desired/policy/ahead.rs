//! Copies that are made ahead of a plan, because making them takes long.
//!
//! A plan looks at the mirror, and nothing changes there while it does. So what takes longer than a moment is made before,
//! without that look: the plan that follows finds the hashes of the copies [remembered].

use std::collections::BTreeSet;
use std::sync::Arc;

use super::recipe::{Common, Made, Recipe};
use super::{Planner, remembered};
use crate::desired::copy::read_spec;
use crate::rows::policy::Policy;
use crate::{Problem, Settings, View};
use policy_sync_api::annotations::{CLUSTER_OVERRIDES, REPLICA_PREFERENCES};
use policy_sync_api::json::Hash;
use policy_sync_api::names::Origin;

/// How many bytes of copies a plan may make while it looks at the hub: what a few milliseconds are enough for.
pub(in crate::desired) const AT_ONCE: usize = 256 * 1024;

/// The copies of one policy that are to be made.
#[derive(Debug)]
pub(in crate::desired) struct Copies {
    recipes: Vec<Recipe>,
    /// What is remembered of the policy's copies at most.
    current: BTreeSet<Hash>,
    /// How many bytes they have at most.
    pub(in crate::desired) bytes: usize,
}

/// How many bytes the copies of `policy` have at most on so many clusters, as far as that is seen at a glance.
pub(in crate::desired) fn glance(policy: &Policy, clusters: usize) -> usize {
    let overrides = policy.annotations.get(CLUSTER_OVERRIDES);
    let others = policy.others.as_ref().map_or(0, |others| others.len());
    let one = policy.spec.len() + others + overrides.map_or(0, String::len);
    // Only these make copies differ.
    let split = policy.annotations.contains_key(REPLICA_PREFERENCES);
    let differ = overrides.is_some() || split || policy.spec.contains("targetRefs");
    one.saturating_mul(if differ { clusters.max(1) } else { 1 })
}

/// The copies of the policy `origin` that are not remembered, where it can be planned.
pub(in crate::desired) fn unmade(view: View<'_>, settings: &Settings, origin: &Origin) -> Option<Copies> {
    let (planner, problem) = Planner::read(view, settings, origin).ok()?;
    let outline = planner.outline(problem);
    if outline.frozen {
        return None;
    }
    let variants: BTreeSet<_> = outline.clusters.values().collect();
    let common = planner.common(&outline).ok()?;
    let variants = variants.into_iter().filter(|variant| outline.unknown(variant).is_none());
    let mut copies = Copies { recipes: Vec::new(), current: BTreeSet::new(), bytes: 0 };
    let mut key = None;
    for variant in variants {
        let recipe = planner.recipe(&common, &outline, variant);
        let key = key.get_or_insert_with(|| recipe.common_key());
        copies.current.insert(recipe.key(key));
        if remembered::made(&recipe).is_none() {
            copies.bytes += planner.bytes(&outline, variant);
            copies.recipes.push(recipe);
        }
    }
    Some(copies)
}

impl Copies {
    /// Makes one after the other, and remembers what is known of each.
    pub(in crate::desired) fn make(self) {
        let Some(Common { policy, .. }) = self.recipes.first().map(|recipe| &*recipe.common) else { return };
        let policy: &Arc<Policy> = policy;
        // What cannot be read is found by the plan.
        let read = || -> Result<_, Problem> { Ok((read_spec(&policy.spec)?, Common::overrides(policy)?)) };
        let Ok((spec, overrides)) = read() else { return };
        for recipe in &self.recipes {
            let made = recipe.make(&spec, &overrides).map(|work| Made::new(&work));
            remembered::remember(recipe, made, &self.current);
        }
    }
}
