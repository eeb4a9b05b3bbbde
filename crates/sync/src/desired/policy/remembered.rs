//! Caches results that are expensive to compute beside a policy's row. These are targets and the choice of
//! overrides if the texts are large, and the hashes of copies that were [built ahead](super::ahead). The caches are
//! dropped with the row, and hold no copies that are not current.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::recipe::{Made, Recipe};
use super::target::{Targets, targets};
use crate::Problem;
use crate::desired::copy::read_spec;
use crate::desired::overrides::Choice;
use crate::rows::policy::Policy;
use policy_sync_api::annotations::CLUSTER_OVERRIDES;
use policy_sync_api::json::Hash;
use policy_sync_api::schema::Schema;

/// The length of a text in bytes from which its results are cached.
const LARGE: usize = 16 * 1024;

/// Results from the spec and the overrides.
#[derive(Default)]
struct Texts {
    targets: OnceLock<Result<Arc<Targets>, Problem>>,
    choice: OnceLock<Arc<Choice>>,
}

#[derive(Default)]
struct Copies {
    /// The schema against which the copies were validated.
    schema: Option<Arc<Schema>>,
    made: BTreeMap<Hash, Result<Made, Problem>>,
}

/// The parsed target references of `policy`, which is in `namespace`.
///
/// # Errors
///
/// [`Problem::BadSpec`] or [`Problem::BadReference`].
pub(super) fn targets_of(policy: &Policy, namespace: &str) -> Result<Arc<Targets>, Problem> {
    let read = || read_spec(&policy.spec).and_then(|spec| targets(&spec, namespace)).map(Arc::new);
    if policy.spec.len() < LARGE {
        return read();
    }
    policy.of_texts.get::<Texts>().targets.get_or_init(read).clone()
}

/// The choice of overrides by cluster for `policy`, which `read` computes if it is not cached.
///
/// # Errors
///
/// Those of `read`.
pub(super) fn choice_of(
    policy: &Policy,
    read: impl FnOnce() -> Result<Arc<Choice>, Problem>,
) -> Result<Arc<Choice>, Problem> {
    if policy.annotations.get(CLUSTER_OVERRIDES).is_none_or(|text| text.len() < LARGE) {
        return read();
    }
    let texts = policy.of_texts.get::<Texts>();
    if let Some(choice) = texts.choice.get() {
        return Ok(choice.clone());
    }
    let choice = read()?;
    // Parsed selectors need many times the memory of their text, so large ones are not kept.
    if choice.selectors < LARGE {
        return Ok(texts.choice.get_or_init(|| choice).clone());
    }
    Ok(choice)
}

/// The properties of the copy that `recipe` builds; `None` if it has not been built.
pub(super) fn made(recipe: &Recipe) -> Option<Result<Made, Problem>> {
    let remembered = recipe.common.policy.of_copies.get::<Mutex<Copies>>();
    let copies = remembered.lock();
    if copies.made.is_empty() || !is_same(copies.schema.as_ref(), recipe) {
        return None;
    }
    copies.made.get(&recipe.key(&recipe.common_key())).cloned()
}

/// Caches the properties of the copy that `recipe` builds, and removes copies that are not in `current`.
pub(super) fn remember(recipe: &Recipe, made: Result<Made, Problem>, current: &BTreeSet<Hash>) {
    let remembered = recipe.common.policy.of_copies.get::<Mutex<Copies>>();
    let mut copies = remembered.lock();
    if !is_same(copies.schema.as_ref(), recipe) {
        copies.made.clear();
        copies.schema.clone_from(&recipe.common.info.schema);
    }
    copies.made.retain(|key, _| current.contains(key));
    copies.made.insert(recipe.key(&recipe.common_key()), made);
}

fn is_same(schema: Option<&Arc<Schema>>, recipe: &Recipe) -> bool {
    match (schema, &recipe.common.info.schema) {
        (Some(left), Some(right)) => Arc::ptr_eq(left, right),
        (left, right) => left.is_none() && right.is_none(),
    }
}
