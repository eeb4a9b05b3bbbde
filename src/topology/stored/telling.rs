//! The capability that writes what Gateways and routes say: what the last graph has it, as far as it does not stand yet.
//!
//! ```text
//! graph ──▶ what differs ──▶ queue: Gateways first, namespaces of routes in turn ──▶ so many a second ──▶ hub
//!              ▲                                                                                           │
//!              └──────────────── the watch brings it: as written, it is done; otherwise the graph is built ┘
//! ```
//!
//! A route's list is one value: it is read, and replaced in the version that was read, with others' entries as they were.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use http::Request;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{GetParams, Patch, PatchParams};
use kube::core::request;
use parking_lot::Mutex;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tracing::{debug, warn};

use super::index::{Index, Versions};
use super::kinds::{self, GATEWAYS};
use super::metrics::TopologyMetrics;
use super::pace::Pace;
use super::standing::Entries;
use crate::api::condition::condition;
use crate::api::json::Hash;
use crate::api::names::{ControllerName, GroupVersionResource, ObjectKey};
use crate::api::object::HubObject;
use crate::clock::Clock;
use crate::hub::{self, Extent};
use crate::reconcile::{
    self, Capability, Failure, Priority, Queue, RequestError, Requests, Slot, apply, of_kind,
};
use crate::topology::rows::{ParentReference, RouteKind};
use crate::topology::told::{Conditions, EntryTold, Said};

/// The most entries of a route's status.
pub(super) const ENTRIES_LIMIT: usize = 32;
/// How many routes are written in a second: this is never urgent, and whoever puts a policy on a Gateway changes as many as it has.
const PER_SECOND: u32 = 20;

const OF_GATEWAY: &str = "topology_gateway";
const OF_ROUTE: &str = "topology_route";

/// What says something.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Key {
    /// A Gateway.
    Gateway(ObjectKey),
    /// A route.
    Route(RouteKind, ObjectKey),
}

/// A turn to be written.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Turn {
    of: Key,
    /// Whether the object has changed itself: it does not wait for those of its namespace that only follow others.
    changed: bool,
}

impl reconcile::Key for Turn {
    const CATEGORIES: &'static [&'static str] = &[OF_GATEWAY, OF_ROUTE];

    fn category(&self) -> &'static str {
        match self.of {
            Key::Gateway(_) => OF_GATEWAY,
            Key::Route(..) => OF_ROUTE,
        }
    }

    fn priority(&self) -> Priority {
        match &self.of {
            Key::Gateway(_) => Priority::First,
            Key::Route(_, key) if self.changed => Priority::InTurn(key.namespace.clone()),
            // No namespace is called so.
            Key::Route(_, key) => Priority::InTurn(format!("{}/", key.namespace).into()),
        }
    }
}

/// What an object is to say.
#[derive(Clone, Debug)]
pub(super) enum Told {
    /// A Gateway: its uid, its generation, and its conditions.
    Gateway(Arc<str>, i64, Conditions),
    /// A route: its generation, and its entries.
    Route(i64, Vec<EntryTold>),
}

/// The same, with the hash of it.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) told: Told,
    pub(super) said: Hash,
    /// Of the object, unique over time.
    pub(super) uid: Hash,
    /// Whether the object has changed itself, and does not only follow others.
    pub(super) changed: bool,
}

/// What is to be written, as the last graph has it.
#[derive(Debug)]
pub(super) struct Telling {
    state: Mutex<Known>,
    queue: Arc<Queue<Turn>>,
    metrics: TopologyMetrics,
}

#[derive(Debug, Default)]
struct Known {
    /// How many graphs there were.
    build: u64,
    pending: HashMap<Key, Wanted>,
    /// The text of the ConfigMap, and its detail, as the last graph has them.
    text: Option<(Hash, String)>,
    /// While a graph is built: what the watch has brought of what the one before has written, and this one may not have seen.
    brought: Option<Brought>,
}

#[derive(Debug, Default)]
struct Brought {
    keys: BTreeSet<Key>,
    text: bool,
}

