//! Keys in, writes out, for any capability.
//!
//! ```text
//! keys ──▶ queue ──▶ worker ──▶ capability: look, decide, carry out ──▶ requests ──▶ hub
//!            ▲                      │
//!            └── backoff, recheck ──┘
//! ```
//!
//! Nothing here knows what a key stands for. Only the process that leads carries keys out; see [`Leadership`]. The others
//! drop those that come, and carry out every key there is when they begin to lead.

pub mod apply;
mod events;
mod expectations;
mod leadership;
mod queue;
mod repeats;
mod requests;
mod worker;

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::Debug;
use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;

use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::tasks::Tasks;
use crate::telemetry::metrics::Metrics;

pub use events::{Events, NOTE_LIMIT};
pub use expectations::{Expectations, Expected, LastWrite};
pub use leadership::{Elector, ElectorOptions, Leadership, LeadershipChange};
pub use queue::Queue;
pub use repeats::Repeats;
pub use requests::of_kind;
pub use requests::{RequestError, Requests};
pub use worker::{Slot, Worker};

/// What every capability runs with. Clones share it.
#[derive(Clone)]
pub struct Parts {
    /// The client of the hub.
    pub client: Client,
    /// Whether this process may write.
    pub leadership: Leadership,
    /// The metrics of the process.
    pub metrics: Metrics,
    /// Supervises the tasks.
    pub tasks: Tasks,
    /// Ends the capability.
    pub stop: CancellationToken,
}

/// Something that is kept as its plan has it.
pub trait Key: Clone + Debug + Eq + Hash + Ord + Send + Sync + 'static {
    /// What kinds of keys there are, as metrics label them: a few words.
    const CATEGORIES: &'static [&'static str];

    /// Of which of these it is.
    fn category(&self) -> &'static str;

    /// Which keys it comes before.
    fn priority(&self) -> Priority;

    /// Whether changes that affect it within the queue's window are carried out together.
    fn is_batched(&self) -> bool {
        false
    }
}

/// Which keys come before others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Those that many others wait for.
    First,
    /// The rest, of which namespaces take turns: however many one has, no other waits for more than one of them.
    InTurn(Arc<str>),
}

/// What plans keys and carries them out.
pub trait Capability: Send + Sync + 'static {
    /// What it plans.
    type Key: Key;
    /// Why a key could not be carried out.
    type Error: Failure;

    /// Every key there is.
    fn everything(&self) -> BTreeSet<Self::Key>;

    /// Whether a process that does not lead carries `key` out as well: it writes nothing.
    fn is_for_followers(&self, _key: &Self::Key) -> bool {
        false
    }

    /// Forgets what counts within one term only.
    fn leadership_changed(&self) {}

    /// Plans `key` and carries the plan out. `slot` is its share of the work that is done at a time: where it is dropped,
    /// others are carried out meanwhile.
    ///
    /// # Errors
    ///
    /// Where the key is to be planned again, after a backoff.
    fn carry_out(&self, key: &Self::Key, slot: Slot) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// Why a key could not be carried out.
pub trait Failure: Error + Send + 'static {
    /// A stable word for the log.
    fn category(&self) -> &'static str;

    /// Whether it comes with the daily course: the watch is a moment behind, or another process leads.
    fn is_routine(&self) -> bool;
}
