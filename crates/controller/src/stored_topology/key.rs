//! The work queue key of the topology; there is only one.

use policy_sync_mirror::{self as mirror, Priority};

/// A rebuild of the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key;

impl mirror::Key for Key {
    const CATEGORIES: &'static [&'static str] = &["topology"];

    fn category(&self) -> &'static str {
        "topology"
    }

    fn priority(&self) -> Priority {
        Priority::High
    }

    /// All changes within the window cause one rebuild.
    fn is_batched(&self) -> bool {
        true
    }
}