/// What one object is to say.
#[derive(Clone, Debug)]
struct Wanted {
    pending: Pending,
    /// By which graph.
    build: u64,
    state: State,
}

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It is to be written.
    Waits,
    /// It was written, and left the object at this version.
    Written(u64),
}

impl Wanted {
    fn is_as(&self, other: &Pending) -> bool {
        (self.pending.said, self.pending.uid) == (other.said, other.uid)
    }
}

impl Telling {
    pub(super) fn new(queue: Arc<Queue<Turn>>, metrics: TopologyMetrics) -> Self {
        Self { state: Mutex::default(), queue, metrics }
    }

    /// Notes that a graph is about to be built, of rows that are read from now on.
    pub(super) fn begin(&self) {
        self.state.lock().brought = Some(Brought::default());
    }

    /// Notes that it was given up; returns whether it has to be built after all.
    pub(super) fn give_up(&self) -> bool {
        let brought = self.state.lock().brought.take();
        brought.is_some_and(|brought| brought.text || !brought.keys.is_empty())
    }

    /// Takes what the last graph has, in place of what the one before had; it was built of rows of these versions. Returns whether it
    /// has to be built anew: the watch has brought meanwhile what it has not seen, and nobody else would look at that.
    pub(super) fn replace(&self, told: HashMap<Key, Pending>, versions: &Versions) -> bool {
        let mut state = self.state.lock();
        let brought = state.brought.take().unwrap_or_default();
        let again = brought.text || brought.keys.iter().any(|key| !told.contains_key(key));
        state.build += 1;
        let build = state.build;
        let mut known = std::mem::take(&mut state.pending);
        let mut new = Vec::new();
        let wanted = told.into_iter().map(|(key, pending)| {
            let before = known.remove(&key).filter(|before| before.is_as(&pending));
            let state = match before.map(|before| before.state) {
                // What waits after a failure waits on.
                Some(State::Waits) => State::Waits,
                Some(State::Written(version)) if version > versions.of(&key) => State::Written(version),
                _ => {
                    new.push(Turn { of: key.clone(), changed: pending.changed });
                    State::Waits
                }
            };
            (key, Wanted { pending, build, state })
        });
        state.pending = wanted.collect();
        self.count(&state);
        drop(state);
        self.queue.affect(new);
        again
    }

    /// Forgets all: another process leads, or this one anew.
    pub(super) fn forget(&self) {
        let mut state = self.state.lock();
        state.pending = HashMap::new();
        state.text = None;
        self.count(&state);
    }

    /// Notes what the ConfigMap is to say.
    pub(super) fn wants_text(&self, text: Hash, detail: &str) {
        self.state.lock().text = Some((text, detail.to_owned()));
    }

    /// Whether the watch brings the ConfigMap as it is to be.
    pub(super) fn brings_text(&self, text: Hash, detail: &str) -> bool {
        let mut state = self.state.lock();
        let is_it = state.text.as_ref().is_some_and(|wanted| (wanted.0, wanted.1.as_str()) == (text, detail));
        if is_it && let Some(brought) = &mut state.brought {
            brought.text = true;
        }
        is_it
    }

    /// Whether the watch brings what this process has written: then it is done with.
    pub(super) fn brings(&self, key: &Key, said: Hash) -> bool {
        let mut state = self.state.lock();
        let Some(wanted) = state.pending.get(key) else { return false };
        let is_it = wanted.pending.said == said;
        // Somebody else has written over it: the next graph has it written anew.
        if is_it || wanted.state != State::Waits {
            state.pending.remove(key);
            self.count(&state);
        }
        if is_it && let Some(brought) = &mut state.brought {
            brought.keys.insert(key.clone());
        }
        is_it
    }

    fn wanted(&self, key: &Key) -> Option<Wanted> {
        let state = self.state.lock();
        state.pending.get(key).filter(|wanted| wanted.state == State::Waits).cloned()
    }

    /// Notes that what `key` says was written as `wanted` has it, and left the object at `version`.
    fn wrote(&self, key: &Key, wanted: &Wanted, version: u64) {
        let mut state = self.state.lock();
        if let Some(known) = state.pending.get_mut(key)
            && known.is_as(&wanted.pending)
        {
            known.state = State::Written(version);
            self.count(&state);
        }
    }

