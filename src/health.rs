//! Whether the controller is ready, and what of the mirror the metrics show.
//!
//! It is ready once the needed kinds, and every kind that resolved, have been listed or have failed once. What fails
//! is named but does not make it unready: everything else goes on.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::hub::Source;
use crate::sync::View;
use crate::sync::desired::watches;
use crate::sync::kinds::needed;
use crate::telemetry::metrics::Metrics;

/// Whether the controller is ready, with a line for each source that is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It is.
    Ready(String),
    /// It is not.
    Starting(String),
}

/// The health that `view` shows.
#[must_use]
pub fn health(view: View<'_>) -> Health {
    let failing = view.failing();
    let wanted = watches::plan(view);
    let sources: BTreeSet<Source> = needed().chain(wanted.into_keys()).collect();
    let mut ready = true;
    let mut text = String::new();
    for source in sources {
        // Writing to a String cannot fail.
        let _ = match (failing.get(&source), view.synced(&source)) {
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

/// Brings the metrics that show the mirror up to date. Of the hub only the process that `leads` tells, so that sums over all
/// of them are right.
pub fn measure(view: View<'_>, metrics: &Metrics, leads: bool) {
    metrics.works(leads.then(|| view.work_counts()).into_iter().flatten());
    let failing: Vec<String> = view.failing().keys().map(|source| source.to_string()).collect();
    metrics.failing(failing.iter().map(String::as_str));
}
