//! Metrics of Rego policies. Every process sets them, because every process loads the Rego policies.

use std::time::Duration;

use prometheus::{HistogramVec, IntCounterVec, IntGauge, IntGaugeVec};

use super::settings::Settings;
use super::verdict::Verdicts;
use super::view::View;
use policy_sync_hub::telemetry::metrics::{Metrics, gauge_value};
use policy_sync_rego::selection::LoadOutcome;

/// The states of modules.
const STATES: [&str; 4] = ["loaded", "pending", "refused", "ignored"];

/// Histogram buckets in seconds; an evaluation takes at most one second.
const SECONDS: [f64; 12] =
    [0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0];
/// The purposes for which Rego policies are queried.
const QUERIES: [&str; 3] = ["admission", "authorization", "placement"];
/// The reasons of failed queries.
const REASONS: [&str; 7] = ["answer", "engine", "evaluation", "memory", "starting", "time", "unasked"];

/// Metrics of Rego policies. Clones share the values.
#[derive(Clone, Debug)]
pub struct RegoMetrics {
    modules: IntGaugeVec,
    documents: IntGaugeVec,
    bytes: IntGauge,
    left_out: IntGaugeVec,
    evaluation: HistogramVec,
    errors: IntCounterVec,
    slow: IntGauge,
}

impl RegoMetrics {
    /// Registers the metrics with `metrics`.
    ///
    /// # Errors
    ///
    /// If a metric of the same name is registered already.
    pub fn new(metrics: &Metrics) -> Result<Self, prometheus::Error> {
        let factory = metrics.factory();
        let evaluation = factory.histograms(
            "policy_sync_rego_evaluation_seconds",
            "Duration of an evaluation for one object, including the conversion of its input and result.",
            &["query"],
            &SECONDS,
        )?;
        let errors = factory.counters(
            "policy_sync_rego_errors_total",
            "Evaluations that failed, or whose result has the wrong shape.",
            &["query", "reason"],
        )?;
        for query in QUERIES {
            evaluation.with_label_values(&[query]);
            for reason in REASONS {
                errors.with_label_values(&[query, reason]);
            }
        }
        Ok(Self {
            evaluation,
            errors,
            slow: factory.gauge(
                "policy_sync_rego_slow_modules",
                "Rego modules in use that exceeded the limit of time or memory.",
            )?,
            modules: factory.gauges(
                "policy_sync_rego_modules",
                "Rego modules by state: in use, waiting until kinds are listed, rejected, or in an ignored key.",
                &["state"],
            )?,
            documents: factory.gauges(
                "policy_sync_rego_documents",
                "Objects that modules can read, by kind.",
                &["kind"],
            )?,
            bytes: factory.gauge(
                "policy_sync_rego_document_bytes",
                "Estimated memory of the objects that modules can read.",
            )?,
            left_out: factory.gauges(
                "policy_sync_rego_documents_left_out",
                "Objects that modules cannot read because their namespace exceeds its share, by kind.",
                &["kind"],
            )?,
        })
    }

    /// Records the duration of a `query`; `reason` is the category of its failure, if it failed.
    pub(crate) fn record_evaluation(&self, query: &str, took: Duration, reason: Option<&'static str>) {
        self.evaluation.with_label_values(&[query]).observe(took.as_secs_f64());
        if let Some(reason) = reason {
            self.errors.with_label_values(&[query, reason]).inc();
        }
    }

    pub(super) fn measure(&self, view: View<'_>, settings: &Settings, verdicts: &Verdicts, slow: usize) {
        self.slow.set(gauge_value(slow));
        let ignored = view.carriers(settings).map(|(_, carrier)| carrier.ignored).sum();
        let state = |outcome: &LoadOutcome| match outcome {
            LoadOutcome::Loaded => STATES[0],
            LoadOutcome::Pending(_) | LoadOutcome::Unchecked => STATES[1],
            LoadOutcome::Rejected { .. } => STATES[2],
        };
        for name in STATES {
            let modules = verdicts.modules.values().filter(|verdict| state(&verdict.outcome) == name);
            let count = if name == STATES[3] { ignored } else { modules.count() };
            self.modules.with_label_values(&[name]).set(gauge_value(count));
        }
        self.documents.reset();
        self.bytes.set(gauge_value(view.bytes()));
        self.left_out.reset();
        let left_out = view.left_out_by_kind();
        for (kind, readable) in view.readable() {
            let (name, left_out) = (kind.to_string(), left_out.get(kind).copied().unwrap_or_default());
            self.left_out.with_label_values(&[&name]).set(gauge_value(left_out));
            self.documents.with_label_values(&[&name]).set(gauge_value(readable));
        }
    }
}
