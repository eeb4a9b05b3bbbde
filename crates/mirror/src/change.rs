//! What the watch tells the mirror, and what that comes to.

use crate::row::{AnyRow, Row};
use crate::source::{Registered, Source};
use policy_sync_api::names::ObjectKey;

/// A change of the hub.
#[derive(Debug)]
pub enum Change {
    /// An object is there, as this row shows it.
    Applied {
        /// Where it comes from.
        source: Source,
        /// Its namespace and name.
        key: ObjectKey,
        /// Its resource version.
        version: u64,
        /// What is kept of it.
        row: AnyRow,
    },
    /// An object is gone.
    Deleted {
        /// Where it came from.
        source: Source,
        /// Its namespace and name.
        key: ObjectKey,
        /// The resource version of its deletion.
        version: u64,
    },
    /// A source could not be listed or watched; `None` once it can again.
    Failing(Source, Option<Failure>),
}

/// What a change came to: what a capability goes by to find what it plans anew.
#[derive(Debug)]
pub enum Changed {
    /// Anything: all that is needed has been listed now.
    Everything,
    /// An object came, went or changed.
    Object {
        /// Where it comes from.
        source: Source,
        /// Its namespace and name.
        key: ObjectKey,
        /// What was kept of it, `None` where it was not there.
        before: Option<AnyRow>,
    },
    /// A source was listed whole for the first time.
    Listed(Source),
    /// A source is watched no longer.
    Forgotten(Source),
    /// A source cannot be listed or watched, can be again, or cannot for another reason.
    Failing {
        /// The source.
        source: Source,
        /// Whether it could before, or can now.
        toggled: bool,
    },
}

impl Change {
    /// A row of `source` that some task found out.
    #[must_use]
    pub fn found<R: Row>(source: Source, key: ObjectKey, row: R) -> Self {
        Self::Applied { source, key, version: 0, row: AnyRow::new(row) }
    }
}

impl Changed {
    /// The key of the object that changed, and what was kept of it, where it is of `kind`.
    #[must_use]
    pub fn object_of<K: Registered>(&self, kind: &K) -> Option<(&ObjectKey, Option<&K::Row>)> {
        match self {
            Self::Object { source, key, before } if source.is(kind) => {
                Some((key, before.as_ref().and_then(AnyRow::get)))
            }
            _ => None,
        }
    }
}

/// Why a source cannot be listed or watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// In the hub's words, where it gave any.
    pub text: String,
    /// Whether it may pass.
    pub kind: FailureKind,
}

/// Whether a failure may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The hub did not answer.
    NoAnswer,
    /// It may pass by itself.
    Passing,
    /// The hub does not know who asks (401), and will not until somebody changes something.
    Unauthenticated,
    /// The hub refuses it (403), and will until somebody changes something.
    Refused,
}

impl Failure {
    /// One that may pass by itself.
    #[must_use]
    pub fn passing(text: impl Into<String>) -> Self {
        Self { text: text.into(), kind: FailureKind::Passing }
    }
}
