//! Which policies there are, and which kinds they may deny.

use std::collections::BTreeSet;

use policy_sync_api::names::GroupResource;
use policy_sync_rego::asked::{ADMISSION, PLACEMENT};

/// Which policies there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InUse {
    /// Whether any says where objects go, be it one that cannot be asked.
    pub placement: bool,
    /// Of which kinds policies deny objects, where any does, be it one that cannot be asked.
    pub admission: Option<Gated>,
    /// Whether any object carries something, be it of no use.
    pub carriers: bool,
}

impl InUse {
    /// Whether there is a policy that webhooks ask for `what`.
    pub(super) fn asks(&self, what: &str) -> bool {
        match what {
            PLACEMENT => self.placement,
            ADMISSION => self.admission.is_some(),
            _ => false,
        }
    }
}

/// The kinds whose objects policies may deny.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gated {
    /// Those that they name.
    pub kinds: BTreeSet<GroupResource>,
    /// Whether one names none: then these are all.
    pub any: bool,
    /// One that they name, and of which nobody knows yet what it is.
    pub awaited: Option<String>,
    /// Whether all policies could be read: others may name what they did.
    pub is_whole: bool,
}
