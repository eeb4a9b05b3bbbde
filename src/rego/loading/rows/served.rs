//! What a plural is on this hub.

use crate::api::names::GroupVersionResource;
use crate::hub::Row;

/// What a plural is on this hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    /// A kind.
    As(GroupVersionResource),
    /// A kind whose objects cannot be listed and watched.
    Unlisted,
    /// None.
    Nowhere,
    /// The hub did not say.
    Unknown(String),
}

impl Row for Served {}
