//! The work queue keys of the topology: its rebuild, and the status writes with their priority.

use std::fmt;

use policy_sync_api::names::ObjectKey;
use policy_sync_mirror::{self as mirror, Priority};
use policy_sync_topology::rows::RouteKind;

const OF_GATEWAY: &str = "topology_gateway";
const OF_ROUTE: &str = "topology_route";

/// A rebuild of the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key;

impl mirror::Key for Key {
    const CATEGORIES: &'static [&'static str] = &["topology"];

    fn category(&self) -> &'static str {
        "topology"
    }

    fn priority(&self) -> Priority {
        Priority::High
    }

    /// All changes within the window cause one rebuild.
    fn is_batched(&self) -> bool {
        true
    }
}

/// An object whose status shows the topology.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StatusKey {
    /// A Gateway.
    Gateway(ObjectKey),
    /// A route.
    Route(RouteKind, ObjectKey),
}

impl fmt::Display for StatusKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gateway(key) => write!(f, "Gateway {key}"),
            Self::Route(kind, key) => write!(f, "{} {key}", kind.kind().kind),
        }
    }
}

/// The queue's key for the write of one status.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StatusWriteKey {
    /// The object whose status is written.
    pub key: StatusKey,
    /// Whether the object itself changed, and not only objects that it depends on. In each namespace, changed routes
    /// and other routes take turns.
    pub changed: bool,
}

impl mirror::Key for StatusWriteKey {
    const CATEGORIES: &'static [&'static str] = &[OF_GATEWAY, OF_ROUTE];

    fn category(&self) -> &'static str {
        match self.key {
            StatusKey::Gateway(_) => OF_GATEWAY,
            StatusKey::Route(..) => OF_ROUTE,
        }
    }

    fn priority(&self) -> Priority {
        match &self.key {
            StatusKey::Gateway(_) => Priority::High,
            StatusKey::Route(_, key) if self.changed => Priority::Fair(key.namespace.clone()),
            // Unchanged routes of a namespace form their own group in the queue. The slash makes the name of the group
            // differ from all namespace names.
            StatusKey::Route(_, key) => Priority::Fair(format!("{}/", key.namespace).into()),
        }
    }
}
