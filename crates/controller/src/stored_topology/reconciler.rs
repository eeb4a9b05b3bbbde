//! The reconciler that builds the topology and writes the ConfigMap.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::build::{TopologyBuild, TopologySnapshot};
use super::config_map::{self, ConfigMapAction, MIN_WRITE_INTERVAL};
use super::index::Index;
use super::key::Key;
use super::kinds::{self, CONFIG_MAPS};
use super::metrics::TopologyMetrics;
use super::rows::StoredConfigMap;
use super::setup::Settings;
use super::statuses::Statuses;
use super::watches;
use policy_sync_api::names::ControllerName;
use policy_sync_api::text::with_causes;
use policy_sync_hub::clock::Clock;
use policy_sync_hub::compute_in_background;
use policy_sync_hub::reconcile::{
    Capability, Expectations, LastWrite, Leadership, Queue, ReconcileError, RequestError, Requests, Slot,
    apply,
};
use policy_sync_mirror::WatchedSources;
use policy_sync_sync as sync;

/// The maximum time for which a build waits while works are planned and written.
const MAX_IDLE_WAIT: Duration = Duration::from_secs(1);

/// Builds the topology and writes the ConfigMap.
pub(super) struct TopologyReconciler {
    pub(super) settings: Settings,
    pub(super) controller: ControllerName,
    pub(super) sync: Arc<sync::Mirror>,
    /// The queue of the sync, which has precedence.
    pub(super) sync_queue: Arc<Queue<sync::Key>>,
    pub(super) mirror: Arc<policy_sync_mirror::Mirror<Index>>,
    pub(super) clock: Clock,
    pub(super) wanted: watch::Sender<WatchedSources>,
    pub(super) requests: Requests,
    pub(super) leadership: Leadership,
    pub(super) queue: Arc<Queue<Key>>,
    pub(super) written: Expectations<Key, LastWrite>,
    pub(super) last: Mutex<LastActions>,
    pub(super) metrics: TopologyMetrics,
    pub(super) statuses: Arc<Statuses>,
}

/// The last actions of this process.
#[derive(Debug, Default)]
pub(super) struct LastActions {
    /// The time of the last write.
    written: Option<Instant>,
    /// The uid of the ConfigMap of another owner about which a warning was logged.
    foreign: Option<String>,
}

/// The ConfigMap could not be written. The write is retried with backoff.
#[derive(Debug, thiserror::Error)]
#[error("cannot write ConfigMap {object}")]
pub(super) struct StoreError {
    object: String,
    source: RequestError,
}

impl ReconcileError for StoreError {
    fn category(&self) -> &'static str {
        self.source.category()
    }

    fn is_expected(&self) -> bool {
        self.source.is_expected()
    }
}

/// The result of a build.
struct BuildResult {
    build: TopologyBuild,
    /// The stored ConfigMap.
    current: Option<StoredConfigMap>,
    took: Duration,
}

impl Capability for TopologyReconciler {
    type Key = Key;
    type Error = StoreError;

    fn all_keys(&self) -> BTreeSet<Key> {
        BTreeSet::from([Key])
    }

    /// Each process watches, so that a new leader is ready at once. Only the leader builds and writes.
    fn runs_on_followers(&self, _: &Key) -> bool {
        true
    }

    fn leadership_changed(&self) {
        *self.last.lock() = LastActions::default();
        self.metrics.forget();
        self.statuses.change(|pending| pending.forget());
    }

    async fn reconcile(&self, key: &Key, _slot: Slot) -> Result<(), StoreError> {
        let object = kinds::config_map(&self.settings.config_map);
        let seen = self.mirror.version(&object);
        if !self.written.with(key, |last| last.is_visible(seen)) {
            self.queue.add_after_window(*key);
            return Ok(());
        }
        self.sync_queue.idle(MAX_IDLE_WAIT).await;
        self.statuses.change(|pending| pending.begin_build());
        let Some(task) = self.snapshot() else { return self.abort_build(key) };
        let leads = self.leadership.leads();
        let built = match compute_in_background("topology", move || task.build(leads)).await {
            Ok(Some(built)) => built,
            // Once the missing objects are listed, another build starts.
            Ok(None) => return self.abort_build(key),
            Err(error) => {
                warn!(error = with_causes(&error), "the topology cannot be built");
                self.queue.add_after(*key, MIN_WRITE_INTERVAL);
                return self.abort_build(key);
            }
        };
        if !self.leadership.leads() {
            return self.abort_build(key);
        }
        let BuildResult { mut build, current, took } = built;
        self.metrics.built(&build.counts, took);
        let (statuses, versions) = (std::mem::take(&mut build.statuses), build.versions);
        let rebuild = self.statuses.replace(|pending| {
            let replaced = pending.replace(statuses, &versions);
            // The text is recorded even if the ConfigMap is up to date. An aborted write may still succeed, and the
            // watch event must then be recognized as this process's own write.
            pending.expect_text(build.digest, &build.text.detail.to_string());
            replaced
        });
        if rebuild {
            self.queue.add_after_window(*key);
        }
        self.store(key, &build, current.as_ref()).await
    }
}

