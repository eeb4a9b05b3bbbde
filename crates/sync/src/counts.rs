//! Counts works by purpose and state.
//!
//! The counts are updated with each change of a work. Counting all works on demand would lock the mirror for a time
//! that grows with their number.

use std::collections::BTreeMap;

use super::rows::work::{Purpose, Work};
use policy_sync_api::names::Origin;
use policy_sync_api::params::Role;

/// The purposes of works, each with the possible states of a work with this purpose.
pub const GROUPS: [(&str, &[&str]); 5] = [
    ("access", &STATES),
    ("foreign", &STATES),
    ("gateway", &STATES),
    ("policy", &STATES),
    ("resource", &STATES),
];
const STATES: [&str; 4] = ["deleting", "not_applied", "pending", "applied"];

/// The number of works by purpose and state.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts(BTreeMap<(&'static str, &'static str), usize>);

impl Counts {
    /// Counts a new work, or the new version of a changed work.
    pub(super) fn add(&mut self, work: &Work) {
        *self.0.entry((purpose(work), state(work))).or_default() += 1;
    }

    /// Subtracts a deleted work, or the old version of a changed work.
    pub(super) fn take(&mut self, work: &Work) {
        let group = (purpose(work), state(work));
        if let Some(count) = self.0.get_mut(&group) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.0.remove(&group);
            }
        }
    }

    pub(super) fn all(&self) -> BTreeMap<(&'static str, &'static str), usize> {
        self.0.clone()
    }
}

/// The purpose of a work, one of those in [`GROUPS`].
#[must_use]
pub fn purpose(work: &Work) -> &'static str {
    match &work.purpose {
        Purpose::Access(_) => "access",
        Purpose::Foreign => "foreign",
        Purpose::Copy(origin) => {
            of_origin(origin, if work.of_resource { Role::Resource } else { Role::Policy })
        }
    }
}

/// The purpose of the works of `origin`, if parameters list its kind in the role `role`.
#[must_use]
pub fn of_origin(origin: &Origin, role: Role) -> &'static str {
    match (origin, role) {
        (Origin::Gateway(_), _) => "gateway",
        (Origin::Object(..), Role::Policy) => "policy",
        (Origin::Object(..), Role::Resource) => "resource",
    }
}

/// The state of a work: the first that applies of `deleting`, `applied`, `not_applied` (its agent reports an error) and
/// `pending`.
#[must_use]
pub fn state(work: &Work) -> &'static str {
    match &work.report {
        _ if work.deleting.is_some() => "deleting",
        Some(report) if report.applied => "applied",
        Some(report) if report.message.is_some() => "not_applied",
        _ => "pending",
    }
}
