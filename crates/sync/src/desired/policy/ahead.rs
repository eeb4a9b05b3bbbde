//! Builds the copies of a policy before its plan is made, if building takes long.
//!
//! The mirror is locked during a plan. Slow work is therefore done earlier, without the lock. The following plan reads
//! the hashes of the copies from a [cache](remembered).

use std::collections::BTreeSet;
use std::sync::Arc;

use super::recipe::{BuiltCopy, CommonInputs, Recipe};
use super::{Planner, remembered};
use crate::desired::copy::read_spec;
use crate::rows::policy::Policy;
use crate::{Problem, Settings, View};
use policy_sync_api::annotations::{CLUSTER_OVERRIDES, REPLICA_PREFERENCES};
use policy_sync_api::json::Hash;
use policy_sync_api::names::Origin;

/// The total size of copies, in bytes, that a plan may build under the lock: a few milliseconds' work.
pub(in crate::desired) const LOCKED_BUILD_LIMIT: usize = 256 * 1024;

/// The copies of one policy that need to be built.
#[derive(Debug)]
pub(in crate::desired) struct PolicyCopies {
    recipes: Vec<Recipe>,
    /// The keys of all current copies. Other cached copies are removed.
    current: BTreeSet<Hash>,
    /// An upper bound of the total size of the copies to build, in bytes.
    pub(in crate::desired) bytes: usize,
}

/// A quickly computed upper bound of the total size of the copies of `policy`, in bytes. `clusters` is the number of
/// its clusters.
pub(in crate::desired) fn estimate_bytes(policy: &Policy, clusters: usize) -> usize {
    let overrides = policy.annotations.get(CLUSTER_OVERRIDES);
    let others = policy.others.as_ref().map_or(0, |others| others.len());
    let one = policy.spec.len() + others + overrides.map_or(0, String::len);
    // Only overrides, replica preferences and several targets make copies differ.
    let split = policy.annotations.contains_key(REPLICA_PREFERENCES);
    let differ = overrides.is_some() || split || policy.spec.contains("targetRefs");
    one.saturating_mul(if differ { clusters.max(1) } else { 1 })
}

/// The copies of the policy `origin` that are not cached; `None` if the policy cannot be planned.
pub(in crate::desired) fn unbuilt_copies(
    view: View<'_>,
    settings: &Settings,
    origin: &Origin,
) -> Option<PolicyCopies> {
    let (planner, problem) = Planner::read(view, settings, origin).ok()?;
    let outline = planner.outline(problem);
    if outline.frozen {
        return None;
    }
    let variants: BTreeSet<_> = outline.clusters.values().collect();
    let common = planner.common(&outline).ok()?;
    let variants = variants.into_iter().filter(|variant| outline.unknown(variant).is_none());
    let mut copies = PolicyCopies { recipes: Vec::new(), current: BTreeSet::new(), bytes: 0 };
    let mut key = None;
    for variant in variants {
        let recipe = planner.recipe(&common, &outline, variant);
        let key = key.get_or_insert_with(|| recipe.common_key());
        copies.current.insert(recipe.key(key));
        if remembered::built(&recipe).is_none() {
            copies.bytes += planner.bytes(&outline, variant);
            copies.recipes.push(recipe);
        }
    }
    Some(copies)
}

impl PolicyCopies {
    /// Builds the copies one at a time, and caches the hashes of each.
    pub(in crate::desired) fn build(self) {
        let Some(CommonInputs { policy, .. }) = self.recipes.first().map(|recipe| &*recipe.common) else {
            return;
        };
        let policy: &Arc<Policy> = policy;
        // The plan reports a spec or overrides that are invalid.
        let read =
            || -> Result<_, Problem> { Ok((read_spec(&policy.spec)?, CommonInputs::overrides(policy)?)) };
        let Ok((spec, overrides)) = read() else { return };
        for recipe in &self.recipes {
            let built = recipe.build(&spec, &overrides).map(|work| BuiltCopy::new(&work));
            remembered::cache_copy(recipe, built, &self.current);
        }
    }
}
