//! What plurals are on this hub: found out, and kept in whichever mirror wants to know.

use crate::{Change, Family, Row};
use policy_sync_api::names::{GroupVersionResource, ObjectKey};

/// What plurals are on this hub.
pub static SERVED: Family<Served> = Family::found_out("served kinds");

/// What a plural is on this hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Served {
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

/// The key of what is known of `plural`.
#[must_use]
pub fn served_key(plural: &str) -> ObjectKey {
    ObjectKey::new("", plural)
}

/// It was found out what `plural` is.
#[must_use]
pub fn found(plural: &str, served: Served) -> Change {
    Change::found(SERVED.all(), served_key(plural), served)
}
