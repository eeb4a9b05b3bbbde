//! Keys: the subjects of plans.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

/// The subject of one plan, and an item of the queue.
pub trait Key: Clone + Debug + Eq + Hash + Ord + Send + Sync + 'static {
    /// The values of [`Self::category`]: a few short words.
    const CATEGORIES: &'static [&'static str];

    /// The key's category, a label of metrics.
    fn category(&self) -> &'static str;

    /// The key's place in the queue.
    fn priority(&self) -> Priority;

    /// Whether the queue delays the key, so that several changes lead to one plan.
    fn is_batched(&self) -> bool {
        false
    }
}

/// The order of keys in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Before all other keys, because many keys depend on this key.
    High,
    /// The namespace of the key. Namespaces take turns, so a namespace with many keys delays the next key of any
    /// other namespace by at most one key.
    Fair(Arc<str>),
}
