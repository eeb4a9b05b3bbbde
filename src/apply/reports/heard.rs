//! What was told of how objects fare: each change once, and none too often.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use crate::api::moment::Moment;
use crate::api::names::{ClusterName, Parent};
use crate::plan::Notice;
use crate::shrink::give_back;

/// Within this time, one reason is told of an object once.
const SELDOM: Duration = Duration::from_secs(60);

/// What was last told for one reason.
#[derive(Debug, Default)]
struct Last {
    holds: bool,
    clusters: BTreeSet<ClusterName>,
    note: String,
    at: Option<Moment>,
}

impl Last {
    /// Whether people have heard of `notice`: of fewer clusters than before, or, where all is well, in the same words.
    fn has(&self, notice: &Notice) -> bool {
        self.holds && notice.clusters.is_subset(&self.clusters) && (!notice.good || notice.note == self.note)
    }

    fn keep(&mut self, notice: &Notice) {
        (self.holds, self.clusters, self.note) = (true, notice.clusters.clone(), notice.note.clone());
    }
}

/// What was told of each object.
#[derive(Debug, Default)]
pub(super) struct Heard(HashMap<Parent, BTreeMap<&'static str, Last>>);

impl Heard {
    /// Those of `notices`, all that hold for `parent`, that are to be told now, and when to ask again about others. That
    /// all is well is no news to a process that has just begun, unless `fresh` says that it has become so since.
    pub(super) fn news(
        &mut self,
        parent: &Parent,
        notices: Vec<Notice>,
        fresh: bool,
        now: Moment,
    ) -> (Vec<Notice>, Option<Moment>) {
        let first = !self.0.contains_key(parent);
        let known = self.0.entry(parent.clone()).or_default();
        for (reason, last) in known.iter_mut() {
            last.holds &= notices.iter().any(|notice| notice.reason == *reason);
        }
        let mut next = None;
        let news = notices.into_iter().filter(|notice| {
            let last = known.entry(notice.reason).or_default();
            if last.has(notice) || first && notice.good && !fresh {
                last.keep(notice);
                return false;
            }
            if let Some(again) = last.at.map(|at| at.after(SELDOM)).filter(|again| *again > now) {
                next = Moment::earliest(next, Some(again));
                return false;
            }
            last.keep(notice);
            last.at = Some(now);
            true
        });
        (news.collect(), next)
    }

    /// Forgets an object that is gone.
    pub(super) fn forget(&mut self, parent: &Parent) {
        self.0.remove(parent);
        give_back(&mut self.0);
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests;
