//! Keys of the remediation queue.

use std::sync::Arc;

use policy_sync_api::names::{GroupResource, ObjectKey};
use policy_sync_mirror::{self as mirror, Priority};

/// A unit of work of remediation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Key {
    /// Update the set of watched kinds.
    Kinds,
    /// Like `All`, but also records that placement policies or their data changed.
    InputsChanged,
    /// A pass over all objects of all kinds.
    All,
    /// A pass over all objects of a kind.
    Kind(GroupResource),
    /// A check of a kind for *traces*, which are values that former placement policies set on objects.
    Traces(GroupResource),
    /// A check of all objects of a Namespace.
    Namespace(Arc<str>),
    /// A check of one object.
    Object(Object),
}

/// An object to which placement policies may apply.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Object {
    pub kind: GroupResource,
    pub key: ObjectKey,
}

impl std::fmt::Display for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind, self.key)
    }
}

impl mirror::Key for Key {
    const CATEGORIES: &'static [&'static str] = &[
        "placement_kinds",
        "placement_moved",
        "placement_all",
        "placement_kind",
        "placement_left",
        "placement_namespace",
        "placement_object",
    ];

    fn category(&self) -> &'static str {
        match self {
            Self::Kinds => "placement_kinds",
            Self::InputsChanged => "placement_moved",
            Self::All => "placement_all",
            Self::Kind(_) => "placement_kind",
            Self::Traces(_) => "placement_left",
            Self::Namespace(_) => "placement_namespace",
            Self::Object(_) => "placement_object",
        }
    }

    fn priority(&self) -> Priority {
        match self {
            Self::Kinds | Self::InputsChanged | Self::All => Priority::High,
            Self::Kind(_) | Self::Traces(_) => Priority::Fair("".into()),
            Self::Namespace(namespace) => Priority::Fair(namespace.clone()),
            Self::Object(object) => Priority::Fair(object.key.namespace.clone()),
        }
    }
}
