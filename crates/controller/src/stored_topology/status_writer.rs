//! The reconciler that writes the pending statuses.
//!
//! ```text
//! graph ──▶ statuses that differ ──▶ queue: Gateways first, namespaces of routes in turn ──▶ rate limit ──▶ hub
//!              ▲                                                                                            │
//!              └──────── watch delivers the written status: removed; another status: graph is rebuilt ◀─────┘
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::api::GetParams;
use parking_lot::Mutex;
use tracing::{debug, warn};

use super::index::Index;
use super::key::{StatusKey, StatusWriteKey};
use super::kinds::{self, GATEWAYS};
use super::pending::{Desired, PendingWrite};
use super::route_status::route_status_request;
use super::statuses::Statuses;
use super::throttle::Throttle;
use policy_sync_api::json::Hash;
use policy_sync_api::names::{ControllerName, ObjectKey};
use policy_sync_hub::clock::Clock;
use policy_sync_hub::reconcile::{
    Capability, Queue, ReconcileError, RequestError, Requests, Slot, WriteThrottle, apply, of_kind,
};
use policy_sync_mirror::Projection;
use policy_sync_sync as sync;
use policy_sync_topology::rows::RouteKind;

/// Maximum number of routes whose status is written per second. These writes are never urgent, and one policy on a
/// Gateway affects all of the Gateway's routes.
pub(super) const PER_SECOND: u32 = 20;

const FORBIDDEN: u16 = 403;
const NOT_FOUND: u16 = 404;
const CONFLICT: u16 = 409;

/// A failed status write. It is retried with backoff.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the status of {object}")]
pub(super) struct StatusError {
    object: String,
    source: RequestError,
}

impl ReconcileError for StatusError {
    fn category(&self) -> &'static str {
        self.source.category()
    }

    /// Only the first rejection is logged, because thousands of objects may be rejected for the same reason.
    fn is_expected(&self) -> bool {
        self.source.is_expected()
            || self.source.code() == FORBIDDEN
            || matches!(self.source, RequestError::Stale(_))
    }
}

/// Writes the statuses of Gateways and routes.
pub(super) struct StatusWriter {
    pub(super) controller: ControllerName,
    pub(super) mirror: Arc<policy_sync_mirror::Mirror<Index>>,
    pub(super) clock: Clock,
    pub(super) requests: Requests,
    pub(super) queue: Arc<Queue<StatusWriteKey>>,
    pub(super) statuses: Arc<Statuses>,
    pub(super) throttle: Throttle,
    /// The queue of the sync, which has precedence.
    pub(super) sync_queue: Arc<Queue<sync::Key>>,
    /// The last write of each object: the hashes of the status and of the object's uid.
    pub(super) repeats: WriteThrottle<StatusKey, (Hash, Hash)>,
    pub(super) logged: Logged,
}

/// The kinds with a logged warning (`None`: Gateways). There is one warning for all objects of a kind.
#[derive(Debug, Default)]
pub(super) struct Logged {
    refused: Mutex<BTreeSet<Option<RouteKind>>>,
    undone: Mutex<BTreeSet<Option<RouteKind>>>,
}

fn write_hashes(write: &PendingWrite) -> (Hash, Hash) {
    (write.status.digest, write.status.uid)
}

fn kind_of(key: &StatusKey) -> Option<RouteKind> {
    match key {
        StatusKey::Gateway(_) => None,
        StatusKey::Route(kind, _) => Some(*kind),
    }
}

impl Capability for StatusWriter {
    type Key = StatusWriteKey;
    type Error = StatusError;

    /// A new leader needs no list of keys, because its first graph queues the writes.
    fn all_keys(&self) -> BTreeSet<StatusWriteKey> {
        BTreeSet::new()
    }

