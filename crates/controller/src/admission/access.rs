//! Review of a SubjectAccessReview by Rego policies, which can deny a request but never allow one.

use std::collections::BTreeSet;

use regorus::Value;

use super::denial::{Denial, ResourceRef, sorted_unique, summary};
use policy_sync_api::access::{AccessDecision, AccessReview, Attributes, ResourceAttributes};
use policy_sync_api::names::GroupResource;
use policy_sync_api::rego_policy::{EnforcementAction, GROUP, PLURAL};
use policy_sync_rego::queries::AUTHORIZATION;
use policy_sync_rego::snapshot::{RegoQueryError, Snapshot};

/// The `kind` that Rego policies see for a request on a non-resource path.
const NO_KIND: &str = "None";
/// First segments of the discovery paths, which `kubectl` reads before every write.
const DISCOVERY: [&str; 4] = ["api", "apis", "openapi", "version"];

/// The result of a review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessReviewResult {
    /// The opinion returned to the API server.
    pub opinion: AccessDecision,
    /// The number of denials that are only counted, because their Rego policies run in `dryrun` mode.
    pub dryrun_denials: usize,
    /// Whether the request is denied only because Rego policies returned invalid results.
    pub is_fault: bool,
}

impl AccessReviewResult {
    const NONE: Self = Self { opinion: AccessDecision::None, dryrun_denials: 0, is_fault: false };

    fn denied(reason: String) -> Self {
        Self { opinion: AccessDecision::Denied(reason), ..Self::NONE }
    }
}

/// Evaluates the authorization policies of `snapshot` for the request described by `access`.
///
/// # Errors
///
/// If Rego policies cannot be evaluated: they are not loaded or invalid, the evaluation runs out of time, or the
/// external engine is unreachable.
pub fn review(snapshot: &Snapshot, access: &AccessReview) -> Result<AccessReviewResult, RegoQueryError> {
    if !snapshot.has_policies_for(AUTHORIZATION) {
        return Ok(AccessReviewResult::NONE);
    }
    let resource_ref = match access.attributes() {
        Ok(attributes) => resource_ref(attributes),
        Err(fault) => return Ok(AccessReviewResult::denied(fault.to_owned())),
    };
    let input = match input(access.text(), resource_ref) {
        Ok(input) => input,
        Err(fault) => return Ok(AccessReviewResult::denied(format!("the review cannot be read: {fault}"))),
    };
    // If a namespace exceeds its share of a limit, documents of the namespace are left out. Reads and deletes of the
    // left-out objects are reviewed, so that users can delete these objects. Other requests in the namespace fail if
    // authorization policies read left-out documents.
    if !reads_or_deletes_left_out(snapshot, access, &input) {
        snapshot.omitted_documents(AUTHORIZATION, resource_ref.namespace)?;
    }
    let query = format!("{}.deny", snapshot.query(AUTHORIZATION));
    let Some(value) = snapshot.query_value(AUTHORIZATION, &query, &input)? else {
        return Ok(AccessReviewResult::NONE);
    };
    let denials = match Denial::read(&value, resource_ref) {
        Ok(denials) => sorted_unique(denials),
        Err(fault) => {
            return Ok(AccessReviewResult {
                is_fault: true,
                ..AccessReviewResult::denied(format!("{query}: {fault}"))
            });
        }
    };
    let is_dry = |denial: &Denial| {
        denial.enforcement(|policy| snapshot.enforcement(policy)) == EnforcementAction::Dryrun
    };
    let (dryrun_denials, denials): (Vec<_>, Vec<_>) = denials.into_iter().partition(is_dry);
    let decision = if denials.is_empty() {
        AccessReviewResult::NONE
    } else {
        AccessReviewResult::denied(summary(denials.iter()))
    };
    // If another Rego policy also denies the request, the invalid result makes no difference.
    let is_fault = !denials.is_empty() && denials.iter().all(|denial| denial.is_fault);
    Ok(AccessReviewResult { dryrun_denials: dryrun_denials.len(), is_fault, ..decision })
}

/// Whether `access` is needed to repair Rego policies: it concerns the ConfigMaps in `namespaces`, the RegoPolicy
/// resources, or API discovery. Such requests are not denied while Rego policies cannot be evaluated.
#[must_use]
pub fn is_for_repair(access: &AccessReview, namespaces: &BTreeSet<String>) -> bool {
    match access.attributes() {
        Ok(Attributes::Resource(ResourceAttributes { group, resource, namespace, .. })) => {
            match (group.as_str(), resource.as_str()) {
                ("", "configmaps") => namespaces.contains(namespace),
                (GROUP, PLURAL) => true,
                _ => false,
            }
        }
        Ok(Attributes::Path(path)) => {
            path.trim_start_matches('/').split('/').next().is_some_and(|first| DISCOVERY.contains(&first))
        }
        Err(_) => false,
    }
}

/// The kind, namespace and name of the request, as Rego policies see them.
fn resource_ref(attributes: &Attributes) -> ResourceRef<'_> {
    match attributes {
        Attributes::Resource(ResourceAttributes { resource, namespace, name, .. }) => {
            ResourceRef { kind: resource, namespace, name }
        }
        Attributes::Path(path) => ResourceRef { kind: NO_KIND, namespace: "", name: path },
    }
}

/// Whether `access` reads or deletes objects whose documents are left out because their namespace exceeds a limit.
/// `input` is `access` as JSON.
fn reads_or_deletes_left_out(snapshot: &Snapshot, access: &AccessReview, input: &Value) -> bool {
    let Ok(Attributes::Resource(ResourceAttributes { group, resource, namespace, .. })) = access.attributes()
    else {
        return false;
    };
    let attributes = &input["spec"]["resourceAttributes"];
    let text = |field: &str| attributes[field].as_string().map(|text| text.to_string()).unwrap_or_default();
    text("subresource").is_empty()
        && ["get", "list", "delete", "deletecollection"].contains(&text("verb").as_str())
        && snapshot.are_omitted(namespace, &GroupResource::new(group, resource))
}

/// Builds the input of Rego policies: the review with the additional field `reviewed`. v1beta1 has `group` instead of
/// `groups`, so `groups` is also added.
fn input(text: &str, resource_ref: ResourceRef<'_>) -> Result<Value, String> {
    let mut input = Value::from_json_str(text).map_err(|error| error.to_string())?;
    let groups = input["spec"]["group"].clone();
    if groups != Value::Undefined && input["spec"]["groups"] == Value::Undefined {
        let spec = input.as_object_mut().ok().and_then(|review| review.get_mut(&"spec".into()));
        if let Some(Ok(spec)) = spec.map(Value::as_object_mut) {
            spec.insert("groups".into(), groups);
        }
    }
    let reviewed = resource_ref.reviewed(input.clone());
    let review = input.as_object_mut().map_err(|error| error.to_string())?;
    review.insert("reviewed".into(), reviewed);
    Ok(input)
}

#[cfg(test)]
mod tests;
