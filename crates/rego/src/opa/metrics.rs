//! Metrics of pushes to OPA.

use prometheus::{IntCounter, IntCounterVec};

use super::push::PushError;
use policy_sync_hub::telemetry::metrics::Metrics;

/// The values of the label `result`.
const RESULTS: [&str; 3] = ["filled", "refused", "failed"];

/// Metrics of pushes to OPA. Clones share them.
#[derive(Clone, Debug)]
pub struct OpaMetrics {
    pushes: IntCounterVec,
    changed: IntCounter,
}

impl OpaMetrics {
    /// Registers the metrics.
    ///
    /// # Errors
    ///
    /// If the metrics are registered already.
    pub fn new(metrics: &Metrics) -> Result<Self, prometheus::Error> {
        let pushes = metrics.factory().counters(
            "policy_sync_opa_pushes_total",
            "Uploads of modules and data to OPA, by result: applied, a module was rejected, or OPA was unreachable.",
            &["result"],
        )?;
        for result in RESULTS {
            pushes.with_label_values(&[result]);
        }
        let changed = metrics.factory().counter(
            "policy_sync_opa_changed_total",
            "Times that modules or data in OPA differed from those that this process had uploaded.",
        )?;
        Ok(Self { pushes, changed })
    }

    /// Counts a push by its result.
    pub(super) fn count_push(&self, pushed: &Result<(), PushError>) {
        let result = match pushed {
            Ok(()) => RESULTS[0],
            Err(PushError::Rejected(_)) => RESULTS[1],
            Err(PushError::Request(_)) => RESULTS[2],
        };
        self.pushes.with_label_values(&[result]).inc();
    }

    /// Counts a change by another client.
    pub(super) fn count_drift(&self) {
        self.changed.inc();
    }
}
