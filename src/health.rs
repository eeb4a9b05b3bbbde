//! Whether the controller is ready, and what of the mirror the metrics show.
//!
//! It is ready once the needed kinds have been listed, and every kind that resolved has been listed or has failed once. What
//! fails later is named but does not make it unready: everything else goes on. Before a needed kind is listed nothing does, so
//! that a controller that may not list one takes no other's place.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use policy_sync_mirror::Source;
use policy_sync_sync::View;
use policy_sync_sync::desired::eligibility::may_be_synced;
use policy_sync_sync::desired::watches;
use policy_sync_sync::kinds::needed;

/// Whether the controller is ready, with a line for each source that is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It is.
    Ready(String),
    /// It is not.
    Starting(String),
}

impl Health {
    /// The same, and ready only where something else is as well, of which `more` tells.
    #[must_use]
    pub fn and(self, (ready, more): (bool, String)) -> Self {
        match self {
            Self::Ready(text) if ready => Self::Ready(text + &more),
            Self::Ready(text) | Self::Starting(text) => Self::Starting(text + &more),
        }
    }
}

/// The health that `view` shows.
#[must_use]
pub fn health(view: View<'_>) -> Health {
    let failing = view.failing();
    let needed: BTreeSet<Source> = needed().collect();
    let mut ready = true;
    let mut text = String::new();
    for source in wanted(view) {
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

/// What should be watched, by resource, each with whether all of it is: listed once, and not failing. A kind that is known not to
/// resolve is none of it: what its class says of it is no fault of a watch.
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

/// What should be watched.
fn wanted(view: View<'_>) -> BTreeSet<Source> {
    needed().chain(watches::plan(view).into_keys()).collect()
}

#[cfg(test)]
mod tests;
