//! Wire types of authorization webhooks: SubjectAccessReview in `authorization.k8s.io/v1` and `v1beta1`. The fields
//! read here are the same in both versions.

use serde::Deserialize;
use serde_json::{Value, json};

use super::tenant::Tenant;
use super::text::truncate_bytes;

/// The maximum size of a reason, in bytes.
const REASON_LIMIT: usize = 32 * 1024;
/// The supported API versions.
const VERSIONS: [&str; 2] = ["authorization.k8s.io/v1", "authorization.k8s.io/v1beta1"];
/// The kind in both versions.
const KIND: &str = "SubjectAccessReview";

/// The requested access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attributes {
    /// Access to a resource.
    Resource(ResourceAttributes),
    /// Access to a path outside of resources, for example `/metrics`.
    Path(String),
}

/// The resource to which access is requested.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ResourceAttributes {
    /// The API group; empty for the core group.
    pub group: String,
    /// The plural, or `*` for all resources.
    pub resource: String,
    /// The namespace; empty for cluster-scoped resources, and for all namespaces.
    pub namespace: String,
    /// The object's name; empty for all objects.
    pub name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    api_version: String,
    kind: String,
    #[serde(default)]
    spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    user: String,
    resource_attributes: Option<ResourceAttributes>,
    non_resource_attributes: Option<Path>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Path {
    path: String,
}

/// A parsed SubjectAccessReview.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessReview {
    api_version: String,
    text: String,
    user: String,
    attributes: Result<Attributes, &'static str>,
}

/// The decision on a request. It never allows a request; without a denial, the next authorizer decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessDecision {
    /// No Rego policy denies the request.
    None,
    /// A denial with its reason.
    Denied(String),
}

impl AccessReview {
    /// Parses the body of a request.
    ///
    /// # Errors
    ///
    /// If the body is not a SubjectAccessReview.
    pub fn read(body: Vec<u8>) -> Result<Self, String> {
        let text = String::from_utf8(body).map_err(|error| error.to_string())?;
        let review: Review = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let Review { api_version, kind, spec } = review;
        if kind != KIND || !VERSIONS.contains(&api_version.as_str()) {
            return Err(format!("expected a {KIND}, found {api_version} {kind}"));
        }
        let attributes = match (spec.resource_attributes, spec.non_resource_attributes) {
            (Some(resource), None) => Ok(Attributes::Resource(resource)),
            (None, Some(Path { path })) => Ok(Attributes::Path(path)),
            (None, None) => Err("the review has neither resourceAttributes nor nonResourceAttributes"),
            (Some(_), Some(_)) => Err("the review has both resourceAttributes and nonResourceAttributes"),
        };
        Ok(Self { api_version, text, user: spec.user, attributes })
    }

    /// The review as JSON, unchanged.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The tenant to which the evaluation time of the review is charged, and the namespace of the request.
    ///
    /// The administrator of a namespace can create a LocalSubjectAccessReview that names any user. So that these
    /// reviews do not delay the user's other requests, the namespaces of a user take turns.
    #[must_use]
    pub fn requester(&self) -> (Tenant, &str) {
        let namespace = match &self.attributes {
            Ok(Attributes::Resource(resource)) => resource.namespace.as_str(),
            Ok(Attributes::Path(_)) | Err(_) => "",
        };
        (Tenant::user(&self.user), namespace)
    }

    /// The requested access.
    ///
    /// # Errors
    ///
    /// If the review has no attributes, or both resource and non-resource attributes.
    pub fn attributes(&self) -> Result<&Attributes, &'static str> {
        self.attributes.as_ref().map_err(|fault| *fault)
    }

    /// The response, as JSON.
    #[must_use]
    pub fn response(&self, decision: &AccessDecision) -> Value {
        let mut status = json!({"allowed": false});
        if let AccessDecision::Denied(reason) = decision {
            status["denied"] = true.into();
            status["reason"] = truncate_bytes(reason, REASON_LIMIT).into();
        }
        json!({"apiVersion": self.api_version, "kind": KIND, "status": status})
    }
}

#[cfg(test)]
mod tests;
