//! Sources that cannot be listed or watched.

use std::time::Duration;

use crate::change::{WatchFailure, WatchFailureKind};
use policy_sync_api::moment::Moment;

/// The time after which a repeated transient failure counts as lasting.
const PERSISTENT_AFTER: Duration = Duration::from_secs(5);

/// A source's current failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFailure {
    /// The hub's message if it sent one, otherwise the client's.
    pub text: String,
    /// Whether a retry may succeed.
    pub kind: WatchFailureKind,
    since: Moment,
    /// Whether the failure needs a fix, or has recurred for 5 seconds.
    pub persistent: bool,
}

impl SourceFailure {
    /// A further failure after `before`, or the first one.
    pub(crate) fn new(failure: WatchFailure, before: Option<&Self>, now: Moment) -> Self {
        let since = before.map_or(now, |before| before.since);
        let needs_fix =
            matches!(failure.kind, WatchFailureKind::Forbidden | WatchFailureKind::Unauthenticated);
        let persistent = needs_fix || since.after(PERSISTENT_AFTER) <= now;
        Self { text: failure.text, kind: failure.kind, since, persistent }
    }
}
