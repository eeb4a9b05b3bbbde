//! Plans the loader's work from the mirror: watched kinds, candidate texts, contents of `data`, and reports.

pub(super) mod denials;
pub(super) mod left_out;
pub(super) mod reading;
pub(super) mod status;

use std::collections::{BTreeMap, BTreeSet};

use regorus::Value;

use super::kinds::{self, documents};
use super::settings::Settings;
use super::verdict::{Verdict, Verdicts};
use super::view::{KindState, View};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::GroupResource;
use policy_sync_mirror::WatchedSources;
use policy_sync_mirror::plurals::ResolvedPlural;
use policy_sync_rego::bundle::Bundle;
use policy_sync_rego::fault::Faults;
use policy_sync_rego::limit;
use policy_sync_rego::module::{ModuleId, Text};
use policy_sync_rego::reads::KindReads;
use policy_sync_rego::selection::{Candidate, LoadOutcome, PendingDependency, RejectionCause};

/// The candidate texts, the oldest first. Each also has the text in force of the same module. `is_due`: whether to
/// check texts again that together exceeded the size limit.
#[must_use]
pub(super) fn candidates(
    view: View<'_>,
    settings: &Settings,
    verdicts: &Verdicts,
    is_due: bool,
) -> Vec<Candidate> {
    let (mut candidates, mut checked) = (Vec::new(), BTreeMap::<&str, usize>::new());
    for id in verdicts.modules.keys() {
        *checked.entry(id.carrier()).or_default() += 1;
    }
    let is_checked =
        |text: &&Text| verdicts.modules.get(&text.id).is_some_and(|known| known.text == text.text);
    // While the other texts are unchanged, a text that exceeded the total size is still too large.
    let occupies_budget = |verdict: &Verdict| verdict.in_force.is_some() || verdict.is_too_large();
    let carried = view.carriers(settings).filter_map(|(_, carrier)| carrier.carried.as_ref());
    let remaining = carried
        .flat_map(|carried| &carried.texts)
        .filter(|text| is_checked(text) && occupies_budget(&verdicts.modules[&text.id]));
    let all_remain = !is_due
        && remaining.count() == verdicts.modules.values().filter(|verdict| occupies_budget(verdict)).count();
    for (_, carrier) in view.carriers(settings) {
        let Some(carried) = &carrier.carried else { continue };
        let known = carried.texts.first().and_then(|text| checked.get(text.id.carrier()));
        // If a module crashes the check, other modules of its object may be rejected without being parsed. So the
        // results of these modules are discarded after any change of the object.
        let is_same =
            known == Some(&carried.texts.len()) && carried.texts.iter().all(|text| is_checked(&text));
        for text in &carried.texts {
            let verdict = verdicts.modules.get(&text.id);
            let unread =
                carried.fault_of(&text.id).map(|fault| (Faults::of(fault.clone()), RejectionCause::Faults));
            let known = || match &verdict?.outcome {
                LoadOutcome::Rejected { faults, cause } if is_same => {
                    let stays = match cause {
                        RejectionCause::Faults => false,
                        RejectionCause::CrashesCheck => true,
                        RejectionCause::TooLarge => all_remain,
                    };
                    stays.then(|| (faults.clone(), *cause))
                }
                _ => None,
            };
            let candidate = Candidate {
                text: text.clone(),
                enforcement: carried.enforcement.clone(),
                in_force: verdict.and_then(|verdict| verdict.in_force.clone()),
                rejected: unread.or_else(known),
            };
            candidates.push((carrier.created, candidate));
        }
    }
    candidates.sort_by(|(one, first), (other, second)| {
        one.cmp(other).then_with(|| first.text.id.cmp(&second.text.id))
    });
    let mut candidates = candidates.into_iter().map(|(_, candidate)| candidate).collect::<Vec<_>>();
    limit::reject_oversized(&mut candidates);
    candidates
}

/// The plurals to resolve by API discovery; `kept` are the kinds kept for other components.
#[must_use]
pub(super) fn plurals<'k>(
    settings: &Settings,
    verdicts: &Verdicts,
    kept: impl IntoIterator<Item = &'k GroupResource>,
) -> BTreeSet<String> {
    let mut plurals = watched(settings, verdicts, kept);
    plurals.extend(verdicts.denies.kinds.iter().cloned());
    plurals.insert(kinds::rego_policies());
    plurals
}

/// The plurals that modules read, and the plurals of the `kept` kinds.
fn watched<'k>(
    settings: &Settings,
    verdicts: &Verdicts,
    kept: impl IntoIterator<Item = &'k GroupResource>,
) -> BTreeSet<String> {
    let mut plurals = read(settings, verdicts);
    plurals.extend(kept.into_iter().map(ToString::to_string));
    plurals
}

/// The plurals that modules read, and the plurals in `--replicate`.
pub(super) fn read(settings: &Settings, verdicts: &Verdicts) -> BTreeSet<String> {
    verdicts.reads.union(&settings.replicate).cloned().collect()
}

