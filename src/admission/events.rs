//! Events about denied writes. Each process reports its own denials.

use k8s_openapi::api::core::v1::ObjectReference;

use policy_sync_api::admission::{Request, Verdict};
use policy_sync_hub::reconcile::Events;

/// The reason of an Event.
const DENIED: &str = "AdmissionDenied";

/// Reports denials.
#[derive(Clone, Debug)]
pub(crate) struct Denied(Events);

impl Denied {
    pub(crate) fn new(events: Events) -> Self {
        Self(events)
    }

    /// Reports that `request` was denied. The Event is on its namespace, which exists, or on the object if that is cluster-scoped. Dry runs
    /// are not reported.
    pub(crate) fn tell(&self, request: &Request, verdict: &Verdict) {
        if let Verdict::Denied { message, .. } = verdict
            && !request.dry_run
        {
            self.0.warn_for(request.tenant.clone(), regarding(request), DENIED, message);
        }
    }
}

/// The object of the Event, and the object of the request if that differs.
fn regarding(request: &Request) -> (ObjectReference, Option<ObjectReference>) {
    let object = request.reference();
    if request.namespace.is_empty() {
        return (object, None);
    }
    let namespace = &request.namespace;
    let about = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Namespace".to_owned()),
        name: Some(namespace.clone()),
        // The Event is in the namespace itself, where its users can read it.
        namespace: Some(namespace.clone()),
        ..ObjectReference::default()
    };
    (about, Some(object))
}
