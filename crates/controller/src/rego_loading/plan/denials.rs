//! Determines which requests are denied because a Rego policy is unavailable (fail closed). These are the requests that
//! the package of the Rego policy may affect.

use std::collections::BTreeMap;

use crate::rego_loading::verdict::{Verdict, Verdicts};
use policy_sync_api::moment::Moment;
use policy_sync_rego::queries::PURPOSES;
use policy_sync_rego::selection::{LoadOutcome, PendingDependency};

/// Why a module was not checked. In the status of the module, this text follows the words "waits for".
pub(super) const UNCHECKED: &str = "its check, because other modules crash the check";

/// The packages whose requests are denied, each with the reason.
#[must_use]
pub(crate) fn denials(verdicts: &Verdicts, now: Moment) -> BTreeMap<&'static str, String> {
    let mut denials = BTreeMap::new();
    for (id, verdict) in &verdicts.modules {
        let Some(why) = unavailable_reason(verdict, now) else { continue };
        for package in affected(verdicts, verdict.package.as_deref()) {
            denials.entry(package).or_insert_with(|| format!("Rego policy {id} is unavailable: {why}"));
        }
    }
    denials
}

/// Why a module without a text in force cannot be evaluated.
fn unavailable_reason(verdict: &Verdict, now: Moment) -> Option<String> {
    match &verdict.outcome {
        _ if verdict.in_force.is_some() => None,
        // A loaded module without a text in force has the same rules as another module. That other module is evaluated.
        LoadOutcome::Loaded => None,
        LoadOutcome::Pending(_) if verdict.ignored_until().is_some_and(|until| now < until) => None,
        LoadOutcome::Pending(awaited) => Some(waiting_message(awaited)),
        LoadOutcome::Unchecked => Some(format!("it waits for {UNCHECKED}")),
        LoadOutcome::Rejected { faults, .. } => {
            Some(faults.listed.first().map_or_else(|| "it is rejected".to_owned(), |fault| fault.to_string()))
        }
    }
}

/// The message for a module that waits for the dependencies `awaited`.
pub(super) fn waiting_message(awaited: &[PendingDependency]) -> String {
    let awaited: Vec<String> = awaited.iter().map(ToString::to_string).collect();
    format!("it waits for {}", awaited.join(", "))
}

/// The purposes that a module of `package` may affect: all purposes if the package is unknown.
pub(super) fn affected(verdicts: &Verdicts, package: Option<&str>) -> Vec<&'static str> {
    let Some(package) = package else { return PURPOSES.to_vec() };
    let is_affected = |queried: &str| verdicts.bundle.refers(queried, package);
    PURPOSES.into_iter().filter(|what| is_affected(verdicts.packages.of(what))).collect()
}

#[cfg(test)]
mod tests;
