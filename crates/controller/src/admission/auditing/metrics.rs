//! Metrics of the periodic audit. Only the leader sets them.

use std::time::Duration;

use prometheus::{Gauge, IntGaugeVec};

use crate::admission::audit::{ENFORCEMENTS, Findings};
use policy_sync_api::moment::Moment;
use policy_sync_hub::telemetry::metrics::{Metrics, gauge_value};

/// Metrics of the periodic audit. Clones share the values.
#[derive(Clone, Debug)]
pub struct AuditMetrics {
    violations: IntGaugeVec,
    seconds: Gauge,
    last: Gauge,
}

impl AuditMetrics {
    /// Registers the metrics with `metrics`.
    ///
    /// # Errors
    ///
    /// If a metric of the same name is registered already.
    pub fn new(metrics: &Metrics) -> Result<Self, prometheus::Error> {
        let factory = metrics.factory();
        let violations = factory.gauges(
            "policy_sync_violations",
            "Existing objects that violated policies in the last audit, by enforcement. Objects that could not be \
             evaluated are errors.",
            &["enforcement"],
        )?;
        let seconds = factory.seconds("policy_sync_audit_seconds", "Duration of the last audit.")?;
        let last = factory.seconds(
            "policy_sync_audit_last_success_timestamp_seconds",
            "Unix time of the end of the last audit; 0 if there was none.",
        )?;
        let metrics = Self { violations, seconds, last };
        metrics.forget();
        Ok(metrics)
    }

    pub(super) fn found(&self, findings: &Findings, took: Duration, at: Moment) {
        for enforcement in ENFORCEMENTS {
            let count = findings.counts().get(enforcement).copied().unwrap_or_default();
            self.violations.with_label_values(&[enforcement]).set(gauge_value(count));
        }
        self.seconds.set(took.as_secs_f64());
        self.last.set(at.since(Moment(0)).as_secs_f64());
    }

    /// Resets the metrics when leadership changes, because from then on another process runs the audits.
    pub(super) fn forget(&self) {
        self.found(&Findings::default(), Duration::ZERO, Moment(0));
    }
}
