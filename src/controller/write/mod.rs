//! The apply side of the sync: what is planned becomes writes.
//!
//! ```text
//! key ──▶ view ──▶ decide ──▶ requests ──▶ hub
//! ```
//!
//! A key is planned from a view that already shows the key's own last writes; until the watch has brought them,
//! what they touched is left alone. So no write is repeated, and none is decided from what it has overtaken.

mod bodies;
pub mod decide;
mod live;
mod log;
pub mod objects;
mod own_writes;
mod policy_sync;
mod regarding;
mod reports;
mod rivals;
pub mod works;

pub use own_writes::{OwnWrites, Written, crossed};
pub use policy_sync::{PolicySync, PolicySyncOptions};

use std::sync::Arc;

use policy_sync_api::text::{capped, with_causes};
use policy_sync_hub::reconcile::{Failure, NOTE_LIMIT, RequestError};
use policy_sync_sync::status::RefusalReason;

/// What is told of a write that the hub does not take.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Refusal {
    reason: RefusalReason,
    note: String,
}

/// Why a key could not be carried out. It is planned again, after a backoff.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A request failed.
    #[error("cannot {verb} {object}")]
    Request {
        /// `create`, `patch`.
        verb: &'static str,
        /// The object.
        object: String,
        /// Why.
        source: RequestError,
    },
    /// The server knows something that the mirror does not know yet.
    #[error("deletes wait: the hub has changed {0} since it was seen")]
    CauseChanged(String),
    /// Something failed that several keys waited for.
    #[error(transparent)]
    Shared(Arc<WriteError>),
    /// A work of the planned name exists that the watch does not show.
    #[error("cluster {cluster} has a ManifestWork {name} that is not ours: it is left alone")]
    ForeignWork {
        /// The cluster.
        cluster: String,
        /// The work.
        name: String,
    },
    /// Several of a key's writes failed.
    #[error("{count} writes failed, the first")]
    Several {
        /// How many.
        count: usize,
        /// The first.
        #[source]
        first: Box<WriteError>,
    },
}

impl Failure for WriteError {
    fn category(&self) -> &'static str {
        match self {
            Self::Request { source, .. } => source.category(),
            Self::CauseChanged(_) => "cause_changed",
            Self::ForeignWork { .. } => "foreign_work",
            Self::Several { first, .. } => first.category(),
            Self::Shared(error) => error.category(),
        }
    }

    fn is_routine(&self) -> bool {
        matches!(self.category(), "cause_changed" | "not_leader")
    }
}

impl WriteError {
    /// A reason and the hub's words, where it will not take the write before somebody changes something: what is
    /// none of the daily course, of a hub that is away, or of one that is busy.
    fn refusal(&self) -> Option<Refusal> {
        let reason = match self.category() {
            "forbidden" | "not_found" | "refused" => RefusalReason::WriteRefused,
            "foreign_work" => RefusalReason::ForeignWork,
            _ => return None,
        };
        let text = with_causes(self);
        Some(Refusal { reason, note: capped(&text, NOTE_LIMIT).into_owned() })
    }

    /// Whether the hub, or a work that is in the way, has said no. That it is away, busy, or ahead of the watch is none.
    fn says_no(&self) -> bool {
        !matches!(
            self.category(),
            "cause_changed" | "not_leader" | "conflict" | "throttled" | "connection" | "build"
        )
    }

    /// One error for all that a key's writes ended in, `None` for none.
    fn from_all(mut errors: Vec<Self>) -> Option<Self> {
        let count = errors.len();
        // What somebody has to mend first, then in the order of their words, so that the same errors say the same again.
        errors.sort_by_cached_key(|error| (error.refusal().is_none(), error.to_string()));
        let first = errors.into_iter().next()?;
        Some(if count == 1 { first } else { Self::Several { count, first: Box::new(first) } })
    }
}
