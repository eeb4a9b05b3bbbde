//! The wire types of authorization webhooks: SubjectAccessReview, in `authorization.k8s.io/v1` and `v1beta1`, which read alike but
//! for the name of the groups.

use serde::Deserialize;
use serde_json::{Value, json};

use super::tenant::Tenant;
use super::text::capped;

/// The most bytes of a reason.
const REASON: usize = 32 * 1024;
/// The versions that are read.
const VERSIONS: [&str; 2] = ["authorization.k8s.io/v1", "authorization.k8s.io/v1beta1"];
/// Their kind.
const KIND: &str = "SubjectAccessReview";

/// What a user asks of the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attributes {
    /// Something of a resource.
    Resource(Resource),
    /// A path that is no resource's.
    Path(String),
}

/// What a user asks of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Resource {
    /// The group, empty for core.
    pub group: String,
    /// The plural, or `*`.
    pub resource: String,
    /// The namespace, empty for what is cluster-scoped, and for all of them.
    pub namespace: String,
    /// The name, empty for all of them.
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
    resource_attributes: Option<Resource>,
    non_resource_attributes: Option<Path>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Path {
    path: String,
}

/// A review that can be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessReview {
    api_version: String,
    text: String,
    user: String,
    attributes: Result<Attributes, &'static str>,
}

/// What is said of a request: nobody is ever let in by it, others decide that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opinion {
    /// Others decide.
    None,
    /// It is denied, for this reason.
    Denied(String),
}

impl AccessReview {
    /// Reads the body of a request.
    ///
    /// # Errors
    ///
    /// Where it is no SubjectAccessReview.
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

    /// The review as it was sent, as JSON.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The tenant that is charged for the review, and the namespace of the request. A namespace's administrator can create a
    /// LocalSubjectAccessReview for any user, so the requests of a user take turns by namespace.
    #[must_use]
    pub fn requester(&self) -> (Tenant, &str) {
        let namespace = match &self.attributes {
            Ok(Attributes::Resource(resource)) => resource.namespace.as_str(),
            Ok(Attributes::Path(_)) | Err(_) => "",
        };
        (Tenant::user(&self.user), namespace)
    }

    /// What is asked.
    ///
    /// # Errors
    ///
    /// Where the review does not say it, or says two things.
    pub fn attributes(&self) -> Result<&Attributes, &'static str> {
        self.attributes.as_ref().map_err(|fault| *fault)
    }

    /// The answer.
    #[must_use]
    pub fn answer(&self, opinion: &Opinion) -> Value {
        let mut status = json!({"allowed": false});
        if let Opinion::Denied(reason) = opinion {
            status["denied"] = true.into();
            status["reason"] = capped(reason, REASON).into();
        }
        json!({"apiVersion": self.api_version, "kind": KIND, "status": status})
    }
}

#[cfg(test)]
mod tests;
