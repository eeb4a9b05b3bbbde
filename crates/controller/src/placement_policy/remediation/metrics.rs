//! Metrics of remediation, reported by the leader.

use prometheus::{IntCounterVec, IntGauge, IntGaugeVec};

use super::violations::{ViolationReason, Violations};
use policy_sync_hub::telemetry::metrics::{Metrics, gauge_value};

/// The results of patches.
const RESULTS: [&str; 3] = ["patched", "conflict", "failed"];

/// Metrics of remediation. Clones share the values.
#[derive(Clone, Debug)]
pub struct RemediationMetrics {
    patches: IntCounterVec,
    objects: IntGaugeVec,
    flapping: IntGauge,
}

impl RemediationMetrics {
    /// Registers the metrics with `metrics`.
    ///
    /// # Errors
    ///
    /// If a metric of the same name is registered already.
    pub fn new(metrics: &Metrics) -> Result<Self, prometheus::Error> {
        let factory = metrics.factory();
        let patches = factory.counters(
            "policy_sync_placement_patches_total",
            "Patches that apply placement policies to existing objects, by result. A conflict is retried.",
            &["result"],
        )?;
        for result in RESULTS {
            patches.with_label_values(&[result]);
        }
        let objects = factory.gauges(
            "policy_sync_placement_objects",
            "Objects that differ from placement policies, by reason: they violate a policy, remediation is \
             manual, too many patches, or the hub rejects the patch.",
            &["state"],
        )?;
        let flapping = factory.gauge(
            "policy_sync_placement_flapping",
            "ManagedClusters and other objects whose changes have moved objects three times within 10 minutes. \
             Their changes move no more objects.",
        )?;
        Ok(Self { patches, objects, flapping })
    }

    pub(super) fn patched(&self) {
        self.patches.with_label_values(&[RESULTS[0]]).inc();
    }

    pub(super) fn conflict(&self) {
        self.patches.with_label_values(&[RESULTS[1]]).inc();
    }

    pub(super) fn failed(&self) {
        self.patches.with_label_values(&[RESULTS[2]]).inc();
    }

    pub(super) fn measure(&self, violations: &Violations, flapping: usize) {
        self.flapping.set(gauge_value(flapping));
        for reason in ViolationReason::ALL {
            self.objects.with_label_values(&[reason.label()]).set(gauge_value(violations.count(reason)));
        }
    }
}
