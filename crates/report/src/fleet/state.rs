//! [`Cell`]: the state of a policy on one cluster, with a short message.

use std::sync::Arc;

use crate::PolicyReport;
use policy_sync_api::annotations::{ENFORCED, Synced, SyncedCondition};
use policy_sync_api::policy_state::{ACCEPTED, PolicyState};
use policy_sync_api::text::truncate_bytes;

/// The maximum number of bytes of a message in a cell. Clusters write the message; the policy's own page shows all of
/// it.
const MESSAGE_LIMIT: usize = 240;

/// The state of a policy on a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The state that the cell shows.
    pub state: PolicyState,
    /// Whether the cluster has the current revision.
    pub in_sync: bool,
    /// The message of the cluster or of the hub, truncated to 240 bytes.
    pub message: Option<Arc<str>>,
}

impl Cell {
    /// The cell of `entry`, which is in the list of `report`.
    #[must_use]
    pub fn from_entry(report: &PolicyReport, entry: &Synced) -> Self {
        let in_sync = report.has_current_revision(Some(entry).filter(|_| report.detail.shows_states()));
        let Some(state) = report.state_of(entry) else {
            return Self { in_sync, ..Self::unknown(report.detail.explanation().as_deref()) };
        };
        let message = match state {
            PolicyState::Frozen => report.message.clone(),
            PolicyState::Rejected => entry.condition(ACCEPTED).map(condition_text),
            PolicyState::Overridden | PolicyState::NotEnforced | PolicyState::PartiallyEnforced => {
                entry.condition(ENFORCED).map(condition_text)
            }
            PolicyState::Enforced => None,
            _ => entry.message.clone(),
        };
        Self { state, in_sync, message: message.as_deref().filter(|text| !text.is_empty()).map(truncated) }
    }

    /// A cell with an unknown state, and with the reason `why`.
    pub(super) fn unknown(why: Option<&str>) -> Self {
        Self { state: PolicyState::Unknown, in_sync: false, message: why.map(truncated) }
    }
}

/// The reason and the message of a condition.
fn condition_text(condition: &SyncedCondition) -> String {
    let reason = condition.reason.clone().unwrap_or_default();
    match &condition.message {
        Some(message) if reason.is_empty() => message.clone(),
        Some(message) => format!("{reason}: {message}"),
        None => reason,
    }
}

/// Truncates `text` to the maximum length of a message.
pub(super) fn truncated(text: &str) -> Arc<str> {
    truncate_bytes(text, MESSAGE_LIMIT).into()
}
