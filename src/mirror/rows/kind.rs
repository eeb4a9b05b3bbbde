//! What is known of a kind that parameters list.

use std::sync::Arc;

/// A kind of policies that can be synced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyKindInfo {
    /// Its name in objects (`RateLimitPolicy`).
    pub kind: Arc<str>,
    /// Whether its objects' annotations may be written.
    pub can_patch: bool,
}

/// Whether a kind that parameters list can be synced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// It can.
    Resolved(PolicyKindInfo),
    /// Its CustomResourceDefinition is gone: so are its objects.
    Gone,
    /// The definition does not serve the version, or is not established yet.
    UnknownVersion(String),
    /// It is cluster-scoped, or has no target reference.
    NotAPolicy(String),
    /// A right is missing.
    Forbidden(String),
    /// The server did not say.
    Unknown(String),
}

impl Resolution {
    /// The reason of the condition `PoliciesResolved` that this stands for.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Resolved(_) => "Resolved",
            Self::Gone | Self::UnknownVersion(_) | Self::Unknown(_) => "UnknownResource",
            Self::NotAPolicy(_) => "NotAPolicy",
            Self::Forbidden(_) => "Forbidden",
        }
    }

    /// What is wrong, empty where nothing is.
    #[must_use]
    pub fn fault(&self) -> &str {
        match self {
            Self::Resolved(_) => "",
            Self::Gone => "the hub has no such kind",
            Self::UnknownVersion(fault)
            | Self::NotAPolicy(fault)
            | Self::Forbidden(fault)
            | Self::Unknown(fault) => fault,
        }
    }
}
