//! Kubernetes Events about writes rejected by placement policies. Each process reports its own.

use policy_sync_api::admission::{AdmissionDecision, AdmissionRequest};
use policy_sync_hub::reconcile::Events;

const REFUSED: &str = "PlacementRefused";

/// Publishes Events about rejected writes.
#[derive(Clone, Debug)]
pub struct RejectionEvents(Events);

impl RejectionEvents {
    /// Publishes with `events`.
    #[must_use]
    pub fn new(events: Events) -> Self {
        Self(events)
    }

    /// Publishes an Event if `verdict` denies `request`, unless it is a dry run.
    pub(crate) fn publish(&self, request: &AdmissionRequest, verdict: &AdmissionDecision) {
        if let AdmissionDecision::Denied { message, .. } = verdict
            && !request.dry_run
        {
            self.0.warn_rate_limited(request.tenant.clone(), (request.reference(), None), REFUSED, message);
        }
    }
}
