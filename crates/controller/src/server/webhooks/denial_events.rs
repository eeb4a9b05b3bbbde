//! Kubernetes Events about denied writes. Each process reports its own denials.

use k8s_openapi::api::core::v1::ObjectReference;

use policy_sync_api::admission::{AdmissionDecision, AdmissionRequest};
use policy_sync_hub::reconcile::{Events, namespace_reference};

/// Publishes Events about the denials of one kind of Rego policies.
#[derive(Clone, Debug)]
pub struct DenialEvents {
    events: Events,
    reason: &'static str,
    /// Returns the `regarding` and `related` objects of the Event.
    regarding: fn(&AdmissionRequest) -> (ObjectReference, Option<ObjectReference>),
}

impl DenialEvents {
    /// Reports writes that placement policies reject. The Event is about the written object.
    #[must_use]
    pub fn of_placement(events: Events) -> Self {
        Self { events, reason: "PlacementRefused", regarding: |request| (request.reference(), None) }
    }

    /// Reports writes that admission policies deny. The Event is about the object's namespace, because a denied object
    /// may not exist. If the object is cluster-scoped, the Event is about the object.
    #[must_use]
    pub fn of_admission(events: Events) -> Self {
        let regarding = |request: &AdmissionRequest| {
            let object = request.reference();
            if request.namespace.is_empty() {
                return (object, None);
            }
            (namespace_reference(&request.namespace), Some(object))
        };
        Self { events, reason: "AdmissionDenied", regarding }
    }

    /// Publishes an Event if `verdict` denies `request`. Denials of dry runs are not reported.
    pub(super) fn publish(&self, request: &AdmissionRequest, verdict: &AdmissionDecision) {
        if let AdmissionDecision::Denied { message, .. } = verdict
            && !request.dry_run
        {
            let regarding = (self.regarding)(request);
            self.events.warn_rate_limited(request.tenant.clone(), regarding, self.reason, message);
        }
    }
}
