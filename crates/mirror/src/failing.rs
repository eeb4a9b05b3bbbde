//! Sources that cannot be listed or watched.

use std::time::Duration;

use crate::change::{Failure, FailureKind};
use policy_sync_api::moment::Moment;

/// The time after which a repeated transient failure counts as lasting.
const LASTS: Duration = Duration::from_secs(5);

/// A source's current failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    /// The hub's message if it sent one, otherwise the client's.
    pub text: String,
    /// Whether a retry may succeed.
    pub kind: FailureKind,
    since: Moment,
    /// Whether the failure needs a fix, or has recurred for 5 seconds.
    pub lasting: bool,
}

impl Failing {
    /// A further failure after `before`, or the first one.
    pub(crate) fn new(failure: Failure, before: Option<&Self>, now: Moment) -> Self {
        let since = before.map_or(now, |before| before.since);
        let stays = matches!(failure.kind, FailureKind::Refused | FailureKind::Unauthenticated);
        let lasting = stays || since.after(LASTS) <= now;
        Self { text: failure.text, kind: failure.kind, since, lasting }
    }
}
