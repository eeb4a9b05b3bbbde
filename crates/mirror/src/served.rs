//! Which resource a plural name refers to on this hub. Each mirror that needs these results stores them as rows.

use crate::{Change, Family, Row};
use policy_sync_api::names::{GroupVersionResource, ObjectKey};

/// The resolved plurals.
pub static SERVED: Family<Served> = Family::found_out("served kinds");

/// The result of resolving a plural.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Served {
    /// It refers to this resource.
    As(GroupVersionResource),
    /// The resource cannot be listed and watched.
    Unlisted,
    /// The hub serves no such resource.
    Nowhere,
    /// Discovery failed with this error.
    Unknown(String),
}

impl Row for Served {}

/// The key of the row for `plural`.
#[must_use]
pub fn served_key(plural: &str) -> ObjectKey {
    ObjectKey::new("", plural)
}

/// The change that stores the result for `plural`.
#[must_use]
pub fn found(plural: &str, served: Served) -> Change {
    Change::found(SERVED.all(), served_key(plural), served)
}
