//! What is planned: there is one topology.

use policy_sync_mirror::{self as mirror, Priority};

/// The topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key;

impl mirror::Key for Key {
    const CATEGORIES: &'static [&'static str] = &["topology"];

    fn category(&self) -> &'static str {
        "topology"
    }

    fn priority(&self) -> Priority {
        Priority::First
    }

    /// However many rows change within the window, it is built once.
    fn is_batched(&self) -> bool {
        true
    }
}
