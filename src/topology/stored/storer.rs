//! The capability that builds the topology, and keeps the ConfigMap.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use kube::api::{PatchParams, PostParams};
use kube::core::request;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::differs::differing;
use super::flow::Settings;
use super::index::{Index, OwnRows, Versions};
use super::key::Key;
use super::kinds::{CONFIG_MAPS, config_map};
use super::metrics::{Counts, TopologyMetrics};
use super::rows::StoredText;
use super::telling::{self, Pending, Telling};
use super::text::{KEY, LIMIT, Text, text};
use super::watches;
use crate::api::annotations::{CONTROLLER, MANAGED_BY, MANAGED_BY_US, TOPOLOGY, TOPOLOGY_DETAIL};
use crate::api::json::Hash;
use crate::api::names::ControllerName;
use crate::api::text::with_causes;
use crate::aside::computed_aside;
use crate::clock::Clock;
use crate::hub::{self, Wanted};
use crate::reconcile::{
    Capability, Expectations, Failure, LastWrite, Leadership, Queue, RequestError, Requests, Slot, apply,
    of_kind,
};
use crate::sync;
use crate::topology::{Facts, Graph, Lent};

/// The shortest time between two writes.
const AT_MOST_EVERY: Duration = Duration::from_secs(10);

/// Builds the topology, and keeps the ConfigMap.
pub(super) struct Storer {
    pub(super) settings: Settings,
    pub(super) controller: ControllerName,
    pub(super) sync: Arc<sync::Mirror>,
    pub(super) mirror: Arc<hub::Mirror<Index>>,
    pub(super) clock: Clock,
    pub(super) wanted: watch::Sender<Wanted>,
    pub(super) requests: Requests,
    pub(super) leadership: Leadership,
    pub(super) queue: Arc<Queue<Key>>,
    pub(super) written: Expectations<Key, LastWrite>,
    pub(super) last: Mutex<Last>,
    pub(super) metrics: TopologyMetrics,
    pub(super) telling: Arc<Telling>,
}

/// What this process has done last.
#[derive(Debug, Default)]
pub(super) struct Last {
    /// When it has written.
    written: Option<Instant>,
    /// The ConfigMap of somebody else that it has told of.
    foreign: Option<String>,
}

/// Why the topology could not be stored. It is tried again, after a backoff.
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

/// What a build came to.
struct Built {
    counts: Counts,
    text: Text,
    hash: Hash,
    stored: Option<StoredText>,
    told: HashMap<telling::Key, Pending>,
    versions: Versions,
    took: Duration,
}

impl Capability for Storer {
    type Key = Key;
    type Error = StoreError;

    fn everything(&self) -> BTreeSet<Key> {
        BTreeSet::from([Key])
    }

    /// Each process watches, so that the next leader knows all at once; only the leader builds and writes.
    fn is_for_followers(&self, _: &Key) -> bool {
        true
    }

    fn leadership_changed(&self) {
        *self.last.lock() = Last::default();
        self.metrics.forget();
        self.telling.forget();
    }

    async fn carry_out(&self, key: &Key, _slot: Slot) -> Result<(), StoreError> {
        let object = config_map(&self.settings.config_map);
        let seen = self.mirror.version(&object);
        if !self.written.with(key, |last| last.is_visible(seen)) {
            self.queue.add_later(*key);
            return Ok(());
        }
        self.telling.begin();
        let Some(work) = self.snapshot() else { return self.give_up(key) };
        let leads = self.leadership.leads();
        let mut built = match computed_aside("topology", move || work.build(leads)).await {
            Ok(Some(built)) => built,
            // What is missing is a change once it is there.
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
        self.metrics.built(&built.counts, built.took);
        if self.telling.replace(std::mem::take(&mut built.told), &built.versions) {
            self.queue.add_later(*key);
        }
        self.store(key, &built).await
    }
}

impl Storer {
    /// Ends where nothing was built; it is built later where the watch has brought something meanwhile.
    fn give_up(&self, key: &Key) -> Result<(), StoreError> {
        if self.telling.give_up() {
            self.queue.add_later(*key);
        }
        Ok(())
    }

    /// What the topology is built of, `None` while nothing is planned. The mirrors go on meanwhile: whoever builds gives way to all
    /// others, and must not hold them up.
    fn snapshot(&self) -> Option<Work> {
        let now = self.clock.now();
        let lent = {
            let guard = self.sync.read();
            let view = guard.view(now);
            Lent::is_read(view).then(|| Lent::new(view))?
        };
        let rows = self.mirror.read().view(now).rows();
        let (settings, mirror) = (self.settings.clone(), self.mirror.clone());
        Some(Work { settings, lent, rows, mirror, clock: self.clock, wanted: self.wanted.clone() })
    }

