//! Events about what policies do not let in: each process tells of those that it has denied.

use k8s_openapi::api::core::v1::ObjectReference;

use crate::api::admission::{Kind, Request, Verdict};
use crate::reconcile::Events;

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
            self.0.warn(reference(request), REFUSED, message.clone());
        }
    }
}

/// The object: by its name where it is not there yet, and by what its name begins with where it has none.
fn reference(request: &Request) -> ObjectReference {
    let Kind { group, version, kind } = &request.kind;
    let metadata = &request.object["metadata"];
    let text = |field: &str| metadata[field].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let name = Some(request.name.clone()).filter(|name| !name.is_empty());
    ObjectReference {
        api_version: Some(if group.is_empty() { version.clone() } else { format!("{group}/{version}") }),
        kind: Some(kind.clone()),
        namespace: Some(request.namespace.clone()).filter(|namespace| !namespace.is_empty()),
        name: name.or_else(|| text("name")).or_else(|| text("generateName")),
        uid: text("uid"),
        ..ObjectReference::default()
    }
}
