//! What metrics say of policies. Each process loads by itself, so each says it.

use prometheus::IntGaugeVec;

use super::settings::Settings;
use super::verdict::Verdicts;
use super::view::View;
use crate::rego::settle::Outcome;
use crate::telemetry::metrics::{Metrics, gauge_value};

/// What becomes of modules.
const STATES: [&str; 4] = ["loaded", "pending", "refused", "ignored"];

/// What metrics say of policies. Clones are the same.
#[derive(Clone, Debug)]
pub struct RegoMetrics {
    modules: IntGaugeVec,
    documents: IntGaugeVec,
}

impl RegoMetrics {
    /// Puts them beside those of `metrics`.
    ///
    /// # Errors
    ///
    /// Where that has them already.
    pub fn new(metrics: &Metrics) -> Result<Self, prometheus::Error> {
        let made = metrics.registering();
        Ok(Self {
            modules: made.gauges(
                "policy_sync_rego_modules",
                "Modules of Rego, by whether they are in force, wait for kinds to be listed, are refused, or are keys that are \
                 ignored.",
                &["state"],
            )?,
            documents: made.gauges(
                "policy_sync_rego_documents",
                "Objects that modules can read, by kind.",
                &["kind"],
            )?,
        })
    }

    pub(super) fn measure(&self, view: View<'_>, settings: &Settings, verdicts: &Verdicts) {
        let ignored = view.carriers(settings).map(|(_, carrier)| carrier.ignored).sum();
        let state = |outcome: &Outcome| match outcome {
            Outcome::Loaded => STATES[0],
            Outcome::Pending(_) => STATES[1],
            Outcome::Refused { .. } => STATES[2],
        };
        for name in STATES {
            let modules = verdicts.modules.values().filter(|verdict| state(&verdict.outcome) == name);
            let count = if name == STATES[3] { ignored } else { modules.count() };
            self.modules.with_label_values(&[name]).set(gauge_value(count));
        }
        self.documents.reset();
        for (kind, count) in view.counts() {
            self.documents.with_label_values(&[&kind.to_string()]).set(gauge_value(count));
        }
    }
}