    async fn reconcile(&self, turn: &StatusWriteKey, _slot: Slot) -> Result<(), StatusError> {
        let key = &turn.key;
        // A write that is no longer needed must not use up the rate limit.
        let Some(write) = self.statuses.read(|pending| pending.next(key)) else { return Ok(()) };
        if let Some(wait) = self.repeats.wait(key, &write_hashes(&write), self.clock.now()) {
            if self.logged.undone.lock().insert(kind_of(key)) {
                warn!(object = %key, "another writer reverts the status, maybe of other objects of this kind too");
            }
            self.queue.add_after(turn.clone(), wait);
            return Ok(());
        }
        let written = match key {
            StatusKey::Gateway(gateway) => self.gateway(key, gateway, &write).await,
            StatusKey::Route(kind, route) => {
                self.throttle.turn(&self.sync_queue).await;
                // A later graph may have changed the status during the wait.
                match self.statuses.read(|pending| pending.next(key)) {
                    Some(write) => self.route(key, *kind, route, &write).await,
                    None => Ok(()),
                }
            }
        };
        let Err(source) = written else { return Ok(()) };
        let object = key.to_string();
        if source.code() == FORBIDDEN && self.logged.refused.lock().insert(kind_of(key)) {
            warn!(object, error = %source, "no right to write the status, maybe of other objects of this kind either");
        }
        Err(StatusError { object, source })
    }
}

impl StatusWriter {
    async fn gateway(
        &self,
        key: &StatusKey,
        gateway: &ObjectKey,
        write: &PendingWrite,
    ) -> Result<(), RequestError> {
        let Desired::Gateway { uid, generation, conditions } = &write.status.desired else { return Ok(()) };
        let current = self.mirror.read().view(self.clock.now()).gateway(gateway).cloned();
        let Some(current) = current.filter(|current| current.has_uid(uid)) else {
            self.statuses.change(|pending| pending.remove_deleted(key, write));
            return Ok(());
        };
        let what = (&*conditions.texts, *generation);
        let request = current.request(&self.controller, gateway, what, self.clock.now());
        match apply::apply(&self.requests, &GATEWAYS.gvr(), gateway, uid, request).await {
            Ok(written) => self.wrote(key, write, written.version()),
            Err(error) if error.code() == NOT_FOUND => {
                self.statuses.change(|pending| pending.remove_deleted(key, write));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    async fn route(
        &self,
        key: &StatusKey,
        kind: RouteKind,
        route: &ObjectKey,
        write: &PendingWrite,
    ) -> Result<(), RequestError> {
        let gone = || self.statuses.change(|pending| pending.remove_deleted(key, write));
        let served =
            self.mirror.read().view(self.clock.now()).served(&kinds::routes(kind).to_string()).cloned();
        let Some(gvr) = served else {
            gone();
            return Ok(());
        };
        let get = of_kind(&gvr, &route.namespace).get(&route.name, &GetParams::default());
        let found = match self.requests.read(get, Projection::Full).await {
            Err(error) if error.code() == NOT_FOUND => {
                gone();
                return Ok(());
            }
            found => found?,
        };
        let request = route_status_request(&self.controller, &gvr, &found, &write.status, self.clock.now());
        let Some(request) = request.map_err(RequestError::Build)? else {
            let version = found.metadata.version();
            self.statuses.settle(|pending| pending.settle(key, write, version));
            return Ok(());
        };
        match self.requests.write(Ok(request)).await {
            Ok(written) => {
                self.wrote(key, write, written.version());
                Ok(())
            }
            Err(error) if error.code() == NOT_FOUND => {
                gone();
                Ok(())
            }
            Err(RequestError::Rejected(status)) if status.code == CONFLICT => {
                Err(RequestError::Stale(status))
            }
            Err(error) => Err(error),
        }
    }

    fn wrote(&self, key: &StatusKey, write: &PendingWrite, version: u64) {
        self.statuses.change(|pending| pending.wrote(key, write, version));
        self.repeats.wrote(key, write_hashes(write), self.clock.now());
        self.logged.refused.lock().remove(&kind_of(key));
        debug!(object = %key, "wrote its status");
    }
}
