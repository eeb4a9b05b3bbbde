//! Deduplicates Events about the state of objects. Each change is reported once, and Events of one reason have a
//! minimum interval.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dashmap::DashMap;

use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, Origin};
use policy_sync_api::shrink::take;
use policy_sync_sync::status::{Notice, NoticeReason};

/// The minimum time between two Events of one reason for an object.
const MIN_EVENT_INTERVAL: Duration = Duration::from_secs(60);

/// The last Event of one reason.
#[derive(Debug, Default)]
struct LastEvent {
    is_current: bool,
    clusters: BTreeSet<ClusterName>,
    note: String,
    at: Option<Moment>,
}

impl LastEvent {
    /// Whether the last Event covers `notice`. The Event's clusters must include the clusters of `notice`. If the state
    /// is good, the texts must also be equal.
    fn covers(&self, notice: &Notice) -> bool {
        self.is_current
            && notice.clusters.is_subset(&self.clusters)
            && (!notice.reason.is_good() || notice.note == self.note)
    }

    fn record(&mut self, notice: &Notice) {
        (self.is_current, self.clusters, self.note) = (true, notice.clusters.clone(), notice.note.clone());
    }
}

/// The last Events of each object.
#[derive(Debug, Default)]
pub(super) struct Deduplication(DashMap<Origin, BTreeMap<NoticeReason, LastEvent>>);

impl Deduplication {
    /// Returns the notices to report now, and the time at which to retry the other notices. `notices` are all notices
    /// that apply to `origin` at present. At the first call for an object, good states are reported only if `fresh`.
    pub(super) fn due_notices(
        &self,
        origin: &Origin,
        notices: Vec<Notice>,
        fresh: bool,
        now: Moment,
    ) -> (Vec<Notice>, Option<Moment>) {
        let first = !self.0.contains_key(origin);
        let mut known = self.0.entry(origin.clone()).or_default();
        for (reason, last) in known.iter_mut() {
            last.is_current &= notices.iter().any(|notice| notice.reason == *reason);
        }
        let mut next = None;
        let due_notices = notices.into_iter().filter(|notice| {
            let last = known.entry(notice.reason).or_default();
            if last.covers(notice) || first && notice.reason.is_good() && !fresh {
                last.record(notice);
                return false;
            }
            if let Some(again) = last.at.map(|at| at.after(MIN_EVENT_INTERVAL)).filter(|again| *again > now) {
                next = Moment::earliest(next, Some(again));
                return false;
            }
            last.record(notice);
            last.at = Some(now);
            true
        });
        (due_notices.collect(), next)
    }

    /// Forgets a deleted object.
    pub(super) fn forget(&self, origin: &Origin) {
        take(&self.0, origin);
    }

    pub(super) fn clear(&self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests;
