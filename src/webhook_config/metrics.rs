//! What metrics say of what webhooks serve with. Each process serves by itself, so each says it.

use prometheus::Gauge;

use policy_sync_api::moment::Moment;
use policy_sync_hub::telemetry::metrics::Metrics;

/// What metrics say of it. Clones are the same.
#[derive(Clone, Debug)]
pub struct RegistrationMetrics {
    expiry: Gauge,
}

impl RegistrationMetrics {
    /// Puts them beside those of `metrics`.
    ///
    /// # Errors
    ///
    /// Where that has them already.
    pub fn new(metrics: &Metrics) -> Result<Self, prometheus::Error> {
        let expiry = metrics.registering().seconds(
            "policy_sync_certificate_expiry_seconds",
            "Time until the certificate of the webhooks expires; 0 if it has expired or does not exist.",
        )?;
        Ok(Self { expiry })
    }

    pub(super) fn measure(&self, expires: Option<Moment>, now: Moment) {
        self.expiry.set(expires.map_or(0.0, |at| at.since(now).as_secs_f64()));
    }
}
