//! Sources that cannot be listed or watched.

use std::time::Duration;

use crate::change::{Failure, FailureKind};
use policy_sync_api::moment::Moment;

/// A failure that may pass counts as lasting once each attempt has failed for so long.
const LASTS: Duration = Duration::from_secs(5);

/// Why a source cannot be listed or watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    /// In the hub's words, where it gave any.
    pub text: String,
    /// Whether it may pass.
    pub kind: FailureKind,
    since: Moment,
    /// Whether it is more than a moment's.
    pub lasting: bool,
}

impl Failing {
    /// What it is now that it fails again, or for the first time.
    pub(crate) fn new(failure: Failure, before: Option<&Self>, now: Moment) -> Self {
        let since = before.map_or(now, |before| before.since);
        let stays = matches!(failure.kind, FailureKind::Refused | FailureKind::Unauthenticated);
        let lasting = stays || since.after(LASTS) <= now;
        Self { text: failure.text, kind: failure.kind, since, lasting }
    }
}