impl TopologyReconciler {
    /// Ends an aborted build. Queues another build if the watch has delivered this process's writes since the build
    /// started.
    fn abort_build(&self, key: &Key) -> Result<(), StoreError> {
        if self.statuses.change(|pending| pending.abort_build()) {
            self.queue.add_after_window(*key);
        }
        Ok(())
    }

    /// The inputs of a build; `None` while they are incomplete. They are copied, because the build has low
    /// priority and must not block the mirrors.
    fn snapshot(&self) -> Option<BuildTask> {
        let now = self.clock.now();
        let snapshot = {
            let sync = self.sync.read();
            let own = self.mirror.read();
            TopologySnapshot::take(sync.view(now), own.view(now))?
        };
        let (settings, mirror) = (self.settings.clone(), self.mirror.clone());
        Some(BuildTask { settings, snapshot, mirror, clock: self.clock, wanted: self.wanted.clone() })
    }

    async fn store(
        &self,
        key: &Key,
        TopologyBuild { text, digest, .. }: &TopologyBuild,
        current: Option<&StoredConfigMap>,
    ) -> Result<(), StoreError> {
        let detail = text.detail.to_string();
        let since = self.last.lock().written.map(|written| written.elapsed());
        let config_map = &self.settings.config_map;
        let object = config_map.to_string();
        let written = match config_map::next(current, text, *digest, since) {
            ConfigMapAction::Nothing => {
                self.metrics.stored(true);
                return Ok(());
            }
            ConfigMapAction::Foreign(uid) => {
                self.metrics.stored(false);
                if self.last.lock().foreign.replace(uid.to_owned()).as_deref() != Some(uid) {
                    warn!(object, "the topology is not stored: a ConfigMap of this name has another owner");
                }
                return Ok(());
            }
            ConfigMapAction::Wait(wait) => {
                self.queue.add_after(*key, wait);
                return Ok(());
            }
            ConfigMapAction::Apply(uid) => {
                let request = config_map::apply_request(&self.controller, config_map, uid, text);
                apply::apply(&self.requests, &CONFIG_MAPS.gvr(), config_map, uid, request).await
            }
            ConfigMapAction::Create => {
                self.requests.write(config_map::create_request(&self.controller, config_map, text)).await
            }
        };
        let written = written.map_err(|source| StoreError { object: object.clone(), source })?;
        self.written.note(key, |last| last.wrote(written.version()));
        *self.last.lock() = LastActions { written: Some(Instant::now()), foreign: None };
        self.metrics.stored(true);
        debug!(object, detail, bytes = text.dot.len(), "stored the topology");
        if current.is_none() {
            info!(object, "created the ConfigMap of the topology");
        }
        Ok(())
    }
}

/// A build and its inputs.
struct BuildTask {
    settings: Settings,
    snapshot: TopologySnapshot,
    mirror: Arc<policy_sync_mirror::Mirror<Index>>,
    clock: Clock,
    wanted: watch::Sender<WatchedSources>,
}

impl BuildTask {
    /// Updates the watches. If this process `leads`, also builds the topology. `None` on followers, and while inputs
    /// are missing.
    fn build(self, leads: bool) -> Option<BuildResult> {
        let began = Instant::now();
        let Self { settings, snapshot, mirror, clock, wanted } = self;
        let mut current = None;
        let build = snapshot.build(settings.route_status, |needs| {
            let guard = mirror.read();
            let view = guard.view(clock.now());
            let plan = watches::plan(view, needs, &settings.config_map);
            let is_settled = watches::is_settled(view, &plan);
            current = view.stored(&settings.config_map).cloned();
            wanted.send_if_modified(|known| {
                let is_another = *known != plan;
                *known = plan;
                is_another
            });
            is_settled && leads
        })?;
        Some(BuildResult { build, current, took: began.elapsed() })
    }
}
