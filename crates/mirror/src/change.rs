//! The events that a mirror receives, and the resulting changes of its content.

use crate::row::{AnyRow, Row};
use crate::source::{DeclaredKind, Source};
use policy_sync_api::names::ObjectKey;

/// A change on the hub, as a watch reports it.
#[derive(Debug)]
pub enum SourceEvent {
    /// An object was listed, created or updated.
    Applied {
        /// The source of the object.
        source: Source,
        /// The object's namespace and name.
        key: ObjectKey,
        /// The object's resource version.
        version: u64,
        /// The object's row.
        row: AnyRow,
    },
    /// An object was deleted.
    Deleted {
        /// The source of the object.
        source: Source,
        /// The object's namespace and name.
        key: ObjectKey,
        /// The resource version of the deletion.
        version: u64,
    },
    /// Listing or watching a source has failed, with the failure. `None` means that the source works again.
    FailureChanged(Source, Option<WatchFailure>),
}

/// A change of the mirror's content, from which a capability derives the keys to reconcile.
#[derive(Debug)]
pub enum MirrorChange {
    /// Anything may have changed: the first listing of all needed kinds is complete.
    Everything,
    /// An object was created, updated or deleted.
    Object {
        /// The source of the object.
        source: Source,
        /// The object's namespace and name.
        key: ObjectKey,
        /// The previous row; `None` if the object was created.
        before: Option<AnyRow>,
    },
    /// The first listing of a source is complete.
    Listed(Source),
    /// A source is no longer watched.
    Unwatched(Source),
    /// A source's failure has begun, ended or changed.
    FailureChanged {
        /// The source that fails or failed.
        source: Source,
        /// Whether the failure has begun or ended. False if only its reason has changed.
        toggled: bool,
    },
}

impl SourceEvent {
    /// The event for a row that a task has computed. Such a row comes from no watch and has no resource version.
    #[must_use]
    pub fn computed<R: Row>(source: Source, key: ObjectKey, row: R) -> Self {
        Self::Applied { source, key, version: 0, row: AnyRow::new(row) }
    }
}

impl MirrorChange {
    /// The key and the previous row of the changed object, if it belongs to `kind`.
    #[must_use]
    pub fn object_of<K: DeclaredKind>(&self, kind: &K) -> Option<(&ObjectKey, Option<&K::Row>)> {
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
pub struct WatchFailure {
    /// The hub's message if the hub sent one, otherwise the client's message.
    pub text: String,
    /// Whether a retry may succeed.
    pub kind: WatchFailureKind,
}

/// Classifies a failure by whether a retry may succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchFailureKind {
    /// The hub sent no response.
    NoResponse,
    /// Transient: a retry may succeed.
    Transient,
    /// The hub rejected the credentials (401). They must be fixed.
    Unauthenticated,
    /// The hub denied access (403). Permissions must be fixed.
    Forbidden,
}

impl WatchFailure {
    /// A transient failure.
    #[must_use]
    pub fn transient(text: impl Into<String>) -> Self {
        Self { text: text.into(), kind: WatchFailureKind::Transient }
    }
}
