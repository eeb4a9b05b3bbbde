//! Which resource a plural name refers to on this hub. Each mirror that needs these results stores them as rows.

use crate::{Family, Row, SourceEvent};
use policy_sync_api::names::{GroupVersionResource, ObjectKey};

/// The resolved plurals.
pub static RESOLVED_PLURALS: Family<ResolvedPlural> = Family::computed("served kinds");

/// The result of resolving a plural.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolvedPlural {
    /// The plural refers to this resource.
    Resource(GroupVersionResource),
    /// The resource cannot be listed and watched.
    NotWatchable,
    /// The hub serves no resource with this plural.
    NotServed,
    /// Discovery failed with this error.
    DiscoveryFailed(String),
}

impl Row for ResolvedPlural {}

/// The key of the row for `plural`.
#[must_use]
pub fn plural_key(plural: &str) -> ObjectKey {
    ObjectKey::new("", plural)
}

/// The change that stores the result for `plural`.
#[must_use]
pub fn resolution(plural: &str, served: ResolvedPlural) -> SourceEvent {
    SourceEvent::computed(RESOLVED_PLURALS.all(), plural_key(plural), served)
}
