//! How often is audited, and what reports are called.

use std::time::Duration;

/// How often is audited, and what reports are called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The time from one audit to the next; where there is none, nobody audits but who is asked.
    pub interval: Option<Duration>,
    /// Whether anybody can ask.
    pub is_served: bool,
    /// The name of each report.
    pub name: String,
}

impl Settings {
    /// Whether there is ever an audit.
    pub(super) fn is_wanted(&self) -> bool {
        self.interval.is_some() || self.is_served
    }
}
