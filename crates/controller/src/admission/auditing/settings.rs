//! Settings of the periodic audit.

use std::time::Duration;

/// Settings of the periodic audit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The time between audits. `None`: audits run only on request.
    pub interval: Option<Duration>,
    /// Whether audits can be requested over HTTP.
    pub is_served: bool,
    /// The name of each report.
    pub name: String,
}

impl Settings {
    /// Whether an audit can ever run.
    pub(super) fn is_enabled(&self) -> bool {
        self.interval.is_some() || self.is_served
    }
}
