//! Stores the last reports of each key, so that each change is reported once, as an Event, a log line and a metric.

mod deduplication;

use std::collections::BTreeSet;

use dashmap::DashMap;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::EventType;
use parking_lot::Mutex;
use tracing::warn;

use deduplication::Deduplication;

use super::Refusal;
use crate::sync::metrics::HubMetrics;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::Origin;
use policy_sync_api::shrink::take;
use policy_sync_hub::reconcile::Events;
use policy_sync_sync::status::Notice;
use policy_sync_sync::{Key, Problem};

/// The last reports, per key.
pub(super) struct Reports {
    problems: DashMap<Key, BTreeSet<Problem>>,
    refused: DashMap<Key, Refusal>,
    /// The last generation that was reported as applied.
    applied: DashMap<Origin, i64>,
    /// The start of this leadership term. Earlier changes are not reported as applied.
    since: Mutex<Option<Moment>>,
    deduplication: Deduplication,
    events: Events,
    metrics: HubMetrics,
}

impl Reports {
    pub(super) fn new(events: Events, metrics: HubMetrics) -> Self {
        Self {
            problems: DashMap::default(),
            refused: DashMap::default(),
            applied: DashMap::default(),
            since: Mutex::default(),
            deduplication: Deduplication::default(),
            events,
            metrics,
        }
    }

    /// Reports the problems of a key. New problems are logged. One Event for each category of new problems is published
    /// on `object`.
    pub(super) fn problems(&self, key: &Key, object: Option<ObjectReference>, problems: BTreeSet<Problem>) {
        if self.problems.get(key).map_or(problems.is_empty(), |known| *known == problems) {
            return;
        }
        let before = if problems.is_empty() {
            take(&self.problems, key)
        } else {
            self.problems.insert(key.clone(), problems.clone())
        };
        let before = before.unwrap_or_default();
        let is_new = |problem: &&Problem| !before.contains(*problem);
        for problem in problems.iter().filter(is_new) {
            warn!(?key, category = problem.category(), %problem, "cannot be synced as it is");
        }
        if let Some(object) = &object {
            for (category, text) in Problem::event_notes(problems.iter().filter(is_new)) {
                self.events.warn(object.clone(), category, text);
            }
        }
        self.count(&problems, 1);
        self.count(&before, -1);
    }

    fn count(&self, problems: &BTreeSet<Problem>, more: i64) {
        for problem in problems {
            self.metrics.problem(problem, more);
        }
    }

    /// Publishes an Event if the hub rejects a write of a key, once for each distinct refusal. `None` records a
    /// success.
    pub(super) fn refused(
        &self,
        key: &Key,
        refusal: Option<Refusal>,
        object: impl FnOnce() -> Option<ObjectReference>,
    ) {
        let Some(refusal) = refusal else {
            take(&self.refused, key);
            return;
        };
        if self.refused.get(key).is_some_and(|known| *known == refusal) {
            return;
        }
        if let Some(object) = object() {
            self.events.warn(object, refusal.reason.as_str(), refusal.note.clone());
        }
        self.refused.insert(key.clone(), refusal);
    }

    /// Publishes Events for new `notices` about `origin`. If a notice follows too soon after the last Event, returns
    /// the time at which to retry it. `fresh` is whether the object changed since this process started.
    pub(super) fn notices(
        &self,
        origin: &Origin,
        object: impl FnOnce() -> Option<ObjectReference>,
        notices: Vec<Notice>,
        fresh: bool,
        now: Moment,
    ) -> Option<Moment> {
        let (due_notices, next) = self.deduplication.due_notices(origin, notices, fresh, now);
        let object = if due_notices.is_empty() { None } else { object() };
        if let Some(object) = object {
            for Notice { reason, note, .. } in due_notices {
                let severity = if reason.is_good() { EventType::Normal } else { EventType::Warning };
                self.events.publish(object.clone(), severity, reason.as_str(), note);
            }
        }
        next
    }

    /// Observes the propagation time of a policy: from its change at `since` until the last cluster applied it at
    /// `applied`. Counts each generation once. Changes that this process did not observe do not count.
    pub(super) fn applied(
        &self,
        origin: &Origin,
        generation: i64,
        since: Option<Moment>,
        applied: Option<Moment>,
    ) {
        let known = self.applied.insert(origin.clone(), generation) == Some(generation);
        let first = *self.since.lock();
        let counts = |since: &Moment| !known && first.is_none_or(|first| *since >= first);
        // If no cluster applied the policy after the change, the change did not affect the clusters.
        if let (Some(since), Some(applied)) = (since.filter(counts), applied)
            && applied >= since
        {
            self.metrics.propagated(applied.since(since).as_secs_f64());
        }
    }

    /// Forgets a deleted object.
    pub(super) fn forget(&self, origin: &Origin) {
        take(&self.applied, origin);
        self.deduplication.forget(origin);
    }

    /// Discards all problems and refusals when leadership changes at `now`. The next leader detects them again.
    pub(super) fn begin(&self, now: Moment) {
        self.problems.retain(|_, problems| {
            self.count(problems, -1);
            false
        });
        self.refused.clear();
        self.deduplication.clear();
        // Changes from before this term do not count. Deletions that happen while another process leads are not
        // observed.
        *self.since.lock() = Some(now);
        self.applied.clear();
    }
}
