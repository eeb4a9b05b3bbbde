//! The work queue keys of the periodic audit.

use std::sync::Arc;

use policy_sync_mirror::{self as mirror, Priority};

/// A unit of work of the inspector.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Key {
    /// Audits all objects.
    Run,
    /// Compares the findings with the reports on the hub.
    Reports,
    /// Writes the report of a namespace, or of the cluster if empty.
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
            Self::Run | Self::Reports => Priority::High,
            Self::Report(namespace) => Priority::Fair(namespace.clone()),
        }
    }
}
