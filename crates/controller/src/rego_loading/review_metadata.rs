//! Metadata of loaded Rego policies for reviews: names of kinds, kinds that can be denied, and enforcement.

use super::plan;
use super::rego_usage::AdmissionKinds;
use super::settings::Settings;
use super::verdict::Verdicts;
use super::view::View;
use policy_sync_api::rego_policy::EnforcementAction;
use policy_sync_mirror::plurals::ResolvedPlural;
use policy_sync_rego::queries::ADMISSION;
use policy_sync_rego::review::DeniedKinds;
use policy_sync_rego::snapshot::{ReviewInputs, Snapshot};

/// The names that Rego policies use for kinds, and the modules with an enforcement other than `deny`.
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
