//! What was last reported of each key, so that a change is told once.

mod heard;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::EventType;
use parking_lot::Mutex;
use tracing::warn;

use heard::Heard;

use super::{Key, Refusal};
use crate::api::moment::Moment;
use crate::api::names::Parent;
use crate::plan::{Notice, Problem};
use crate::reconcile::Events;
use crate::shrink::give_back;
use crate::telemetry::metrics::Metrics;

/// Which generations were reported as applied.
#[derive(Default)]
struct Applied {
    told: HashMap<Parent, i64>,
    /// Only changes since then are this process's to report.
    since: Option<Moment>,
}

/// What was last reported of each key.
pub(super) struct Reports {
    problems: Mutex<HashMap<Key, BTreeSet<Problem>>>,
    refused: Mutex<HashMap<Key, Refusal>>,
    applied: Mutex<Applied>,
    heard: Mutex<Heard>,
    events: Events,
    metrics: Metrics,
}

impl Reports {
    pub(super) fn new(events: Events, metrics: Metrics) -> Self {
        Self {
            problems: Mutex::default(),
            refused: Mutex::default(),
            applied: Mutex::default(),
            heard: Mutex::default(),
            events,
            metrics,
        }
    }

    /// Reports the problems of a key, those of `object` that were not there before as events,
    /// one for each kind of them.
    pub(super) fn problems(&self, key: &Key, object: Option<ObjectReference>, problems: BTreeSet<Problem>) {
        let mut all = self.problems.lock();
        let before = all.get(key);
        if before == Some(&problems) || (before.is_none() && problems.is_empty()) {
            return;
        }
        let is_new = |problem: &&Problem| before.is_none_or(|before| !before.contains(*problem));
        for problem in problems.iter().filter(is_new) {
            warn!(?key, category = problem.category(), %problem, "cannot be synced as it is");
        }
        if let Some(object) = &object {
            for (category, text) in Problem::told(problems.iter().filter(is_new)) {
                self.events.warn(object.clone(), category, text);
            }
        }
        if problems.is_empty() {
            all.remove(key);
            give_back(&mut all);
        } else {
            all.insert(key.clone(), problems);
        }
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for problem in all.values().flatten() {
            *counts.entry(problem.category()).or_default() += 1;
        }
        self.metrics.problems(counts);
    }

    /// Reports that the hub refuses what a key of `object` writes, once for each answer; `None` where it takes it.
    pub(super) fn refused(
        &self,
        key: &Key,
        refusal: Option<Refusal>,
        object: impl FnOnce() -> Option<ObjectReference>,
    ) {
        let mut all = self.refused.lock();
        let Some(refusal) = refusal else {
            all.remove(key);
            give_back(&mut all);
            return;
        };
        if all.get(key) == Some(&refusal) {
            return;
        }
        if let Some(object) = object() {
            self.events.warn(object, refusal.reason, refusal.note.clone());
        }
        all.insert(key.clone(), refusal);
    }

    /// Tells of `parent`, the object `object`, what is news of `notices`, and returns when to ask again about others.
    /// `fresh` says that it has changed since this process began.
    pub(super) fn notices(
        &self,
        parent: &Parent,
        object: impl FnOnce() -> Option<ObjectReference>,
        notices: Vec<Notice>,
        fresh: bool,
        now: Moment,
    ) -> Option<Moment> {
        let (news, next) = self.heard.lock().news(parent, notices, fresh, now);
        let object = if news.is_empty() { None } else { object() };
        if let Some(object) = object {
            for Notice { reason, good, note, .. } in news {
                let severity = if good { EventType::Normal } else { EventType::Warning };
                self.events.tell(object.clone(), severity, reason, note);
            }
        }
        next
    }

    /// Reports how long it took until every cluster of a policy had applied it, once for each generation that this
    /// process saw come.
    pub(super) fn applied(&self, parent: &Parent, generation: i64, since: Option<Moment>, now: Moment) {
        let mut applied = self.applied.lock();
        let told = applied.told.insert(parent.clone(), generation) == Some(generation);
        let counts = |since: &Moment| !told && applied.since.is_none_or(|first| *since >= first);
        if let Some(since) = since.filter(counts) {
            self.metrics.applied(now.since(since).as_secs_f64());
        }
    }

    /// Forgets a policy that is gone.
    pub(super) fn forget(&self, parent: &Parent) {
        let mut applied = self.applied.lock();
        applied.told.remove(parent);
        give_back(&mut applied.told);
        self.heard.lock().forget(parent);
    }

    /// Forgets all problems and refusals: what there is, a term that begins at `now` finds out, or another process.
    pub(super) fn begin(&self, now: Moment) {
        self.problems.lock().clear();
        self.refused.lock().clear();
        self.heard.lock().clear();
        self.metrics.problems([]);
        // Those of a term before do not count, and policies that go while another leads are not heard of.
        *self.applied.lock() = Applied { since: Some(now), ..Applied::default() };
    }
}
