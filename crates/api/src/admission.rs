//! Wire types of admission webhooks: AdmissionReview in `admission.k8s.io/v1` and `v1beta1`. The fields read here are
//! the same in both versions.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use json_patch::Patch;
use k8s_openapi::api::core::v1::ObjectReference;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::names::GroupResource;
use super::object::HubObject;
use super::release::is_release;
use super::tenant::Tenant;

/// The maximum size of a message, in bytes.
const MESSAGE_LIMIT: usize = 32 * 1024;

/// The maximum size of a warning, in bytes. The API server cuts warnings if there are many.
const WARNING_LIMIT: usize = 256;

/// The request of an AdmissionReview.
#[derive(Clone, Debug, Default)]
pub struct AdmissionRequest {
    /// The kind of the object.
    pub kind: RequestKind,
    /// The resource of the object.
    pub resource: RequestResource,
    /// The subresource, for example `status`; empty for the object itself.
    pub sub_resource: String,
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub operation: String,
    /// The object's namespace; empty for a cluster-scoped object.
    pub namespace: String,
    /// The object's name; empty if the API server generates it.
    pub name: String,
    /// The object to store.
    pub object: Value,
    /// The stored object; null if there is none.
    pub old_object: Value,
    /// Whether the request is a dry run: nothing is stored.
    pub dry_run: bool,
    /// The tenant to which the review and its Events are charged.
    pub tenant: Tenant,
}

impl AdmissionRequest {
    /// Whether the request only releases a terminating object. Such a request is not reviewed: it changes only
    /// finalizers, `managedFields`, `resourceVersion` and the status.
    #[must_use]
    pub fn is_release(&self) -> bool {
        is_release(&self.operation, &self.object, &self.old_object)
    }

    /// A reference to the object. If it has no name yet, `generateName` is used.
    #[must_use]
    pub fn reference(&self) -> ObjectReference {
        let RequestKind { group, version, kind } = &self.kind;
        let metadata = &self.object["metadata"];
        let text = |field: &str| metadata[field].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let name = Some(self.name.clone()).filter(|name| !name.is_empty());
        ObjectReference {
            api_version: Some(if group.is_empty() { version.clone() } else { format!("{group}/{version}") }),
            kind: Some(kind.clone()),
            namespace: Some(self.namespace.clone()).filter(|namespace| !namespace.is_empty()),
            name: name.or_else(|| text("name")).or_else(|| text("generateName")),
            uid: text("uid"),
            ..ObjectReference::default()
        }
    }
}

/// A resource in one version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RequestResource {
    /// The API group; empty for the core group.
    pub group: String,
    /// The API version.
    pub version: String,
    /// The plural of the resource.
    pub resource: String,
}