    /// Forgets `wanted`: it stands, or the graph is about to be built anew. What a later graph wants stays.
    fn settle(&self, key: &Key, wanted: &Wanted) {
        let mut state = self.state.lock();
        if state.pending.get(key).is_some_and(|known| known.build == wanted.build) {
            state.pending.remove(key);
            self.count(&state);
        }
    }

    fn count(&self, state: &Known) {
        self.metrics.pending(state.pending.values().filter(|wanted| wanted.state == State::Waits).count());
    }
}

/// Why a status could not be written. It is tried again, after a backoff.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the status of {object}")]
pub(super) struct TellError {
    object: String,
    source: RequestError,
}

impl Failure for TellError {
    fn category(&self) -> &'static str {
        self.source.category()
    }

    /// What one object's writes are refused for, thousands may be: that was told once.
    fn is_routine(&self) -> bool {
        self.source.is_routine()
            || self.source.code() == FORBIDDEN
            || matches!(self.source, RequestError::Stale(_))
    }
}

const FORBIDDEN: u16 = 403;
const NOT_FOUND: u16 = 404;
const CONFLICT: u16 = 409;

/// Writes what Gateways and routes say.
pub(super) struct Teller {
    controller: ControllerName,
    mirror: Arc<hub::Mirror<Index>>,
    clock: Clock,
    requests: Requests,
    telling: Arc<Telling>,
    pace: Pace,
    /// The kinds that it was told of that they may not be written.
    refused: Mutex<BTreeSet<Option<RouteKind>>>,
}

impl Capability for Teller {
    type Key = Turn;
    type Error = TellError;

    /// What there is to write comes with the next graph.
    fn everything(&self) -> BTreeSet<Turn> {
        BTreeSet::new()
    }

    async fn carry_out(&self, Turn { of: key, .. }: &Turn, _slot: Slot) -> Result<(), TellError> {
        let (kind, told) = match key {
            Key::Gateway(gateway) => (None, self.gateway(key, gateway).await),
            Key::Route(kind, route) => {
                // What another graph has taken back takes no turn from others.
                if self.telling.wanted(key).is_none() {
                    return Ok(());
                }
                self.pace.turn().await;
                (Some(*kind), self.route(key, *kind, route).await)
            }
        };
        let source = match told {
            Ok(()) => {
                self.refused.lock().remove(&kind);
                return Ok(());
            }
            Err(source) => source,
        };
        let object = key.to_string();
        if source.code() == FORBIDDEN && self.refused.lock().insert(kind) {
            warn!(object, error = %source, "may not write what it is attached to into its status, and maybe into no other of its kind");
        }
        Err(TellError { object, source })
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Gateway(key) => write!(f, "Gateway {key}"),
            Self::Route(kind, key) => write!(f, "{} {key}", kind.kind().kind),
        }
    }
}

impl Teller {
    pub(super) fn new(
        controller: ControllerName,
        mirror: Arc<hub::Mirror<Index>>,
        clock: Clock,
        requests: Requests,
        telling: Arc<Telling>,
    ) -> Self {
        let pace = Pace::new(PER_SECOND);
        Self { controller, mirror, clock, requests, telling, pace, refused: Mutex::default() }
    }

    async fn gateway(&self, key: &Key, gateway: &ObjectKey) -> Result<(), RequestError> {
        let Some(wanted) = self.telling.wanted(key) else { return Ok(()) };
        let Told::Gateway(uid, generation, conditions) = &wanted.pending.told else { return Ok(()) };
        let standing = self.mirror.read().view(self.clock.now()).gateway(gateway).cloned();
        let Some(standing) = standing.filter(|standing| standing.uid == *uid) else {
            self.telling.settle(key, &wanted);
            return Ok(());
        };
        let conditions = self.dated(&conditions.said, *generation, &standing.conditions);
        let (gvr, manager) = (GATEWAYS.gvr(), self.controller.topology_field_manager());
        let request = apply::conditions(&manager, (&gvr, "Gateway"), gateway, uid, &conditions);
        let written = apply::apply(&self.requests, &gvr, gateway, uid, request).await?;
        self.telling.wrote(key, &wanted, written.version());
        debug!(object = %key, "wrote which policies affect it");
        Ok(())
    }

