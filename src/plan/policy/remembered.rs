//! What is remembered of a policy because it takes long to find out again: its targets, where it is large, and the hashes
//! of copies that were [made ahead](super::ahead). It stands beside the policy's row and is gone with it; of copies no
//! more are remembered than there are at present.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::recipe::{Made, Recipe};
use super::target::{Targets, targets};
use crate::api::json::Hash;
use crate::api::schema::Schema;
use crate::mirror::rows::policy::Policy;
use crate::plan::Problem;
use crate::plan::copy::read_spec;

/// From so many bytes on a spec is not read again only for its target references.
const LARGE: usize = 16 * 1024;

#[derive(Default)]
struct Remembered {
    targets: OnceLock<Result<Arc<Targets>, Problem>>,
    copies: Mutex<Copies>,
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
    policy.aside.get::<Remembered>().targets.get_or_init(read).clone()
}

/// What is known of the copy that `recipe` makes; `None` where it is to be made.
pub(super) fn made(recipe: &Recipe) -> Option<Result<Made, Problem>> {
    let remembered = recipe.common.policy.aside.get::<Remembered>();
    let copies = remembered.copies.lock();
    if copies.made.is_empty() || !is_same(copies.schema.as_ref(), recipe) {
        return None;
    }
    copies.made.get(&recipe.key(&recipe.common_key())).cloned()
}

/// Remembers what is known of the copy that `recipe` makes, and forgets those that are none of `current`.
pub(super) fn remember(recipe: &Recipe, made: Result<Made, Problem>, current: &BTreeSet<Hash>) {
    let remembered = recipe.common.policy.aside.get::<Remembered>();
    let mut copies = remembered.copies.lock();
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
