//! Documents that are left out because their namespace exceeds its share of a limit: the effects on reviews, and the
//! messages. A *part* is the documents of one kind in one namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::read;
use crate::rego_loading::kinds::documents;
use crate::rego_loading::settings::Settings;
use crate::rego_loading::shares::NamespacedKind;
use crate::rego_loading::verdict::Verdicts;
use crate::rego_loading::view::View;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::GroupResource;
use policy_sync_api::text::group_digits;
use policy_sync_rego::omitted_documents::OmittedDocuments;
use policy_sync_rego::queries::PURPOSES;
use policy_sync_rego::reads::KindReads;
use policy_sync_rego::snapshot::ReviewInputs;

/// The flags that set the limits, for messages.
const FLAGS: &str = "--replicate-bytes or --replicate-limit";
/// The interval between checks whether left-out documents fit the limits again.
const RECHECK_INTERVAL: Duration = Duration::from_secs(60);
/// The maximum number of namespaces in a message.
const MAX_LISTED: usize = 3;

/// The parts that are left out, each with the time of the last check. The time of a part that is already in `before` is
/// kept. Parts of `relisted` kinds stay in the result.
#[must_use]
pub(in crate::rego_loading) fn parts(
    view: View<'_>,
    before: &BTreeMap<NamespacedKind, Moment>,
    relisted: &BTreeMap<GroupResource, bool>,
) -> BTreeMap<NamespacedKind, Moment> {
    let stay = before.iter().filter(|(part, _)| relisted.contains_key(&part.kind));
    let mut parts: BTreeMap<NamespacedKind, Moment> =
        stay.map(|(part, since)| (part.clone(), *since)).collect();
    for (part, _) in view.left_out() {
        parts.insert(part.clone(), before.get(part).copied().unwrap_or(view.now));
    }
    parts
}

/// Updates `relisted`, the kinds to list again because their left-out documents now fit the limits. The value of a kind
/// is true once its watch has stopped. Removes kinds once they are listed again. Returns whether `relisted` has
/// changed.
pub(in crate::rego_loading) fn relist(
    view: View<'_>,
    parts: &mut BTreeMap<NamespacedKind, Moment>,
    relisted: &mut BTreeMap<GroupResource, bool>,
) -> bool {
    let before = relisted.clone();
    for (kind, is_stopped) in relisted.iter_mut() {
        // Once its watch has stopped, a kind is watched again, which lists the kind.
        *is_stopped |= !view.is_watched(&documents(kind));
    }
    relisted.retain(|kind, is_stopped| !(*is_stopped && view.is_listed(&documents(kind))));
    if parts.values().any(|since| since.after(RECHECK_INTERVAL) <= view.now) {
        let returning = view.returning();
        for (NamespacedKind { kind, .. }, since) in parts.iter_mut() {
            if since.after(RECHECK_INTERVAL) <= view.now {
                *since = view.now;
                if returning.contains(kind) {
                    relisted.entry(kind.clone()).or_insert(false);
                }
            }
        }
    }
    *relisted != before
}

/// The time of the next check whether `parts` fit the limits; `None` if `parts` is empty.
#[must_use]
pub(in crate::rego_loading) fn recheck(parts: &BTreeMap<NamespacedKind, Moment>) -> Option<Moment> {
    parts.values().min().map(|since| since.after(RECHECK_INTERVAL))
}

/// The omitted kinds of each namespace, from the left-out `parts`, and the kinds that Rego policies of each purpose
/// read.
#[must_use]
pub(in crate::rego_loading) fn incomplete(
    view: View<'_>,
    settings: &Settings,
    verdicts: &Verdicts,
    gates: &ReviewInputs,
    parts: &BTreeMap<NamespacedKind, Moment>,
) -> OmittedDocuments {
    let mut incomplete = OmittedDocuments::default();
    if parts.is_empty() {
        return incomplete;
    }
    for NamespacedKind { namespace, kind } in parts.keys() {
        incomplete.namespaces.entry(namespace.clone()).or_default().insert(kind.clone());
    }
    let resources = |plurals: BTreeSet<String>| -> BTreeSet<GroupResource> {
        plurals.iter().filter_map(|plural| view.resource(plural).cloned()).collect()
    };
    for what in PURPOSES {
        let reachable = verdicts.bundle.reachable(verdicts.packages.of(what));
        for module in reachable.modules.iter().filter_map(|id| verdicts.bundle.module(id)) {
            let KindReads { kinds, any } = module.reads();
            let mut plurals: BTreeSet<String> = kinds.keys().cloned().collect();
            if !any.is_empty() {
                plurals.extend(read(settings, verdicts));
            }
            let kinds = resources(plurals);
            if !gates.enforcement_overrides.contains_key(module.id()) {
                incomplete.denying.entry(what).or_default().extend(kinds.iter().cloned());
            }
            incomplete.read.entry(what).or_default().extend(kinds);
        }
    }
    incomplete
}

/// A warning for Rego policies that read the kind `plural`, if some objects of that kind are left out.
#[must_use]
pub(in crate::rego_loading) fn left_out_warning(
    plural: &str,
    kind: &GroupResource,
    view: View<'_>,
) -> Option<String> {
    let of_kind = view.left_out().filter(|(part, _)| part.kind == *kind);
    let names: Vec<&Arc<str>> = of_kind.map(|(part, _)| &part.namespace).collect();
    let named: Vec<&str> = names.iter().take(MAX_LISTED).map(|name| &***name).collect();
    let more = names.len().saturating_sub(MAX_LISTED);
    let more = if more > 0 { format!(" and {} more", group_digits(more)) } else { String::new() };
    (!names.is_empty()).then(|| {
        format!(
            "{plural} of these namespaces are left out, because they exceed their share of {FLAGS}: {}{more}",
            named.join(", ")
        )
    })
}

/// The note of the Event on the Namespace of `part`; `None` if `part` is not left out.
#[must_use]
pub(in crate::rego_loading) fn note(part: &NamespacedKind, view: View<'_>) -> Option<String> {
    let (_, found) = view.left_out().find(|(left_out, _)| *left_out == part)?;
    let (objects, mebibytes) = (group_digits(found.objects), group_digits(found.bytes >> 20));
    Some(format!(
        "the {objects} {} of this namespace need {mebibytes} MiB of memory and exceed its share of {FLAGS}: Rego policies cannot \
         read them, and Rego policies that read them deny writes in this namespace",
        part.kind
    ))
}

#[cfg(test)]
mod tests;
