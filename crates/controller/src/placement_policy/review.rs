//! The review of an AdmissionRequest by placement policies: sets labels and annotations, or rejects the
//! object.

use serde_json::Value;

use super::question::{PACKAGE, Said, ask};
use policy_sync_api::admission::{Request, Verdict};
use policy_sync_api::placed_by_policy::{Placed, strings};
use policy_sync_rego::snapshot::{Snapshot, Unanswered};

/// Reviews `request` with the placement policies of `snapshot`. Takes one evaluation.
///
/// # Errors
///
/// If policies cannot be evaluated.
pub fn review(snapshot: &Snapshot, request: &Request) -> Result<Verdict, Unanswered> {
    let object = &request.object;
    if request.is_release() || !snapshot.is_asked(PACKAGE) {
        return Ok(Verdict::allowed());
    }
    let said = ask(snapshot, object, &wish(object, &request.old_object))?;
    let incomplete =
        snapshot.incomplete(PACKAGE, object["metadata"]["namespace"].as_str().unwrap_or_default())?;
    Ok(match said {
        Said::Placed(placed) => {
            Verdict::warned(incomplete.into_iter().collect()).with_patch(json_patch::diff(object, &placed))
        }
        Said::Refused(errors) => Verdict::denied(errors),
        Said::Unusable(fault) => Verdict::failed(fault),
    })
}

/// The original form of `object`, which replaces `old`. The record of original values is taken from the
/// stored object, because the one in the request may be forged. The request's own record counts only if it
/// leads to the same original as the stored one: then the sender has evaluated placement policies too.
pub(super) fn wish(object: &Value, old: &Value) -> Value {
    let (stored, sent) = (Placed::stored(old), Placed::stored(object));
    if !old.is_null() && sent != stored {
        let (before, now) = (stored.wish(old), sent.wish(object));
        let is_as_before = |field| strings(&before, field) == strings(&now, field);
        if is_as_before("labels") && is_as_before("annotations") {
            return now;
        }
    }
    stored.wish(object)
}

#[cfg(test)]
mod tests;
