//! The reconciler that builds the topology and writes the ConfigMap.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::config_map::{self, AT_MOST_EVERY, Next};
use super::index::Index;
use super::key::Key;
use super::kinds::{self, CONFIG_MAPS};
use super::metrics::TopologyMetrics;
use super::outcome::{Outcome, Snapshot};
use super::rows::StoredText;
use super::settings::Settings;
use super::statuses::Statuses;
use super::watches;
use policy_sync_api::names::ControllerName;
use policy_sync_api::text::with_causes;
use policy_sync_hub::clock::Clock;
use policy_sync_hub::computed_aside;
use policy_sync_hub::reconcile::{
    Capability, Expectations, Failure, LastWrite, Leadership, Queue, RequestError, Requests, Slot, apply,
};
use policy_sync_mirror::Wanted;
use policy_sync_sync as sync;

/// The maximum time that a build waits for works to be planned and written.
const GIVES_WAY: Duration = Duration::from_secs(1);

/// Builds the topology and writes the ConfigMap.
pub(super) struct Storer {
    pub(super) settings: Settings,
    pub(super) controller: ControllerName,
    pub(super) sync: Arc<sync::Mirror>,
    /// The queue of the sync, which has precedence.
    pub(super) syncing: Arc<Queue<sync::Key>>,
    pub(super) mirror: Arc<policy_sync_mirror::Mirror<Index>>,
    pub(super) clock: Clock,
    pub(super) wanted: watch::Sender<Wanted>,
    pub(super) requests: Requests,
    pub(super) leadership: Leadership,
    pub(super) queue: Arc<Queue<Key>>,
    pub(super) written: Expectations<Key, LastWrite>,
    pub(super) last: Mutex<Last>,
    pub(super) metrics: TopologyMetrics,
    pub(super) statuses: Arc<Statuses>,
}

/// The last actions of this process.
#[derive(Debug, Default)]
pub(super) struct Last {
    /// The time of the last write.
    written: Option<Instant>,
    /// The uid of the foreign ConfigMap that a warning was logged about.
    foreign: Option<String>,
}

/// The ConfigMap could not be written. It is retried with backoff.
#[derive(Debug, thiserror::Error)]
#[error("cannot write ConfigMap {object}")]
pub(super) struct StoreError {
    object: String,
    source: RequestError,
}

impl Failure for StoreError {
    fn category(&self) -> &'static str {
        self.source.category()
    }

    fn is_routine(&self) -> bool {
        self.source.is_routine()
    }
}

/// The result of a build.
struct Built {
    outcome: Outcome,
    /// The stored ConfigMap.
    there: Option<StoredText>,
    took: Duration,
}

impl Capability for Storer {
    type Key = Key;
    type Error = StoreError;

    fn everything(&self) -> BTreeSet<Key> {
        BTreeSet::from([Key])
    }

    /// Each process watches, so that a new leader is ready at once; only the leader builds and writes.
    fn is_for_followers(&self, _: &Key) -> bool {
        true
    }

    fn leadership_changed(&self) {
        *self.last.lock() = Last::default();
        self.metrics.forget();
        self.statuses.change(|pending| pending.forget());
    }

    async fn carry_out(&self, key: &Key, _slot: Slot) -> Result<(), StoreError> {
        let object = kinds::config_map(&self.settings.config_map);
        let seen = self.mirror.version(&object);
        if !self.written.with(key, |last| last.is_visible(seen)) {
            self.queue.add_later(*key);
            return Ok(());
        }
        self.syncing.idle(GIVES_WAY).await;
        self.statuses.change(|pending| pending.begin());
        let Some(work) = self.snapshot() else { return self.give_up(key) };
        let leads = self.leadership.leads();
        let built = match computed_aside("topology", move || work.build(leads)).await {
            Ok(Some(built)) => built,
            // The missing objects will trigger another build.
            Ok(None) => return self.give_up(key),
            Err(error) => {
                warn!(error = with_causes(&error), "the topology cannot be built");
                self.queue.add_after(*key, AT_MOST_EVERY);
                return self.give_up(key);
            }
        };
        if !self.leadership.leads() {
            return self.give_up(key);
        }
        let Built { mut outcome, there, took } = built;
        self.metrics.built(&outcome.counts, took);
        let (statuses, versions) = (std::mem::take(&mut outcome.statuses), outcome.versions);
        let again = self.statuses.replace(|pending| {
            let replaced = pending.replace(statuses, &versions);
            // Even if the ConfigMap is up to date: an aborted write may still succeed and must then be
            // recognized.
            pending.expect_text(outcome.digest, &outcome.text.detail.to_string());
            replaced
        });
        if again {
            self.queue.add_later(*key);
        }
        self.store(key, &outcome, there.as_ref()).await
    }
}

