//! Caches expensive results in the row of a policy. These are the targets and the selectors of overrides, if the texts
//! are large, and the hashes of copies that were [built ahead](super::ahead). The caches are dropped with the row.
//! Copies that are no longer current are removed from the caches.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::recipe::{BuiltCopy, Recipe};
use super::target::{Targets, targets};
use crate::Problem;
use crate::desired::copy::read_spec;
use crate::desired::overrides::OverrideSelectors;
use crate::rows::policy::Policy;
use policy_sync_api::annotations::CLUSTER_OVERRIDES;
use policy_sync_api::json::Hash;
use policy_sync_api::schema::Schema;

/// The results of parsing a text are cached if the text has at least this length in bytes.
const CACHE_MIN_BYTES: usize = 16 * 1024;

/// The results of parsing the spec and the overrides.
#[derive(Default)]
struct ParsedTexts {
    targets: OnceLock<Result<Arc<Targets>, Problem>>,
    override_selectors: OnceLock<Arc<OverrideSelectors>>,
}

#[derive(Default)]
struct BuiltCopies {
    /// The schema against which the copies were validated.
    schema: Option<Arc<Schema>>,
    built: BTreeMap<Hash, Result<BuiltCopy, Problem>>,
}

/// The parsed target references of `policy`, which is in `namespace`.
///
/// # Errors
///
/// [`Problem::BadSpec`] or [`Problem::BadReference`].
pub(super) fn targets_of(policy: &Policy, namespace: &str) -> Result<Arc<Targets>, Problem> {
    let read = || read_spec(&policy.spec).and_then(|spec| targets(&spec, namespace)).map(Arc::new);
    if policy.spec.len() < CACHE_MIN_BYTES {
        return read();
    }
    policy.text_cache.get::<ParsedTexts>().targets.get_or_init(read).clone()
}

/// The selectors of the overrides of `policy`. `read` computes them if they are not cached.
///
/// # Errors
///
/// The errors of `read`.
pub(super) fn override_selectors_of(
    policy: &Policy,
    read: impl FnOnce() -> Result<Arc<OverrideSelectors>, Problem>,
) -> Result<Arc<OverrideSelectors>, Problem> {
    if policy.annotations.get(CLUSTER_OVERRIDES).is_none_or(|text| text.len() < CACHE_MIN_BYTES) {
        return read();
    }
    let texts = policy.text_cache.get::<ParsedTexts>();
    if let Some(override_selectors) = texts.override_selectors.get() {
        return Ok(override_selectors.clone());
    }
    let override_selectors = read()?;
    // Parsed selectors need many times the memory of their texts. If the texts are long, the selectors are not kept.
    if override_selectors.selectors < CACHE_MIN_BYTES {
        return Ok(texts.override_selectors.get_or_init(|| override_selectors).clone());
    }
    Ok(override_selectors)
}

/// The properties of the copy that `recipe` builds; `None` if it has not been built.
pub(super) fn built(recipe: &Recipe) -> Option<Result<BuiltCopy, Problem>> {
    let remembered = recipe.common.policy.copy_cache.get::<Mutex<BuiltCopies>>();
    let copies = remembered.lock();
    if copies.built.is_empty() || !is_same(copies.schema.as_ref(), recipe) {
        return None;
    }
    copies.built.get(&recipe.key(&recipe.common_key())).cloned()
}

/// Caches the properties of the copy that `recipe` builds, and removes copies that are not in `current`.
pub(super) fn cache_copy(recipe: &Recipe, built: Result<BuiltCopy, Problem>, current: &BTreeSet<Hash>) {
    let remembered = recipe.common.policy.copy_cache.get::<Mutex<BuiltCopies>>();
    let mut copies = remembered.lock();
    if !is_same(copies.schema.as_ref(), recipe) {
        copies.built.clear();
        copies.schema.clone_from(&recipe.common.info.schema);
    }
    copies.built.retain(|key, _| current.contains(key));
    copies.built.insert(recipe.key(&recipe.common_key()), built);
}

fn is_same(schema: Option<&Arc<Schema>>, recipe: &Recipe) -> bool {
    match (schema, &recipe.common.info.schema) {
        (Some(left), Some(right)) => Arc::ptr_eq(left, right),
        (left, right) => left.is_none() && right.is_none(),
    }
}
