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

use super::index::Index;
use super::kinds::{self, GATEWAYS};
use super::metrics::TopologyMetrics;
use super::pace::Pace;
use super::standing::Entries;
use crate::api::condition::transition;
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
    /// A route: the hash of its uid, its generation, and its entries.
    Route(Hash, i64, Vec<EntryTold>),
}

/// The same, with the hash of it.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) told: Told,
    pub(super) said: Hash,
    /// Whether the object has changed itself, and does not only follow others.
    pub(super) changed: bool,
}

/// What is to be written, as the last graph has it.
#[derive(Debug)]
pub(super) struct Telling {
    pending: Mutex<HashMap<Key, (Pending, State)>>,
    queue: Arc<Queue<Turn>>,
    metrics: TopologyMetrics,
}

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It is to be written.
    Waits,
    /// It was written, and the watch has not brought it yet.
    Written,
}

impl Telling {
    pub(super) fn new(queue: Arc<Queue<Turn>>, metrics: TopologyMetrics) -> Self {
        Self { pending: Mutex::default(), queue, metrics }
    }

    /// Takes what the last graph has, in place of what the one before had.
    pub(super) fn replace(&self, told: HashMap<Key, Pending>) {
        let mut pending = self.pending.lock();
        let mut known = std::mem::take(&mut *pending);
        let mut new = Vec::new();
        *pending = told
            .into_iter()
            .map(|(key, wanted)| {
                let state = match known.remove(&key) {
                    // What waits after a failure waits on.
                    Some((before, state)) if before.said == wanted.said => state,
                    _ => {
                        new.push(Turn { of: key.clone(), changed: wanted.changed });
                        State::Waits
                    }
                };
                (key, (wanted, state))
            })
            .collect();
        self.count(&pending);
        drop(pending);
        self.queue.affect(new);
    }

    /// Forgets all: another process leads, or this one anew.
    pub(super) fn forget(&self) {
        self.replace(HashMap::new());
    }

    /// Whether the watch brings what this process has written: then it is done with.
    pub(super) fn brings(&self, key: &Key, said: Hash) -> bool {
        let mut pending = self.pending.lock();
        let Some((wanted, state)) = pending.get(key) else { return false };
        let is_it = wanted.said == said;
        // Somebody else has written over it: the next graph has it written anew.
        if is_it || *state == State::Written {
            pending.remove(key);
            self.count(&pending);
        }
        is_it
    }

    fn wanted(&self, key: &Key) -> Option<Pending> {
        let pending = self.pending.lock();
        pending.get(key).filter(|(_, state)| *state == State::Waits).map(|(wanted, _)| wanted.clone())
    }

    /// Notes that what `key` says was written so.
    fn wrote(&self, key: &Key, said: Hash) {
        let mut pending = self.pending.lock();
        if let Some((wanted, state)) = pending.get_mut(key)
            && wanted.said == said
        {
            *state = State::Written;
            self.count(&pending);
        }
    }

    /// Forgets what `key` was to say: it says it, or the graph is about to be built anew.
    fn settle(&self, key: &Key) {
        let mut pending = self.pending.lock();
        pending.remove(key);
        self.count(&pending);
    }

    fn count(&self, pending: &HashMap<Key, (Pending, State)>) {
        self.metrics.pending(pending.values().filter(|(_, state)| *state == State::Waits).count());
    }

    fn everything(&self) -> BTreeSet<Turn> {
        let pending = self.pending.lock();
        pending.iter().map(|(key, (wanted, _))| Turn { of: key.clone(), changed: wanted.changed }).collect()
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

    fn everything(&self) -> BTreeSet<Turn> {
        self.telling.everything()
    }

    fn leadership_changed(&self) {
        self.telling.forget();
    }

    async fn carry_out(&self, Turn { of: key, .. }: &Turn, _slot: Slot) -> Result<(), TellError> {
        let (kind, told) = match key {
            Key::Gateway(gateway) => (None, self.gateway(key, gateway).await),
            Key::Route(kind, route) => {
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
        let Some(Pending { told: Told::Gateway(uid, generation, conditions), said, .. }) =
            self.telling.wanted(key)
        else {
            return Ok(());
        };
        let standing = self.mirror.read().view(self.clock.now()).gateway(gateway).cloned();
        let Some(standing) = standing.filter(|standing| standing.uid == uid) else { return Ok(()) };
        let conditions = self.dated(&conditions.said, generation, &standing.conditions);
        let request = self.telling_gateway(gateway, &uid, &conditions);
        apply::apply(&self.requests, &GATEWAYS.gvr(), gateway, &uid, request).await?;
        self.telling.wrote(key, said);
        debug!(object = %key, "wrote which policies affect it");
        Ok(())
    }

    /// `said` as conditions, as far as they are no others since when they are: `found` knows.
    fn dated(&self, said: &[Said], generation: i64, found: &[Condition]) -> Vec<Condition> {
        let now = self.clock.now();
        let dated = said.iter().map(|said| Condition {
            type_: said.name.clone(),
            status: said.status.to_owned(),
            reason: said.reason.to_owned(),
            message: said.message.clone(),
            observed_generation: Some(generation),
            last_transition_time: transition(found, &said.name, said.status, now),
        });
        dated.collect()
    }

    fn telling_gateway(
        &self,
        gateway: &ObjectKey,
        uid: &str,
        conditions: &[Condition],
    ) -> Result<Request<Vec<u8>>, request::Error> {
        let mut body = json!({
            "apiVersion": GATEWAYS.gvr().api_version(),
            "kind": "Gateway",
            "metadata": {"name": gateway.name, "namespace": gateway.namespace, "uid": uid},
        });
        // Even an empty status would be one that is ours.
        if !conditions.is_empty() {
            body["status"] = json!({"conditions": conditions});
        }
        let parameters = PatchParams::apply(&self.controller.topology_field_manager()).force();
        let gateways = of_kind(&GATEWAYS.gvr(), &gateway.namespace);
        gateways.patch_subresource("status", &gateway.name, &parameters, &apply::body(&body)?)
    }

    async fn route(&self, key: &Key, kind: RouteKind, route: &ObjectKey) -> Result<(), RequestError> {
        let Some(Pending { told: Told::Route(uid, generation, entries), said, .. }) =
            self.telling.wanted(key)
        else {
            return Ok(());
        };
        let Some(gvr) =
            self.mirror.read().view(self.clock.now()).served(&kinds::routes(kind).to_string()).cloned()
        else {
            return Ok(());
        };
        let routes = of_kind(&gvr, &route.namespace);
        let found =
            match self.requests.read(routes.get(&route.name, &GetParams::default()), Extent::Whole).await {
                Err(RequestError::Refused(status)) if status.code == NOT_FOUND => {
                    self.telling.settle(key);
                    return Ok(());
                }
                found => found?,
            };
        let standing = Entries::read(&found, &self.controller);
        let is_another = Hash::of_text(&found.metadata.uid) != uid || found.metadata.generation != generation;
        // What is there is newer than the graph, which is about to be built anew; or says it already.
        if is_another || standing.said() == said {
            self.telling.settle(key);
            return Ok(());
        }
        let written =
            self.requests.write(self.telling_route(&gvr, &found, &standing, generation, &entries)).await;
        match written {
            Ok(_) => {
                self.telling.wrote(key, said);
                debug!(object = %key, "wrote what it is attached to");
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
