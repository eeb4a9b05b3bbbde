//! The review of an AdmissionRequest by Rego policies: allows, patches or denies it.

use json_patch::Patch;
use regorus::Value;

use super::denial::{Denial, NAMED, in_order, told};
use super::patches::merge;
use super::question::{place, questions};
use super::secrets;
use crate::rego_loading::document;
use policy_sync_api::admission::{Asked, Request, Verdict};
use policy_sync_api::names::GroupResource;
use policy_sync_api::rego_policy::Enforcement;
use policy_sync_api::work;
use policy_sync_rego::asked::ADMISSION;
use policy_sync_rego::snapshot::{Snapshot, Unanswered};

/// The webhook that sent the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registration {
    /// Called first; may return a patch.
    Mutating,
    /// Called last; sees the object that is stored.
    Validating,
}

/// The result of a review.
#[derive(Clone, Debug, PartialEq)]
pub struct Reviewed {
    /// The response to the API server.
    pub verdict: Verdict,
    /// The number of denials that are only counted, because their Rego policies run in `dryrun` mode.
    pub dry: usize,
}

impl From<Verdict> for Reviewed {
    fn from(verdict: Verdict) -> Self {
        Self { verdict, dry: 0 }
    }
}

/// Reviews `request`, parsed from the body `asked`, with the admission policies of `snapshot`. Takes one
/// evaluation for each name that policies use for its kind.
///
/// # Errors
///
/// If policies cannot be evaluated: not loaded, invalid, out of time, or unreachable.
pub fn review(
    snapshot: &Snapshot,
    request: &Request,
    asked: &Asked,
    by: Registration,
) -> Result<Reviewed, Unanswered> {
    if request.is_release() || request.operation == "DELETE" || !snapshot.is_asked(ADMISSION) {
        return Ok(Verdict::allowed().into());
    }
    if !request.sub_resource.is_empty() {
        let warning = format!("Rego policies are not evaluated for subresource {}", request.sub_resource);
        return Ok(Verdict::warned(vec![warning]).into());
    }
    if request.object.is_null() {
        return Ok(Verdict::failed("there is no object").into());
    }
    let (namespace, name) = place(request);
    let incomplete = snapshot.incomplete(ADMISSION, &namespace)?;
    let unread = |error: String| Verdict::failed(format!("the request cannot be read: {error}"));
    let all = match Value::from_json_str(asked.text()) {
        Ok(all) => all,
        Err(error) => return Ok(unread(error.to_string()).into()),
    };
    let object = match document(asked.object_text().unwrap_or("null")) {
        Ok(object) => object,
        Err(error) => return Ok(unread(error.to_string()).into()),
    };
    let kind = GroupResource::new(&request.resource.group, &request.resource.resource);
    let (all, object) = match snapshot.withholds(&kind)? {
        true => (secrets::request_without_contents(all), secrets::without_contents(object)),
        false if *kind.group == *work::GROUP => (secrets::request_without_manifests(all), object),
        false => (all, object),
    };
    let mut denials: Vec<Denial> = Vec::new();
    for question in questions(snapshot, request, &all, &object) {
        let Some(answer) = snapshot.ask(ADMISSION, &question.query, &question.input)? else { continue };
        match Denial::read(&answer, question.place(&namespace, &name)) {
            Ok(found) => denials.extend(secrets::without_patches_of_contents(&kind, found)),
            Err(fault) => {
                return Ok(Verdict::failed(format!("{}.deny: {fault}", snapshot.query(ADMISSION))).into());
            }
        }
    }
    let mut reviewed = weigh(&in_order(denials), |policy| snapshot.enforcement(policy), &request.object, by);
    if let (Verdict::Allowed { warnings, .. }, Registration::Validating) = (&mut reviewed.verdict, by) {
        warnings.extend(incomplete);
    }
    Ok(reviewed)
}

/// Combines `denials` according to the enforcement of their Rego policies.
fn weigh(
    denials: &[Denial],
    enforcement: impl Fn(&str) -> Enforcement,
    object: &serde_json::Value,
    by: Registration,
) -> Reviewed {
    let of = |denial: &&Denial, expected| denial.enforcement(&enforcement) == expected;
    let with = |expected| denials.iter().filter(move |denial| of(denial, expected)).collect::<Vec<_>>();
    let dry = with(Enforcement::Dryrun).len();
    let warnings: Vec<String> = match by {
        // The validating webhook returns the warnings; otherwise users would see them twice.
        Registration::Mutating => Vec::new(),
        Registration::Validating => with(Enforcement::Warn).into_iter().map(Denial::text).collect(),
    };
    let verdict = match denied(&with(Enforcement::Deny), object, by) {
        Ok(patch) => Verdict::warned(warnings).with_patch(patch),
        Err(denied) => denied,
    };
    Reviewed { verdict, dry }
}

/// The patch that resolves all `denials`, or the verdict that rejects the object.
fn denied(denials: &[&Denial], object: &serde_json::Value, by: Registration) -> Result<Patch, Verdict> {
    let is_final = denials.iter().any(|denial| denial.patches.is_empty());
    if is_final {
        let is_fault = denials.iter().any(|denial| denial.is_fault);
        let message = told(denials.iter().copied());
        return Err(Verdict::Denied { code: if is_fault { 500 } else { 403 }, message });
    }
    match by {
        Registration::Mutating => merge(denials, object).map_err(Verdict::denied),
        Registration::Validating => {
            let wanted = denials.iter().flat_map(|denial| {
                denial
                    .patches
                    .iter()
                    .map(|operation| format!("{}: still requires {}", denial.id, operation.text()))
            });
            let mut wanted: Vec<String> = wanted.take(NAMED + 1).collect();
            if wanted.len() > NAMED {
                wanted[NAMED] = "and more".to_owned();
            }
            if wanted.is_empty() { Ok(Patch(Vec::new())) } else { Err(Verdict::denied(wanted.join("; "))) }
        }
    }
}

#[cfg(test)]
mod tests;