    /// `said` as conditions, as far as they are no others since when they are: `found` knows.
    fn dated(&self, said: &[Said], generation: i64, found: &[Condition]) -> Vec<Condition> {
        let now = self.clock.now();
        let dated = said.iter().map(|Said { name, status, reason, message }| {
            condition(found, name, (status, reason), message.clone(), generation, now)
        });
        dated.collect()
    }

    async fn route(&self, key: &Key, kind: RouteKind, route: &ObjectKey) -> Result<(), RequestError> {
        let Some(wanted) = self.telling.wanted(key) else { return Ok(()) };
        let Pending { told: Told::Route(generation, entries), said, uid, .. } = &wanted.pending else {
            return Ok(());
        };
        let served =
            self.mirror.read().view(self.clock.now()).served(&kinds::routes(kind).to_string()).cloned();
        let Some(gvr) = served else {
            self.telling.settle(key, &wanted);
            return Ok(());
        };
        let routes = of_kind(&gvr, &route.namespace);
        let is_gone = |error: &RequestError| error.code() == NOT_FOUND;
        let found =
            match self.requests.read(routes.get(&route.name, &GetParams::default()), Extent::Whole).await {
                Err(error) if is_gone(&error) => {
                    self.telling.settle(key, &wanted);
                    return Ok(());
                }
                found => found?,
            };
        let standing = Entries::read(&found, &self.controller);
        let is_another =
            Hash::of_text(&found.metadata.uid) != *uid || found.metadata.generation != *generation;
        // What is there is newer than the graph, which is about to be built anew; or says it already.
        if is_another || standing.said() == *said {
            self.telling.settle(key, &wanted);
            return Ok(());
        }
        let request = self.telling_route(&gvr, &found, &standing, *generation, entries);
        match self.requests.write(request).await {
            Ok(written) => {
                self.telling.wrote(key, &wanted, written.version());
                debug!(object = %key, "wrote what it is attached to");
                Ok(())
            }
            Err(error) if is_gone(&error) => {
                self.telling.settle(key, &wanted);
                Ok(())
            }
            Err(RequestError::Refused(status)) if status.code == CONFLICT => Err(RequestError::Stale(status)),
            Err(error) => Err(error),
        }
    }

    fn telling_route(
        &self,
        gvr: &GroupVersionResource,
        found: &HubObject,
        standing: &Entries<'_>,
        generation: i64,
        entries: &[EntryTold],
    ) -> Result<Request<Vec<u8>>, request::Error> {
        let spec = found.spec_value();
        let room = ENTRIES_LIMIT.saturating_sub(standing.others.len());
        let mut parents: Vec<Box<RawValue>> =
            standing.others.iter().map(|entry| (*entry).to_owned()).collect();
        for EntryTold { reference, conditions } in entries.iter().take(room) {
            let written: &Value = &spec["parentRefs"][*reference];
            let Ok(parent) = serde_json::from_value::<ParentReference>(written.clone()) else { continue };
            let conditions = self.dated(&conditions.said, generation, standing.conditions(&parent));
            let entry = json!({
                "parentRef": written,
                "controllerName": self.controller.as_str(),
                "conditions": conditions,
            });
            parents.push(serde_json::value::to_raw_value(&entry).map_err(request::Error::SerializeBody)?);
        }
        let metadata = &found.metadata;
        let body = json!({
            "metadata": {"resourceVersion": metadata.resource_version},
            "status": {"parents": parents},
        });
        let parameters = PatchParams {
            field_manager: Some(self.controller.topology_field_manager()),
            ..PatchParams::default()
        };
        of_kind(gvr, &metadata.namespace).patch_subresource(
            "status",
            &metadata.name,
            &parameters,
            &Patch::Merge(&body),
        )
    }
}

#[cfg(test)]
mod tests;
