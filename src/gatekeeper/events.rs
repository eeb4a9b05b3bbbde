//! Events about what policies do not let be written: each process tells of what it has denied.

use k8s_openapi::api::core::v1::ObjectReference;

use crate::api::admission::{Request, Verdict};
use crate::reconcile::Events;

/// The reason of an Event.
const DENIED: &str = "AdmissionDenied";

/// Tells of denials.
#[derive(Clone, Debug)]
pub(crate) struct Denied(Events);

impl Denied {
    pub(crate) fn new(events: Events) -> Self {
        Self(events)
    }

    /// Tells that `request` was denied, where it was, and where it was meant: on its namespace, which is there, and of what is
    /// cluster-scoped on the object.
    pub(crate) fn tell(&self, request: &Request, verdict: &Verdict) {
        if let Verdict::Denied { message, .. } = verdict
            && !request.dry_run
        {
            self.0.warn_for(request.tenant.clone(), regarding(request), DENIED, message);
        }
    }
}

/// What an Event is about, and the object of the request where that is another one.
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
        // In the namespace itself, where those who work there see it.
        namespace: Some(namespace.clone()),
        ..ObjectReference::default()
    };
    (about, Some(object))
}
