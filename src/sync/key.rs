//! What the sync plans at a time.

use std::collections::BTreeSet;

use policy_sync_api::names::{ClusterName, ObjectKey, Origin};
use policy_sync_hub::reconcile::{self, Priority};

/// Something to plan for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// Which watches should run.
    Watches,
    /// The status of a GatewayClass.
    Class(ObjectKey),
    /// The access work of a cluster.
    Access(ClusterName),
    /// The works of a Gateway or of a policy, whether or not it still exists.
    Works(Origin),
    /// What a hub policy, or a Gateway, says of its clusters.
    Fold(Origin),
}

/// The keys that a change affects.
pub type Keys = BTreeSet<Key>;

impl reconcile::Key for Key {
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
            Self::Watches | Self::Class(_) | Self::Access(_) => Priority::First,
            Self::Works(origin) | Self::Fold(origin) => Priority::InTurn(origin.object().namespace.clone()),
        }
    }

    /// Many answers become one write.
    fn is_batched(&self) -> bool {
        matches!(self, Self::Fold(_))
    }
}
