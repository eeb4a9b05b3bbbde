//! What the inspector does.

use std::sync::Arc;

use policy_sync_mirror::{self as mirror, Priority};

/// What the inspector does.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Key {
    /// An audit of everything.
    Run,
    /// Finds out which reports are there, and are to be others.
    Reports,
    /// Writes the report of a namespace, or where that is empty of the cluster.
    Report(Arc<str>),
}

impl mirror::Key for Key {
    const CATEGORIES: &'static [&'static str] = &["audit", "audit_reports", "audit_report"];

    fn category(&self) -> &'static str {
        match self {
            Self::Run => "audit",
            Self::Reports => "audit_reports",
            Self::Report(_) => "audit_report",
        }
    }

    fn priority(&self) -> Priority {
        match self {
            Self::Run | Self::Reports => Priority::First,
            Self::Report(namespace) => Priority::InTurn(namespace.clone()),
        }
    }
}
