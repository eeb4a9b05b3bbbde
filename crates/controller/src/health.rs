//! Readiness of the controller, computed from its watches.
//!
//! Ready means that all required kinds are listed. In addition, each other kind that resolves to a served version must
//! be listed, or have failed once. Later failures appear in the text but do not affect readiness, because the rest of
//! the controller keeps working. A controller that cannot list a required kind never becomes ready, so it does not
//! replace a working one in a rollout.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use policy_sync_mirror::Source;
use policy_sync_sync::View;
use policy_sync_sync::desired::eligibility::may_be_synced;
use policy_sync_sync::desired::watches;
use policy_sync_sync::kinds::needed;

/// Readiness, with a text of one line for each watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// The controller is ready.
    Ready(String),
    /// The controller is not ready yet.
    Starting(String),
}

impl Health {
    /// Combines this readiness with `ready`, the readiness of another component. Appends `more`, the text lines of that
    /// component.
    #[must_use]
    pub fn and(self, (ready, more): (bool, String)) -> Self {
        match self {
            Self::Ready(text) if ready => Self::Ready(text + &more),
            Self::Ready(text) | Self::Starting(text) => Self::Starting(text + &more),
        }
    }
}

/// The readiness of the watches of `view`.
#[must_use]
pub fn health(view: View<'_>) -> Health {
    let failing = view.failing();
    let needed: BTreeSet<Source> = needed().collect();
    let mut ready = true;
    let mut text = String::new();
    for source in required_sources(view) {
        // Writing to a String cannot fail.
        let _ = match (failing.get(&source), view.synced(&source)) {
            (Some(fault), None) if needed.contains(&source) => {
                ready = false;
                writeln!(text, "[-]{source} not listed yet, which everything waits for: {fault}")
            }
            (Some(fault), _) => writeln!(text, "[!]{source} failing: {fault}"),
            (None, Some(_)) => writeln!(text, "[+]{source} ok"),
            (None, None) => {
                ready = false;
                writeln!(text, "[-]{source} not listed yet")
            }
        };
    }
    let schema = match view.work_schema().map(|schema| schema.fault()) {
        Some(None) => "[+]schema of manifestworks ok".to_owned(),
        Some(Some(fault)) => format!("[-]schema of manifestworks: {fault}"),
        None => "[-]schema of manifestworks not read yet".to_owned(),
    };
    ready &= schema.starts_with("[+]");
    let _ = writeln!(text, "{schema}");
    if ready { Health::Ready(text) } else { Health::Starting(text) }
}

/// The watched resources, each with whether all its watches are listed and not failing. Kinds that are known not to
/// resolve to a served version are omitted: such a kind is an error in the class parameters, not a failed watch.
#[must_use]
pub fn watches(view: View<'_>) -> BTreeMap<String, bool> {
    let failing = view.failing();
    let kinds = watches::plan(view).into_iter().filter(|(_, gvr)| may_be_synced(view, gvr));
    let mut watches = BTreeMap::new();
    for source in needed().chain(kinds.map(|(source, _)| source)) {
        let is_up = view.synced(&source).is_some() && !failing.contains_key(&source);
        *watches.entry(source.label()).or_insert(true) &= is_up;
    }
    watches
}

/// All sources that must be watched.
fn required_sources(view: View<'_>) -> BTreeSet<Source> {
    needed().chain(watches::plan(view).into_keys()).collect()
}

#[cfg(test)]
mod tests;
