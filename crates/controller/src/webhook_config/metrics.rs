//! Metrics of the webhook certificate. Every process sets them, because each serves webhooks.

use prometheus::Gauge;

use policy_sync_api::moment::Moment;
use policy_sync_hub::telemetry::metrics::Metrics;

/// Metrics of the webhook certificate. Clones share the values.
#[derive(Clone, Debug)]
pub struct WebhookConfigMetrics {
    expiry: Gauge,
}

impl WebhookConfigMetrics {
    /// Registers the metrics with `metrics`.
    ///
    /// # Errors
    ///
    /// If they are registered already.
    pub fn new(metrics: &Metrics) -> Result<Self, prometheus::Error> {
        let expiry = metrics.factory().seconds(
            "policy_sync_certificate_expiry_seconds",
            "Time until the certificate of the webhooks expires; 0 if it has expired or does not exist.",
        )?;
        Ok(Self { expiry })
    }

    pub(super) fn measure(&self, expires: Option<Moment>, now: Moment) {
        self.expiry.set(expires.map_or(0.0, |at| at.since(now).as_secs_f64()));
    }
}
