//! Whether the controller is ready, and what of the mirror the metrics show.
//!
//! It is ready once the fixed kinds, and every kind that resolved, have been listed or have failed once. What fails
//! is named but does not make it unready: everything else goes on.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::mirror::{Source, View};
use crate::plan::watches;
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
pub fn of(view: View<'_>) -> Health {
    let failing = view.failing();
    let wanted = watches::plan(view);
    let sources: BTreeSet<&Source> = Source::FIXED.iter().chain(wanted.keys()).collect();
    let mut ready = true;
    let mut text = String::new();
    for source in sources {
        let name = name(source);
        // Writing to a String cannot fail.
        let _ = match (failing.get(source), view.synced(source)) {
            (Some(fault), _) => writeln!(text, "[!]{name} failing: {fault}"),
            (None, Some(_)) => writeln!(text, "[+]{name} ok"),
            (None, None) => {
                ready = false;
                writeln!(text, "[-]{name} not listed yet")
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

/// Brings the metrics that show the mirror up to date.
pub fn measure(view: View<'_>, metrics: &Metrics) {
    metrics.works(view.work_counts());
    let failing: Vec<String> = view.failing().keys().map(|source| name(source)).collect();
    metrics.failing(failing.iter().map(String::as_str));
}

fn name(source: &Source) -> String {
    match source {
        Source::Classes => "gatewayclasses".to_owned(),
        Source::ConfigMap(key) => format!("configmap {key}"),
        Source::Gateways => "gateways".to_owned(),
        Source::Clusters => "managedclusters".to_owned(),
        Source::Placements => "placements".to_owned(),
        Source::Decisions => "placementdecisions".to_owned(),
        Source::Works => "manifestworks".to_owned(),
        Source::Policies(kind) => kind.to_string(),
        Source::Secrets => "secrets".to_owned(),
        Source::Grants => "referencegrants".to_owned(),
    }
}
