//! Metadata of loaded Rego policies for reviews: names of kinds, kinds that can be denied, and enforcement.

use super::in_use::Gated;
use super::plan;
use super::settings::Settings;
use super::verdict::Verdicts;
use super::view::View;
use policy_sync_api::rego_policy::Enforcement;
use policy_sync_mirror::served::Served;
use policy_sync_rego::asked::ADMISSION;
use policy_sync_rego::review::Denies;
use policy_sync_rego::snapshot::{Gates, Snapshot};

/// The names that Rego policies use for kinds, and the modules with an enforcement other than `deny`.
pub(super) fn gates(view: View<'_>, settings: &Settings, verdicts: &Verdicts) -> Gates {
    let mut gates = Gates::default();
    let read = plan::read(settings, verdicts);
    for plural in read.union(&verdicts.denies.kinds).cloned() {
        if let Some(kind) = view.resource(&plural) {
            gates.names.entry(kind.clone()).or_default().insert(plural);
        }
    }
    let lenient = verdicts.modules.iter().filter_map(|(id, verdict)| {
        let in_force = verdict.in_force.as_ref()?;
        (in_force.enforcement != Enforcement::Deny).then(|| (id.clone(), in_force.enforcement))
    });
    gates.lenient = lenient.collect();
    gates.secrets = verdicts.secrets.clone();
    gates
}

/// The kinds whose objects Rego policies of `snapshot` may deny.
pub(super) fn gated(view: View<'_>, verdicts: &Verdicts, snapshot: &Snapshot) -> Gated {
    let Denies { kinds, any } = &verdicts.denies;
    let is_known = |plural: &&String| !matches!(view.served(plural), None | Some(Served::Unknown(_)));
    Gated {
        kinds: kinds.iter().filter_map(|plural| view.resource(plural).cloned()).collect(),
        any: *any,
        awaited: kinds.iter().find(|plural| !is_known(plural)).cloned(),
        is_whole: snapshot.unasked(ADMISSION).is_none(),
    }
}
