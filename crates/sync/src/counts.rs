//! How many works there are. Counted as they come, change and go: to count them all, while nobody else may look at the
//! mirror, would take the longer the more there are.

use std::collections::BTreeMap;

use super::rows::work::{Purpose, Work};
use policy_sync_api::names::Origin;
use policy_sync_api::params::Role;

/// What works are for, each with the states that such a work can be in.
pub const GROUPS: [(&str, &[&str]); 5] = [
    ("access", &STATES),
    ("foreign", &STATES),
    ("gateway", &STATES),
    ("policy", &STATES),
    ("resource", &STATES),
];
const STATES: [&str; 4] = ["deleting", "not_applied", "pending", "applied"];

/// How many works there are, by what they are for and by the state they are in.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts(BTreeMap<(&'static str, &'static str), usize>);

impl Counts {
    /// A work is there now.
    pub(super) fn add(&mut self, work: &Work) {
        *self.0.entry((purpose(work), state(work))).or_default() += 1;
    }

    /// A work is there no longer as it was.
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

/// What a work is for.
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

/// What works of `origin`, whose kind is listed as what `role` says, are for.
#[must_use]
pub fn of_origin(origin: &Origin, role: Role) -> &'static str {
    match (origin, role) {
        (Origin::Gateway(_), _) => "gateway",
        (Origin::Object(..), Role::Policy) => "policy",
        (Origin::Object(..), Role::Resource) => "resource",
    }
}

/// The first of these that holds.
#[must_use]
pub fn state(work: &Work) -> &'static str {
    match &work.answer {
        _ if work.deleting.is_some() => "deleting",
        Some(answer) if answer.applied => "applied",
        Some(answer) if answer.message.is_some() => "not_applied",
        _ => "pending",
    }
}
