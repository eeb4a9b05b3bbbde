//! Metadata of loaded Rego policies for reviews, webhooks and audits: names of kinds, kinds whose objects may be
//! denied, and enforcement.

use std::collections::BTreeSet;

use super::plan;
use super::settings::Settings;
use super::verdict::Verdicts;
use super::view::View;
use policy_sync_api::names::GroupResource;
use policy_sync_api::rego_policy::EnforcementAction;
use policy_sync_mirror::plurals::ResolvedPlural;
use policy_sync_rego::queries::{ADMISSION, PLACEMENT};
use policy_sync_rego::review::DeniedKinds;
use policy_sync_rego::snapshot::{ReviewInputs, Snapshot};

/// A summary of the existing Rego policies, including invalid ones. It determines the webhooks to register and the
/// kinds to audit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegoUsage {
    /// Whether there are placement policies.
    pub placement: bool,
    /// The kinds covered by admission policies; `None` without admission policies.
    pub admission: Option<AdmissionKinds>,
    /// Whether any carrier exists.
    pub carriers: bool,
}

impl RegoUsage {
    /// Whether there is a Rego policy for `purpose`.
    pub(super) fn has_policies_for(&self, purpose: &str) -> bool {
        match purpose {
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
    /// Whether a Rego policy names no kind, so that it may deny objects of any kind.
    pub any: bool,
    /// A plural that Rego policies name and that is not resolved yet.
    pub unresolved: Option<String>,
    /// Whether all Rego policies are valid. If not, the invalid policies may cover more kinds.
    pub is_whole: bool,
}

/// The names that Rego policies use for kinds, and the enforcement of each module whose enforcement is not `deny`.
pub(super) fn gates(view: View<'_>, settings: &Settings, verdicts: &Verdicts) -> ReviewInputs {
    let mut gates = ReviewInputs::default();
    let read = plan::read(settings, verdicts);
    for plural in read.union(&verdicts.denies.kinds).cloned() {
        if let Some(kind) = view.resource(&plural) {
            gates.names.entry(kind.clone()).or_default().insert(plural);
        }
    }
    let lenient = verdicts.modules.iter().filter_map(|(id, verdict)| {
        let in_force = verdict.in_force.as_ref()?;
        (in_force.enforcement != EnforcementAction::Deny).then(|| (id.clone(), in_force.enforcement))
    });
    gates.enforcement_overrides = lenient.collect();
    gates.secrets = verdicts.secrets.clone();
    gates
}

/// The kinds whose objects Rego policies of `snapshot` may deny.
pub(super) fn admission_kinds(view: View<'_>, verdicts: &Verdicts, snapshot: &Snapshot) -> AdmissionKinds {
    let DeniedKinds { kinds, any } = &verdicts.denies;
    let is_known =
        |plural: &&String| !matches!(view.served(plural), None | Some(ResolvedPlural::DiscoveryFailed(_)));
    AdmissionKinds {
        kinds: kinds.iter().filter_map(|plural| view.resource(plural).cloned()).collect(),
        any: *any,
        unresolved: kinds.iter().find(|plural| !is_known(plural)).cloned(),
        is_whole: snapshot.rejection(ADMISSION).is_none(),
    }
}