    async fn store(&self, key: &Key, built: &Built) -> Result<(), StoreError> {
        let Built { text, hash, stored, .. } = built;
        let detail = text.detail.to_string();
        // Also where it stands: what was given up may still be written, and is to be seen then.
        self.telling.wants_text(*hash, &detail);
        if let Some(found) = stored {
            if !found.is_ours {
                self.metrics.stored(false);
                let is_told = self.last.lock().foreign.replace(found.uid.clone()) == Some(found.uid.clone());
                if !is_told {
                    let object = self.settings.config_map.to_string();
                    warn!(
                        object,
                        "the topology is not stored: a ConfigMap of this name is not this controller's own"
                    );
                }
                return Ok(());
            }
            if found.text == *hash && found.detail == detail {
                self.metrics.stored(true);
                return Ok(());
            }
        }
        let wait = {
            let last = self.last.lock();
            last.written.map(|written| AT_MOST_EVERY.saturating_sub(written.elapsed()))
        };
        if let Some(wait) = wait.filter(|wait| !wait.is_zero()) {
            self.queue.add_after(*key, wait);
            return Ok(());
        }
        let written = match stored {
            Some(StoredText { uid, .. }) => {
                let gvr = CONFIG_MAPS.gvr();
                apply::apply(&self.requests, &gvr, &self.settings.config_map, uid, self.applying(uid, text))
                    .await
            }
            None => self.requests.write(self.creating(text)).await,
        };
        let object = self.settings.config_map.to_string();
        let written = written.map_err(|source| StoreError { object: object.clone(), source })?;
        self.written.note(key, |last| last.wrote(written.version()));
        *self.last.lock() = Last { written: Some(Instant::now()), foreign: None };
        self.metrics.stored(true);
        debug!(object, detail, bytes = text.dot.len(), "stored the topology");
        if stored.is_none() {
            info!(object, "made the ConfigMap of the topology");
        }
        Ok(())
    }

    fn body(&self, text: &Text) -> Value {
        let key = &self.settings.config_map;
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": key.name,
                "namespace": key.namespace,
                "labels": {
                    TOPOLOGY: "true",
                    MANAGED_BY: MANAGED_BY_US,
                    CONTROLLER: self.controller.hash(),
                },
                "annotations": {TOPOLOGY_DETAIL: text.detail.to_string()},
            },
            "data": {KEY: text.dot},
        })
    }

    fn creating(&self, text: &Text) -> Result<Request<Vec<u8>>, request::Error> {
        let parameters =
            PostParams { field_manager: Some(self.controller.hub_field_manager()), ..PostParams::default() };
        let body = serde_json::to_vec(&self.body(text)).map_err(request::Error::SerializeBody)?;
        of_kind(&CONFIG_MAPS.gvr(), &self.settings.config_map.namespace).create(&parameters, body)
    }

    fn applying(&self, uid: &str, text: &Text) -> Result<Request<Vec<u8>>, request::Error> {
        let mut body = self.body(text);
        body["metadata"]["uid"] = uid.into();
        let parameters = PatchParams::apply(&self.controller.hub_field_manager()).force();
        let key = &self.settings.config_map;
        of_kind(&CONFIG_MAPS.gvr(), &key.namespace).patch(&key.name, &parameters, &apply::body(&body)?)
    }
}

/// What a build takes.
struct Work {
    settings: Settings,
    lent: Lent,
    rows: OwnRows,
    mirror: Arc<hub::Mirror<Index>>,
    clock: Clock,
    wanted: watch::Sender<Wanted>,
}

impl Work {
    /// Has watched what the topology takes, and builds it where this process `leads`; `None` while something of it is not known yet.
    fn build(self, leads: bool) -> Option<Built> {
        let began = Instant::now();
        let Self { settings, mut lent, rows, mirror, clock, wanted } = self;
        let ours = lent.take_ours();
        let (objects, mut faults) = lent.read();
        let mut facts: Facts<'_> = objects.facts();
        rows.lend(&mut facts);
        faults.extend(rows.faults.iter().cloned());
        let (is_settled, stored) = {
            let guard = mirror.read();
            let view = guard.view(clock.now());
            let plan = watches::plan(view, facts.needs(), &settings.config_map);
            let is_settled = watches::is_settled(view, &plan);
            wanted.send_if_modified(|known| {
                let is_another = *known != plan;
                *known = plan;
                is_another
            });
            (is_settled, view.stored(&settings.config_map).cloned())
        };
        if !is_settled || !leads {
            return None;
        }
        let graph = Graph::build(&facts);
        let counts = Counts::of(&graph, faults.len());
        let text = text(&graph, LIMIT);
        let told = differing(&graph, &rows, &ours, settings.route_status);
        let (hash, versions) = (Hash::of_text(&text.dot), rows.versions);
        Some(Built { counts, hash, text, stored, told, versions, took: began.elapsed() })
    }
}
