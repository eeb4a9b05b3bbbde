//! Events about what policies do not let in: each process tells of those that it has denied.

use policy_sync_api::admission::{Request, Verdict};
use policy_sync_hub::reconcile::Events;

/// The reason of an Event.
const REFUSED: &str = "PlacementRefused";

/// Tells of refusals.
#[derive(Clone, Debug)]
pub(crate) struct Refusals(Events);

impl Refusals {
    pub(crate) fn new(events: Events) -> Self {
        Self(events)
    }

    /// Tells that `request` was refused, where it was, and where it was meant.
    pub(crate) fn tell(&self, request: &Request, verdict: &Verdict) {
        if let Verdict::Denied { message, .. } = verdict
            && !request.dry_run
        {
            self.0.warn_for(request.tenant.clone(), (request.reference(), None), REFUSED, message);
        }
    }
}
