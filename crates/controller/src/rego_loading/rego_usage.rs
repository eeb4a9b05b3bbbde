//! A summary of the existing Rego policies, which decides the webhooks to register and the kinds to audit.

use std::collections::BTreeSet;

use policy_sync_api::names::GroupResource;
use policy_sync_rego::queries::{ADMISSION, PLACEMENT};

/// A summary of the existing Rego policies. Invalid policies count too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegoUsage {
    /// Whether there are placement policies.
    pub placement: bool,
    /// The kinds covered by admission policies; `None` without such policies.
    pub admission: Option<AdmissionKinds>,
    /// Whether any carrier exists.
    pub carriers: bool,
}

impl RegoUsage {
    /// Whether there is a Rego policy of the purpose `what`.
    pub(super) fn has_policies_for(&self, what: &str) -> bool {
        match what {
            PLACEMENT => self.placement,
            ADMISSION => self.admission.is_some(),
            _ => false,
        }
    }
}

/// The kinds whose objects Rego policies may deny.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdmissionKinds {
    /// The kinds that Rego policies name.
    pub kinds: BTreeSet<GroupResource>,
    /// Whether a Rego policy names no kind. It may deny objects of any kind.
    pub any: bool,
    /// A named plural that is not resolved yet.
    pub unresolved: Option<String>,
    /// Whether all Rego policies are valid. If not, the invalid ones may cover more kinds.
    pub is_whole: bool,
}