/// The kinds to watch: the kinds that modules read, and the `kept` kinds. Excludes kinds with too many objects. Also
/// excludes kinds whose watch must stop, so that they can be listed again.
#[must_use]
pub(super) fn watches(
    view: View<'_>,
    settings: &Settings,
    verdicts: &Verdicts,
    kept: &BTreeSet<GroupResource>,
    too_large: &BTreeMap<GroupResource, (usize, Moment)>,
    relisted: &BTreeMap<GroupResource, bool>,
) -> WatchedSources {
    let mut wanted = WatchedSources::new();
    for source in view.sources(settings) {
        wanted.extend(source.gvr().map(|gvr| (source, gvr)));
    }
    for plural in watched(settings, verdicts, kept) {
        if let Some(ResolvedPlural::Resource(gvr)) = view.served(&plural)
            && !too_large.contains_key(&gvr.kind)
            && relisted.get(&gvr.kind).is_none_or(|is_stopped| *is_stopped)
            && !is_withheld(view, settings, &plural)
        {
            wanted.insert(documents(&gvr.kind), gvr.clone());
        }
    }
    wanted
}

/// Whether `plural` resolves to Secrets and `--replicate` does not include them.
#[must_use]
pub(super) fn is_withheld(view: View<'_>, settings: &Settings, plural: &str) -> bool {
    let is_secrets = |plural: &str| view.resource(plural) == Some(&GroupResource::secrets());
    is_secrets(plural) && !settings.replicate.iter().any(|replicated| is_secrets(replicated))
}

/// The kinds that each module of `bundle` waits for because they are not listed yet.
#[must_use]
pub(super) fn awaited(
    view: View<'_>,
    settings: &Settings,
    bundle: &Bundle,
) -> BTreeMap<ModuleId, Vec<PendingDependency>> {
    let of = |plural: &String| match view.kind(plural) {
        KindState::Awaited(why) => Some(PendingDependency { what: plural.clone(), why }),
        KindState::Listed(_) | KindState::Nowhere | KindState::Forbidden(_) => None,
    };
    let modules = bundle.modules().map(|module| {
        let KindReads { kinds, any } = module.reads();
        let mut plurals: BTreeSet<&String> = kinds.keys().collect();
        if !any.is_empty() {
            plurals.extend(&settings.replicate);
        }
        (module.id().clone(), plurals.into_iter().filter_map(of).collect::<Vec<_>>())
    });
    modules.filter(|(_, awaited)| !awaited.is_empty()).collect()
}

/// The objects of the kinds that modules read, by plural. For a kind that is not listed, or is being listed again,
/// these are the `known` objects.
#[must_use]
pub(super) fn objects(
    view: View<'_>,
    settings: &Settings,
    verdicts: &Verdicts,
    known: &BTreeMap<String, Value>,
) -> BTreeMap<String, Value> {
    let of_kind = |plural: String| {
        let objects = match view.kind(&plural) {
            // Secrets stay withheld even if another component watches them.
            _ if is_withheld(view, settings, &plural) => Value::new_object(),
            KindState::Listed(kind) => view.documents(&kind),
            KindState::Nowhere => Value::new_object(),
            KindState::Awaited(_) | KindState::Forbidden(_) => {
                known.get(&plural).cloned().unwrap_or_else(Value::new_object)
            }
        };
        (plural, objects)
    };
    read(settings, verdicts).into_iter().map(of_kind).collect()
}

/// The value of `data`: the `objects` by plural, and the data from ConfigMaps.
#[must_use]
pub(super) fn data(view: View<'_>, settings: &Settings, objects: &BTreeMap<String, Value>) -> Value {
    let objects: BTreeMap<Value, Value> =
        objects.iter().map(|(plural, objects)| (plural.as_str().into(), objects.clone())).collect();
    let mut data = BTreeMap::from([(Value::from("kubernetes"), Value::from(objects))]);
    let mut config_map_data: BTreeMap<&str, BTreeMap<&str, BTreeMap<&str, Value>>> = BTreeMap::new();
    for carried in view.carriers(settings).filter_map(|(_, carrier)| carrier.carried.as_ref()) {
        for ([namespace, name, key], value) in &carried.data {
            config_map_data.entry(namespace).or_default().entry(name).or_default().insert(key, value.clone());
        }
    }
    for (namespace, by_name) in config_map_data {
        let by_name = by_name.into_iter().map(|(name, by_key)| (name.into(), object(by_key)));
        data.insert(namespace.into(), Value::from(by_name.collect::<BTreeMap<Value, Value>>()));
    }
    data.into()
}

fn object(fields: BTreeMap<&str, Value>) -> Value {
    let fields = fields.into_iter().map(|(key, value)| (key.into(), value));
    fields.collect::<BTreeMap<Value, Value>>().into()
}

#[cfg(test)]
mod tests;
