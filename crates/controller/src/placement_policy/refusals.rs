//! Kubernetes Events about writes rejected by placement policies. Each process reports its own.

use policy_sync_api::admission::{Request, Verdict};
use policy_sync_hub::reconcile::Events;

const REFUSED: &str = "PlacementRefused";

/// Publishes Events about rejected writes.
#[derive(Clone, Debug)]
pub struct Refusals(Events);

impl Refusals {
    /// Publishes with `events`.
    #[must_use]
    pub fn new(events: Events) -> Self {
        Self(events)
    }

    /// Publishes an Event if `verdict` denies `request`, unless it is a dry run.
    pub(crate) fn tell(&self, request: &Request, verdict: &Verdict) {
        if let Verdict::Denied { message, .. } = verdict
            && !request.dry_run
        {
            self.0.warn_for(request.tenant.clone(), (request.reference(), None), REFUSED, message);
        }
    }
}
