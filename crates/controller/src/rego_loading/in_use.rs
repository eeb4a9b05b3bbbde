//! A summary of the existing Rego policies, which decides the webhooks to register and the kinds to audit.

use std::collections::BTreeSet;

use policy_sync_api::names::GroupResource;
use policy_sync_rego::asked::{ADMISSION, PLACEMENT};

/// A summary of the existing Rego policies. Invalid policies count too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InUse {
    /// Whether there are placement policies.
    pub placement: bool,
    /// The kinds covered by admission policies; `None` without such policies.
    pub admission: Option<Gated>,
    /// Whether any carrier exists.
    pub carriers: bool,
}

impl InUse {
    /// Whether there is a Rego policy for the purpose `what`.
    pub(super) fn asks(&self, what: &str) -> bool {
        match what {
            PLACEMENT => self.placement,
            ADMISSION => self.admission.is_some(),
            _ => false,
        }
    }
}

/// The kinds whose objects Rego policies may deny.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gated {
    /// The kinds that Rego policies name.
    pub kinds: BTreeSet<GroupResource>,
    /// Whether a Rego policy names no kind. It may deny objects of any kind.
    pub any: bool,
    /// A named plural that is not resolved yet.
    pub awaited: Option<String>,
    /// Whether all Rego policies are valid. If not, the invalid ones may cover more kinds.
    pub is_whole: bool,
}
