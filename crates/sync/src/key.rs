//! Keys of plans, which are the items of the work queue, and keys of works.

use std::collections::BTreeSet;

use policy_sync_api::names::{ClusterName, ObjectKey, Origin, WorkName};
use policy_sync_mirror::{self as mirror, Priority};

/// The subject of one plan.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// The set of watches that should run.
    Watches,
    /// The status of a GatewayClass.
    Class(ObjectKey),
    /// The access work of a cluster.
    Access(ClusterName),
    /// The works of a Gateway, policy or resource, whether or not it still exists.
    Works(Origin),
    /// The status that a policy or a Gateway has on the hub, folded from the reports of its clusters.
    Fold(Origin),
}

/// The keys that a change affects.
pub type Keys = BTreeSet<Key>;

impl mirror::Key for Key {
    const CATEGORIES: &'static [&'static str] = &["watches", "class", "access", "gateway", "policy", "fold"];

    fn category(&self) -> &'static str {
        match self {
            Self::Watches => "watches",
            Self::Class(_) => "class",
            Self::Access(_) => "access",
            Self::Works(Origin::Gateway(_)) => "gateway",
            Self::Works(Origin::Object(..)) => "policy",
            Self::Fold(_) => "fold",
        }
    }

    fn priority(&self) -> Priority {
        match self {
            Self::Watches | Self::Class(_) | Self::Access(_) => Priority::High,
            Self::Works(origin) | Self::Fold(origin) => Priority::Fair(origin.object().namespace.clone()),
        }
    }

    /// Folds are delayed, so that the reports of many clusters become one write.
    fn is_batched(&self) -> bool {
        matches!(self, Self::Fold(_))
    }
}

/// The key of a work: its name, which is the same in every cluster, and its cluster.
pub type WorkKey = (WorkName, ClusterName);

/// The key of a work's row in the mirror.
pub(crate) fn row_key(key: &WorkKey) -> ObjectKey {
    ObjectKey { namespace: key.1.0.clone(), name: key.0.0.clone() }
}

/// The key of the work whose row has the key `key`.
#[must_use]
pub fn work_key(key: &ObjectKey) -> WorkKey {
    (WorkName(key.name.clone()), ClusterName(key.namespace.clone()))
}