/// A kind in one version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RequestKind {
    /// The API group; empty for the core group.
    pub group: String,
    /// The API version.
    pub version: String,
    /// The kind, for example `Deployment`.
    pub kind: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawReview {
    api_version: String,
    kind: String,
    request: Option<Box<RawValue>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawRequest {
    uid: String,
    #[serde(default)]
    kind: RequestKind,
    #[serde(default)]
    resource: RequestResource,
    #[serde(default)]
    sub_resource: String,
    #[serde(default)]
    operation: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    object: Option<Box<RawValue>>,
    #[serde(default)]
    old_object: Option<Box<RawValue>>,
    #[serde(default)]
    dry_run: Option<bool>,
    #[serde(default)]
    user_info: UserInfo,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct UserInfo {
    username: String,
}

/// A parsed AdmissionReview. Its objects are not parsed yet.
#[derive(Debug)]
pub struct AdmissionReview {
    api_version: String,
    text: Box<RawValue>,
    raw: RawRequest,
}

impl AdmissionReview {
    /// Parses the body of a request, except for the objects in it.
    ///
    /// # Errors
    ///
    /// If the body is not an AdmissionReview.
    pub fn read(body: &[u8]) -> Result<Self, String> {
        let review: RawReview = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        if review.kind != "AdmissionReview" || !review.api_version.starts_with("admission.k8s.io/v1") {
            return Err(format!("expected an AdmissionReview, found {} {}", review.api_version, review.kind));
        }
        let text = review.request.ok_or("an AdmissionReview must have a request")?;
        let raw = serde_json::from_str(text.get()).map_err(|error| error.to_string())?;
        Ok(Self { api_version: review.api_version, text, raw })
    }

    /// The field `request` as JSON, unchanged.
    #[must_use]
    pub fn text(&self) -> &str {
        self.text.get()
    }

    /// The object to store as JSON, unchanged; `None` for a deletion.
    #[must_use]
    pub fn object_text(&self) -> Option<&str> {
        self.raw.object.as_deref().map(RawValue::get)
    }

    /// The resource with its group, for example `deployments.apps`.
    #[must_use]
    pub fn resource(&self) -> String {
        GroupResource::new(&self.raw.resource.group, &self.raw.resource.resource).to_string()
    }

    /// The tenant to which the evaluation time of the review is charged, and the user.
    ///
    /// Reviews of cluster-scoped objects and of Namespaces are charged to the user. In a request for a Namespace, the
    /// field `namespace` has the Namespace's own name. If that namespace were charged, a user could get the evaluation
    /// time of many tenants by dry runs with many names.
    #[must_use]
    pub fn requester(&self) -> (Tenant, &str) {
        let RawRequest { resource, namespace, user_info, .. } = &self.raw;
        let is_namespace = resource.group.is_empty() && resource.resource == "namespaces";
        let tenant = match namespace.as_str() {
            namespace if !namespace.is_empty() && !is_namespace => Tenant::namespace(namespace),
            _ => Tenant::user(&user_info.username),
        };
        (tenant, &user_info.username)
    }

    /// The object to store, and the stored object if any.
    ///
    /// # Errors
    ///
    /// If there is no object to store, or if an object cannot be parsed.
    pub fn objects(&self) -> Result<(HubObject, Option<HubObject>), String> {
        let read =
            |raw: &RawValue| serde_json::from_str::<HubObject>(raw.get()).map_err(|error| error.to_string());
        let object = self.raw.object.as_deref().ok_or("there is no object")?;
        Ok((read(object)?, self.raw.old_object.as_deref().map(read).transpose()?))
    }

    /// The request with its objects parsed.
    ///
    /// # Errors
    ///
    /// If an object cannot be parsed, for example because it is nested deeper than 128 levels.
    pub fn request(&self) -> Result<AdmissionRequest, String> {
        let read = |raw: &Option<Box<RawValue>>, what: &str| match raw {
            None => Ok(Value::Null),
            Some(raw) => {
                serde_json::from_str(raw.get()).map_err(|error| format!("{what} cannot be read: {error}"))
            }
        };
        let raw = &self.raw;
        Ok(AdmissionRequest {
            kind: raw.kind.clone(),
            resource: raw.resource.clone(),
            sub_resource: raw.sub_resource.clone(),
            operation: raw.operation.clone(),
            namespace: raw.namespace.clone(),
            name: raw.name.clone(),
            object: read(&raw.object, "the object")?,
            old_object: read(&raw.old_object, "the stored object")?,
            dry_run: raw.dry_run.unwrap_or_default(),
            tenant: self.requester().0,
        })
    }

    /// The response, as JSON.
    #[must_use]
    pub fn response(&self, decision: &AdmissionDecision) -> Value {
        let mut response = json!({"uid": self.raw.uid, "allowed": decision.is_allowed()});
        match decision {
            AdmissionDecision::Denied { code, message } => {
                let message = super::text::truncate_bytes(message, MESSAGE_LIMIT);
                response["status"] = json!({"code": code, "message": message});
            }
            AdmissionDecision::Allowed { patch, warnings } => {
                if !patch.0.is_empty() {
                    let patch = serde_json::to_vec(patch).unwrap_or_default();
                    response["patchType"] = "JSONPatch".into();
                    response["patch"] = STANDARD.encode(patch).into();
                }
                if !warnings.is_empty() {
                    let warnings =
                        warnings.iter().map(|warning| super::text::truncate_bytes(warning, WARNING_LIMIT));
                    response["warnings"] = warnings.collect::<Vec<_>>().into();
                }
            }
        }
        json!({"apiVersion": self.api_version, "kind": "AdmissionReview", "response": response})
    }
}

/// The decision on a request.
#[derive(Clone, Debug, PartialEq)]
pub enum AdmissionDecision {
    /// The request is allowed.
    Allowed {
        /// Changes to the object; empty for none.
        patch: Patch,
        /// Warnings for the client.
        warnings: Vec<String>,
    },
    /// The request is denied.
    Denied {
        /// The HTTP status: 403 for a denial by policies, 500 if they could not be evaluated, 429 if too many reviews
        /// wait.
        code: u16,
        /// The reason of the denial.
        message: String,
    },
}

impl AdmissionDecision {
    /// Allows the request without changes or warnings.
    #[must_use]
    pub fn allowed() -> Self {
        Self::Allowed { patch: Patch(Vec::new()), warnings: Vec::new() }
    }

    /// Allows the request with warnings.
    #[must_use]
    pub fn warned(warnings: Vec<String>) -> Self {
        Self::Allowed { patch: Patch(Vec::new()), warnings }
    }

    /// Adds changes, if the request is allowed.
    #[must_use]
    pub fn with_patch(self, patch: Patch) -> Self {
        match self {
            Self::Allowed { warnings, .. } => Self::Allowed { patch, warnings },
            denied @ Self::Denied { .. } => denied,
        }
    }

    /// Denies the request because of policies (403).
    #[must_use]
    pub fn denied(message: impl Into<String>) -> Self {
        Self::Denied { code: 403, message: message.into() }
    }

    /// Denies because policies could not be evaluated (500).
    #[must_use]
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Denied { code: 500, message: message.into() }
    }

    /// Denies because the queue of reviews is full (429).
    #[must_use]
    pub fn too_many() -> Self {
        Self::Denied { code: 429, message: "too many reviews are waiting".to_owned() }
    }

    /// Whether the request is allowed.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed { .. })
    }
}

#[cfg(test)]
mod tests;
