//! Applies the plans of the sync by requests to the hub.
//!
//! ```text
//! key ──▶ view ──▶ decide ──▶ requests ──▶ hub
//! ```
//!
//! A key leaves an object unchanged until the watch has delivered the key's own last write to it. So no write is
//! repeated, and no decision uses outdated state.

pub mod decide;
mod large_works;
mod live;
pub mod objects;
mod other_controllers;
mod own_writes;
mod policy_sync;
mod regarding;
mod reports;
pub mod works;

pub use own_writes::{OwnWrites, UndeliveredWrite, conflicting_clusters};
pub use policy_sync::{PolicySync, PolicySyncOptions};

use std::sync::Arc;

use policy_sync_api::text::{truncate_bytes, with_causes};
use policy_sync_hub::reconcile::{NOTE_LIMIT, ReconcileError, RequestError};
use policy_sync_sync::status::RejectionReason;

/// A write that the hub rejects until an object or a setting on the hub changes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Refusal {
    reason: RejectionReason,
    note: String,
}

/// The error of a key. The queue plans the key again after a backoff.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A request failed.
    #[error("cannot {verb} {object}")]
    Request {
        /// The verb for the message: `create`, `patch`.
        verb: &'static str,
        /// The kind and name of the object.
        object: String,
        /// The error of the request.
        source: RequestError,
    },
    /// The cause of a delete differs between the API server and the mirror. Contains a description of the cause.
    #[error("deletes are postponed until the watch shows the change of {0}")]
    CauseChanged(String),
    /// The failure of a request that several keys share.
    #[error(transparent)]
    Shared(Arc<WriteError>),
    /// A work of the planned name does not belong to this controller.
    #[error("cluster {cluster} has a ManifestWork {name} of another owner: it is not changed")]
    ForeignWork {
        /// The cluster of the work.
        cluster: String,
        /// The name of the work.
        name: String,
    },
    /// Several of a key's writes failed.
    #[error("{count} writes failed, the first")]
    Several {
        /// The number of errors.
        count: usize,
        /// The first error.
        #[source]
        first: Box<WriteError>,
    },
}

impl ReconcileError for WriteError {
    fn category(&self) -> &'static str {
        match self {
            Self::Request { source, .. } => source.category(),
            Self::CauseChanged(_) => "cause_changed",
            Self::ForeignWork { .. } => "foreign_work",
            Self::Several { first, .. } => first.category(),
            Self::Shared(error) => error.category(),
        }
    }

    fn is_expected(&self) -> bool {
        matches!(self.category(), "cause_changed" | "not_leader")
    }
}

impl WriteError {
    /// The reason and message of a write that the hub will reject until an object or a setting on the hub changes.
    /// `None` for transient errors, such as an unavailable or overloaded hub.
    fn refusal(&self) -> Option<Refusal> {
        let reason = match self.category() {
            "forbidden" | "not_found" | "refused" => RejectionReason::WriteRejected,
            "foreign_work" => RejectionReason::ForeignWork,
            _ => return None,
        };
        let text = with_causes(self);
        Some(Refusal { reason, note: truncate_bytes(&text, NOTE_LIMIT).into_owned() })
    }

    /// Whether the hub rejected the write, or a foreign work of the same name prevented it. Transient errors do not
    /// count.
    fn is_rejection(&self) -> bool {
        !matches!(
            self.category(),
            "cause_changed" | "not_leader" | "conflict" | "throttled" | "connection" | "build"
        )
    }

    /// Combines the errors of a key's writes. `None` without errors.
    fn from_all(mut errors: Vec<Self>) -> Option<Self> {
        let count = errors.len();
        // Errors that need a fix come first. Errors are also sorted by text, so that equal errors give an equal
        // message.
        errors.sort_by_cached_key(|error| (error.refusal().is_none(), error.to_string()));
        let first = errors.into_iter().next()?;
        Some(if count == 1 { first } else { Self::Several { count, first: Box::new(first) } })
    }
}
