//! Kubernetes Events about denied writes. Each process reports its own denials.

use k8s_openapi::api::core::v1::ObjectReference;

use policy_sync_api::admission::{AdmissionDecision, AdmissionRequest};
use policy_sync_hub::reconcile::{Events, namespace_reference};

const DENIED: &str = "AdmissionDenied";

/// Publishes Events about denied writes.
#[derive(Clone, Debug)]
pub struct DenialEvents(Events);

impl DenialEvents {
    /// Publishes with `events`.
    #[must_use]
    pub fn new(events: Events) -> Self {
        Self(events)
    }

    /// Publishes an Event if `verdict` denies `request`. The Event is about the namespace, which exists, or
    /// about the object if that is cluster-scoped. Dry runs are not reported.
    pub(crate) fn publish(&self, request: &AdmissionRequest, verdict: &AdmissionDecision) {
        if let AdmissionDecision::Denied { message, .. } = verdict
            && !request.dry_run
        {
            self.0.warn_rate_limited(request.tenant.clone(), regarding(request), DENIED, message);
        }
    }
}

/// The `regarding` and `related` objects of the Event.
fn regarding(request: &AdmissionRequest) -> (ObjectReference, Option<ObjectReference>) {
    let object = request.reference();
    if request.namespace.is_empty() {
        return (object, None);
    }
    (namespace_reference(&request.namespace), Some(object))
}
