//! What is remembered of a policy because it takes long to find out again: its targets and who gets which overrides, where
//! these are large, and the hashes of copies that were [made ahead](super::ahead). It stands beside the policy's row and is
//! gone with it; of copies no more are remembered than there are at present.

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

/// From so many bytes on a spec is not read again only for its target references, nor overrides for who gets them.
const LARGE: usize = 16 * 1024;

/// What was found in the spec and in the overrides.
#[derive(Default)]
struct Texts {
    targets: OnceLock<Result<Arc<Targets>, Problem>>,
    choice: OnceLock<Arc<Choice>>,
}

#[derive(Default)]
struct Copies {
    /// What they were checked against.
    schema: Option<Arc<Schema>>,
    made: BTreeMap<Hash, Result<Made, Problem>>,
}

/// The target references of `policy`, which is in `namespace`.
///
/// # Errors
///
/// [`Problem::BadSpec`] and [`Problem::BadReference`].
pub(super) fn targets_of(policy: &Policy, namespace: &str) -> Result<Arc<Targets>, Problem> {
    let read = || read_spec(&policy.spec).and_then(|spec| targets(&spec, namespace)).map(Arc::new);
    if policy.spec.len() < LARGE {
        return read();
    }
    policy.of_texts.get::<Texts>().targets.get_or_init(read).clone()
}

/// Which clusters get which overrides of `policy`, which `read` finds out.
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
    // A selector that was read takes many times the bytes of its text.
    if choice.selectors < LARGE {
        return Ok(texts.choice.get_or_init(|| choice).clone());
    }
    Ok(choice)
}

/// What is known of the copy that `recipe` makes; `None` where it is to be made.
pub(super) fn made(recipe: &Recipe) -> Option<Result<Made, Problem>> {
    let remembered = recipe.common.policy.of_copies.get::<Mutex<Copies>>();
    let copies = remembered.lock();
    if copies.made.is_empty() || !is_same(copies.schema.as_ref(), recipe) {
        return None;
    }
    copies.made.get(&recipe.key(&recipe.common_key())).cloned()
}

/// Remembers what is known of the copy that `recipe` makes, and forgets those that are none of `current`.
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
