//! The review of an AdmissionRequest by Rego policies: allows, patches or denies it.

use json_patch::Patch;
use regorus::Value;

use super::denial::{Denial, MAX_LISTED, sorted_unique, summary};
use super::patches::merge;
use super::review_query::{object_location, review_queries};
use super::secrets;
use crate::rego_loading::document;
use policy_sync_api::admission::{AdmissionDecision, AdmissionRequest, AdmissionReview};
use policy_sync_api::names::GroupResource;
use policy_sync_api::rego_policy::EnforcementAction;
use policy_sync_api::work;
use policy_sync_rego::queries::ADMISSION;
use policy_sync_rego::snapshot::{RegoQueryError, Snapshot};

/// The webhook that sent the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmissionPhase {
    /// Called first; may return a patch.
    Mutating,
    /// Called last; sees the object that is stored.
    Validating,
}

/// The result of a review.
#[derive(Clone, Debug, PartialEq)]
pub struct ReviewResult {
    /// The response to the API server.
    pub verdict: AdmissionDecision,
    /// The number of denials that are only counted, because their Rego policies run in `dryrun` mode.
    pub dryrun_denials: usize,
}

impl From<AdmissionDecision> for ReviewResult {
    fn from(verdict: AdmissionDecision) -> Self {
        Self { verdict, dryrun_denials: 0 }
    }
}

/// Reviews `request`, parsed from the body `admission_review`, with the admission policies of `snapshot`. Evaluates
/// them once for each name (plural or alias) that they use for the kind.
///
/// # Errors
///
/// If Rego policies cannot be evaluated: they are not loaded or invalid, the evaluation runs out of time, or the
/// external engine is unreachable.
pub fn review(
    snapshot: &Snapshot,
    request: &AdmissionRequest,
    admission_review: &AdmissionReview,
    phase: AdmissionPhase,
) -> Result<ReviewResult, RegoQueryError> {
    if request.is_release() || request.operation == "DELETE" || !snapshot.has_policies_for(ADMISSION) {
        return Ok(AdmissionDecision::allowed().into());
    }
    if !request.sub_resource.is_empty() {
        let warning = format!("Rego policies are not evaluated for subresource {}", request.sub_resource);
        return Ok(AdmissionDecision::warned(vec![warning]).into());
    }
    if request.object.is_null() {
        return Ok(AdmissionDecision::failed("there is no object").into());
    }
    let (namespace, name) = object_location(request);
    let incomplete = snapshot.omitted_documents(ADMISSION, &namespace)?;
    let unread = |error: String| AdmissionDecision::failed(format!("the request cannot be read: {error}"));
    let all = match Value::from_json_str(admission_review.text()) {
        Ok(all) => all,
        Err(error) => return Ok(unread(error.to_string()).into()),
    };
    let object = match document(admission_review.object_text().unwrap_or("null")) {
        Ok(object) => object,
        Err(error) => return Ok(unread(error.to_string()).into()),
    };
    let kind = GroupResource::new(&request.resource.group, &request.resource.resource);
    let (all, object) = match snapshot.is_redacted(&kind)? {
        true => (secrets::request_without_contents(all), secrets::without_contents(object)),
        false if *kind.group == *work::GROUP => (secrets::request_without_manifests(all), object),
        false => (all, object),
    };
    let mut denials: Vec<Denial> = Vec::new();
    for review_query in review_queries(snapshot, request, &all, &object) {
        let Some(value) = snapshot.query_value(ADMISSION, &review_query.query, &review_query.input)? else {
            continue;
        };
        match Denial::read(&value, review_query.resource_ref(&namespace, &name)) {
            Ok(found) => denials.extend(secrets::without_patches_of_contents(&kind, found)),
            Err(fault) => {
                return Ok(
                    AdmissionDecision::failed(format!("{}.deny: {fault}", snapshot.query(ADMISSION))).into()
                );
            }
        }
    }
    let mut reviewed =
        combine(&sorted_unique(denials), |policy| snapshot.enforcement(policy), &request.object, phase);
    if let (AdmissionDecision::Allowed { warnings, .. }, AdmissionPhase::Validating) =
        (&mut reviewed.verdict, phase)
    {
        warnings.extend(incomplete);
    }
    Ok(reviewed)
}

/// Combines `denials` according to the enforcement of their Rego policies.
fn combine(
    denials: &[Denial],
    enforcement: impl Fn(&str) -> EnforcementAction,
    object: &serde_json::Value,
    phase: AdmissionPhase,
) -> ReviewResult {
    let of = |denial: &&Denial, expected| denial.enforcement(&enforcement) == expected;
    let with = |expected| denials.iter().filter(move |denial| of(denial, expected)).collect::<Vec<_>>();
    let dryrun_denials = with(EnforcementAction::Dryrun).len();
    let warnings: Vec<String> = match phase {
        // The validating webhook returns the warnings; otherwise users would see them twice.
        AdmissionPhase::Mutating => Vec::new(),
        AdmissionPhase::Validating => with(EnforcementAction::Warn).into_iter().map(Denial::text).collect(),
    };
    let verdict = match denied(&with(EnforcementAction::Deny), object, phase) {
        Ok(patch) => AdmissionDecision::warned(warnings).with_patch(patch),
        Err(denied) => denied,
    };
    ReviewResult { verdict, dryrun_denials }
}

/// The patch that resolves all `denials`, or the verdict that rejects the object.
fn denied(
    denials: &[&Denial],
    object: &serde_json::Value,
    phase: AdmissionPhase,
) -> Result<Patch, AdmissionDecision> {
    let is_final = denials.iter().any(|denial| denial.patches.is_empty());
    if is_final {
        let is_fault = denials.iter().any(|denial| denial.is_fault);
        let message = summary(denials.iter().copied());
        return Err(AdmissionDecision::Denied { code: if is_fault { 500 } else { 403 }, message });
    }
    match phase {
        AdmissionPhase::Mutating => merge(denials, object).map_err(AdmissionDecision::denied),
        AdmissionPhase::Validating => {
            let wanted = denials.iter().flat_map(|denial| {
                denial
                    .patches
                    .iter()
                    .map(|operation| format!("{}: still requires {}", denial.id, operation.text()))
            });
            let mut wanted: Vec<String> = wanted.take(MAX_LISTED + 1).collect();
            if wanted.len() > MAX_LISTED {
                wanted[MAX_LISTED] = "and more".to_owned();
            }
            if wanted.is_empty() {
                Ok(Patch(Vec::new()))
            } else {
                Err(AdmissionDecision::denied(wanted.join("; ")))
            }
        }
    }
}

#[cfg(test)]
mod tests;