impl Storer {
    /// Ends an aborted build. Queues another one if the watch has delivered own writes meanwhile.
    fn give_up(&self, key: &Key) -> Result<(), StoreError> {
        if self.statuses.change(|pending| pending.give_up()) {
            self.queue.add_later(*key);
        }
        Ok(())
    }

    /// The inputs of a build; `None` while they are incomplete. They are copied, because the build has low
    /// priority and must not block the mirrors.
    fn snapshot(&self) -> Option<Work> {
        let now = self.clock.now();
        let snapshot = {
            let sync = self.sync.read();
            let own = self.mirror.read();
            Snapshot::take(sync.view(now), own.view(now))?
        };
        let (settings, mirror) = (self.settings.clone(), self.mirror.clone());
        Some(Work { settings, snapshot, mirror, clock: self.clock, wanted: self.wanted.clone() })
    }

    async fn store(
        &self,
        key: &Key,
        Outcome { text, digest, .. }: &Outcome,
        there: Option<&StoredText>,
    ) -> Result<(), StoreError> {
        let detail = text.detail.to_string();
        let since = self.last.lock().written.map(|written| written.elapsed());
        let config_map = &self.settings.config_map;
        let object = config_map.to_string();
        let written = match config_map::next(there, text, *digest, since) {
            Next::Nothing => {
                self.metrics.stored(true);
                return Ok(());
            }
            Next::Foreign(uid) => {
                self.metrics.stored(false);
                if self.last.lock().foreign.replace(uid.to_owned()).as_deref() != Some(uid) {
                    warn!(object, "the topology is not stored: a ConfigMap of this name has another owner");
                }
                return Ok(());
            }
            Next::Wait(wait) => {
                self.queue.add_after(*key, wait);
                return Ok(());
            }
            Next::Apply(uid) => {
                let request = config_map::applying(&self.controller, config_map, uid, text);
                apply::apply(&self.requests, &CONFIG_MAPS.gvr(), config_map, uid, request).await
            }
            Next::Create => {
                self.requests.write(config_map::creating(&self.controller, config_map, text)).await
            }
        };
        let written = written.map_err(|source| StoreError { object: object.clone(), source })?;
        self.written.note(key, |last| last.wrote(written.version()));
        *self.last.lock() = Last { written: Some(Instant::now()), foreign: None };
        self.metrics.stored(true);
        debug!(object, detail, bytes = text.dot.len(), "stored the topology");
        if there.is_none() {
            info!(object, "created the ConfigMap of the topology");
        }
        Ok(())
    }
}

/// A build and its inputs.
struct Work {
    settings: Settings,
    snapshot: Snapshot,
    mirror: Arc<policy_sync_mirror::Mirror<Index>>,
    clock: Clock,
    wanted: watch::Sender<Wanted>,
}

impl Work {
    /// Updates the watches, and builds the topology if this process `leads`. `None` while inputs are missing.
    fn build(self, leads: bool) -> Option<Built> {
        let began = Instant::now();
        let Self { settings, snapshot, mirror, clock, wanted } = self;
        let mut there = None;
        let outcome = snapshot.outcome(settings.route_status, |needs| {
            let guard = mirror.read();
            let view = guard.view(clock.now());
            let plan = watches::plan(view, needs, &settings.config_map);
            let is_settled = watches::is_settled(view, &plan);
            there = view.stored(&settings.config_map).cloned();
            wanted.send_if_modified(|known| {
                let is_another = *known != plan;
                *known = plan;
                is_another
            });
            is_settled && leads
        })?;
        Some(Built { outcome, there, took: began.elapsed() })
    }
}
