//! Evaluates the compliance of one object and catches panics.

use std::panic::{AssertUnwindSafe, catch_unwind};

use k8s_openapi::api::core::v1::ObjectReference;
use regorus::Value as Rego;
use tracing::error;

use crate::placement_policy::compliance::{Compliance, compliance_without};
use crate::placement_policy::evaluation::ContentHash;
use policy_sync_api::names::{GroupResource, ObjectKey};
use policy_sync_rego::snapshot::{RegoQueryError, Snapshot};

/// The compliance of an object, and the hash of its content.
#[derive(Debug)]
pub(super) struct Evaluation {
    pub(super) compliance: Result<Compliance, RegoQueryError>,
    /// `None` if the object could not be evaluated.
    pub(super) content: Option<ContentHash>,
}

/// Evaluates `object` with `hidden` documents left out of `data`. A panic is caught.
pub(super) fn evaluate(
    snapshot: &Snapshot,
    object: &Rego,
    hidden: &[(GroupResource, ObjectKey)],
) -> Evaluation {
    let breaks = |text: String| Evaluation { compliance: Ok(Compliance::Violates(text)), content: None };
    let judged = catch_unwind(AssertUnwindSafe(|| match serde_json::to_value(object) {
        Ok(object) => Evaluation {
            compliance: compliance_without(snapshot, &object, hidden),
            content: Some(ContentHash::of_stored(&object)),
        },
        Err(fault) => breaks(format!("it cannot be read: {fault}")),
    }));
    judged.unwrap_or_else(|_| {
        error!("the evaluation of placement policies for an object panicked");
        breaks("the evaluation of placement policies panicked: see the log of the controller".to_owned())
    })
}

/// A reference to `object` for Events.
pub(super) fn reference(object: &Rego) -> ObjectReference {
    let text = |value: &Rego| value.as_string().ok().map(ToString::to_string);
    let metadata = &object["metadata"];
    ObjectReference {
        api_version: text(&object["apiVersion"]),
        kind: text(&object["kind"]),
        namespace: text(&metadata["namespace"]),
        name: text(&metadata["name"]),
        uid: text(&metadata["uid"]),
        ..ObjectReference::default()
    }
}
