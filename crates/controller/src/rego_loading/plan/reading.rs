//! Detects modules that read unavailable kinds, or have rules at a path in `data` that objects or ConfigMaps use.

use std::collections::{BTreeMap, BTreeSet};

use super::{is_withheld, left_out};
use crate::rego_loading::settings::Settings;
use crate::rego_loading::view::{KindState, View};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::GroupResource;
use policy_sync_api::text::group_digits;
use policy_sync_rego::bundle::Bundle;
use policy_sync_rego::fault::Fault;
use policy_sync_rego::loaded_module::LoadedModule;
use policy_sync_rego::secrets::{SecretReads, withheld};

/// The faults of `bundle`:
///
/// - reads of kinds that the controller may not list, that are withheld, or that have too many objects
/// - rules at a path that data uses
/// - reads of withheld `secrets`
#[must_use]
pub(in crate::rego_loading) fn faults(
    view: View<'_>,
    settings: &Settings,
    too_large: &BTreeMap<GroupResource, (usize, Moment)>,
    (bundle, secrets): (&Bundle, &SecretReads),
) -> Vec<Fault> {
    let mut faults = faults_at_reads(bundle, |plural| match view.kind(plural) {
        _ if is_withheld(view, settings, plural) => Some(withheld(plural)),
        KindState::Forbidden(message) => Some(format!("{plural} cannot be listed: {message}")),
        KindState::Awaited(_) => {
            let (count, _) = too_large.get(view.resource(plural)?)?;
            Some(too_many(plural, *count, settings.limit))
        }
        KindState::Listed(_) | KindState::Nowhere => None,
    });
    faults.extend(bundle.modules().filter_map(|module| path_conflict(view, settings, module)));
    if settings.withholds_secrets() {
        faults.extend(secrets.faults());
    }
    faults
}

/// The fault if the package of `module` has a path that objects of the hub or data of ConfigMaps use.
fn path_conflict(view: View<'_>, settings: &Settings, module: &LoadedModule) -> Option<Fault> {
    match module.path() {
        [namespace, ..] if settings.namespaces.contains(namespace) => {
            Some(module.fault_of_package("data of ConfigMaps has this path"))
        }
        [kubernetes, plural, ..] if kubernetes == "kubernetes" && view.resource(plural).is_some() => {
            Some(module.fault_of_package("objects of the hub have this path"))
        }
        _ => None,
    }
}

/// The message for a kind that is no longer watched because it has too many objects.
#[must_use]
pub(in crate::rego_loading) fn too_many(what: &str, count: usize, limit: usize) -> String {
    let (count, limit) = (group_digits(count), group_digits(limit));
    format!(
        "{what} have {count} objects, at most {limit} are allowed for all kinds together (--replicate-limit)"
    )
}

/// Warnings about the kinds that `bundle` reads. They do not affect loading.
#[must_use]
pub(in crate::rego_loading) fn advice(view: View<'_>, settings: &Settings, bundle: &Bundle) -> Vec<Fault> {
    let (counts, cluster_scoped) = (view.readable(), view.cluster_scoped());
    let near = |plural: &str, kind: &GroupResource| {
        let is_cluster_scoped = cluster_scoped.contains_key(kind);
        let group =
            counts.iter().filter(|(kind, _)| cluster_scoped.contains_key(**kind) == is_cluster_scoped);
        let (all, most) = group.fold((0, 0), |(all, most), (_, count)| (all + count, most.max(*count)));
        let count = *counts.get(kind)?;
        (is_near_limit(all, settings.limit) && count == most).then(|| {
            let scope = if is_cluster_scoped { "cluster-scoped" } else { "namespaced" };
            let (count, all, limit) = (group_digits(count), group_digits(all), group_digits(settings.limit));
            format!(
                "{plural} have {count} objects: all {scope} kinds together have {all} of at most {limit} (--replicate-limit)"
            )
        })
    };
    faults_at_reads(bundle, |plural| match view.kind(plural) {
        KindState::Nowhere => {
            Some(format!("{plural}: the hub does not serve this kind, so there are no such objects"))
        }
        KindState::Listed(kind) => {
            left_out::left_out_warning(plural, &kind, view).or_else(|| near(plural, &kind))
        }
        _ => None,
    })
}

/// Notes about the aliases that `module` uses.
#[must_use]
pub(in crate::rego_loading) fn notes(settings: &Settings, module: &LoadedModule) -> BTreeSet<String> {
    let plurals = module.reads().kinds.keys();
    plurals.filter_map(|plural| Some(format!("{plural} are {}", settings.aliases.get(plural)?))).collect()
}

/// Whether the number of objects exceeds 80 % of the limit.
#[must_use]
pub(in crate::rego_loading) fn is_near_limit(objects: usize, limit: usize) -> bool {
    objects > limit / 5 * 4
}

/// For each kind that a module reads, a fault with the text that `message` returns, at the first read of the kind.
fn faults_at_reads(bundle: &Bundle, message: impl Fn(&str) -> Option<String>) -> Vec<Fault> {
    let mut faults = Vec::new();
    for module in bundle.modules() {
        for (plural, place) in &module.reads().kinds {
            faults.extend(message(plural).map(|text| Fault::new(module.id(), *place, text)));
        }
    }
    faults
}

#[cfg(test)]
mod tests;
