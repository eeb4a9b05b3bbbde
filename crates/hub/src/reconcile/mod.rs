//! The reconciliation loop of any [`Capability`]. A capability plans objects of one part of the controller; its unit of
//! work is a *key*.
//!
//! ```text
//! keys ──▶ queue ──▶ worker ──▶ capability: read, decide, apply ──▶ requests ──▶ hub
//!            ▲                      │
//!            └── backoff, recheck ──┘
//! ```
//!
//! This module does not interpret keys. Every process reconciles the keys for which [`Capability::runs_on_followers`]
//! is true. Only the leader reconciles other keys; see [`Leadership`]. A follower drops these keys. When it becomes
//! the leader, it reconciles every key.

pub mod apply;
mod events;
mod expectations;
mod leadership;
mod queue;
mod requests;
mod worker;
mod write_throttle;

use std::collections::BTreeSet;
use std::error::Error;
use std::future::Future;

use kube::Client;
use policy_sync_mirror::Key;
use tokio_util::sync::CancellationToken;

use crate::tasks::Tasks;
use crate::telemetry::metrics::Metrics;

pub use events::{Events, NOTE_LIMIT, namespace_reference};
pub use expectations::{Expectation, Expectations, LastWrite};
pub use leadership::{Elector, ElectorOptions, Leadership, LeadershipChange};
pub use queue::Queue;
pub use requests::of_kind;
pub use requests::{RequestError, Requests};
pub use worker::{Slot, Worker};
pub use write_throttle::WriteThrottle;

/// The objects that all capabilities of a process share. Clones refer to the same objects.
#[derive(Clone)]
pub struct CapabilityContext {
    /// The client of the hub.
    pub client: Client,
    /// Whether this process may write.
    pub leadership: Leadership,
    /// The metrics of the process.
    pub metrics: Metrics,
    /// Supervises the tasks.
    pub tasks: Tasks,
    /// Requests the capability to stop.
    pub stop: CancellationToken,
}

/// Plans keys and applies the plans.
pub trait Capability: Send + Sync + 'static {
    /// The unit of reconciliation.
    type Key: Key;
    /// Why a key could not be reconciled.
    type Error: ReconcileError;

    /// All keys; they are reconciled when this process becomes the leader.
    fn all_keys(&self) -> BTreeSet<Self::Key>;

    /// Whether a follower reconciles `key`, too. Reconciling such a key must not write to the hub.
    fn runs_on_followers(&self, _key: &Self::Key) -> bool {
        false
    }

    /// Discards state that is valid only while this process stays the leader without interruption (one *term*).
    fn leadership_changed(&self) {}

    /// Plans `key` and applies the plan. `slot` counts against the limit of concurrent keys; dropping it early lets
    /// another key start.
    ///
    /// # Errors
    ///
    /// If the key must be reconciled again after a backoff.
    fn reconcile(&self, key: &Self::Key, slot: Slot) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// An error of a reconciliation.
pub trait ReconcileError: Error + Send + 'static {
    /// A stable identifier for the log.
    fn category(&self) -> &'static str;

    /// Whether the error occurs in normal operation: the watch lags behind a write, or another process leads. If so,
    /// the error is logged at debug level and not counted.
    fn is_expected(&self) -> bool;
}
