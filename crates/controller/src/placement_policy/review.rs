//! The review of an AdmissionRequest by placement policies: sets labels and annotations, or rejects the
//! object.

use serde_json::Value;

use super::evaluation::{PACKAGE, PlacementDecision, evaluate};
use policy_sync_api::admission::{AdmissionDecision, AdmissionRequest};
use policy_sync_api::placed_by_policy::{PlacedByPolicy, strings};
use policy_sync_rego::snapshot::{RegoQueryError, Snapshot};

/// Reviews `request` with the placement policies of `snapshot`. Runs one evaluation.
///
/// # Errors
///
/// If placement policies cannot be evaluated.
pub fn review(snapshot: &Snapshot, request: &AdmissionRequest) -> Result<AdmissionDecision, RegoQueryError> {
    let object = &request.object;
    if request.is_release() || !snapshot.has_policies_for(PACKAGE) {
        return Ok(AdmissionDecision::allowed());
    }
    let decision = evaluate(snapshot, object, &original(object, &request.old_object))?;
    let incomplete =
        snapshot.omitted_documents(PACKAGE, object["metadata"]["namespace"].as_str().unwrap_or_default())?;
    Ok(match decision {
        PlacementDecision::Placed(placed) => AdmissionDecision::warned(incomplete.into_iter().collect())
            .with_patch(json_patch::diff(object, &placed)),
        PlacementDecision::Rejected(errors) => AdmissionDecision::denied(errors),
        PlacementDecision::Invalid(fault) => AdmissionDecision::failed(fault),
    })
}

/// The original form of `object`, which replaces `old`. The record of original values is taken from the stored object,
/// because the record in the request may be forged. The record in the request is used only if it leaves the original
/// unchanged. Such a request usually comes from the controller or from `policy-sync placement apply`, which evaluate
/// placement policies themselves.
pub(super) fn original(object: &Value, old: &Value) -> Value {
    let (stored, sent) = (PlacedByPolicy::from_object(old), PlacedByPolicy::from_object(object));
    if !old.is_null() && sent != stored {
        let (before, now) = (stored.original(old), sent.original(object));
        let is_as_before = |field| strings(&before, field) == strings(&now, field);
        if is_as_before("labels") && is_as_before("annotations") {
            return now;
        }
    }
    stored.original(object)
}

#[cfg(test)]
mod tests;
