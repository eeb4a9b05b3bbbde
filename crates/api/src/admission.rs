//! The wire types of admission webhooks: AdmissionReview, in `admission.k8s.io/v1` and `v1beta1`, which read alike.

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

/// The most bytes of a message.
const MESSAGE: usize = 32 * 1024;

/// The most bytes of a warning: the API server cuts them where there are many.
const WARNING: usize = 256;

/// What the API server asks.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The kind of what is written.
    pub kind: Kind,
    /// Its resource.
    pub resource: Resource,
    /// The part of it that is written, `status`; empty where it is the object.
    pub sub_resource: String,
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub operation: String,
    /// Its namespace, empty for a cluster-scoped object.
    pub namespace: String,
    /// Its name, empty where the server will make one up.
    pub name: String,
    /// The object as it is to be written.
    pub object: Value,
    /// The object as it is stored, null where it is not.
    pub old_object: Value,
    /// Whether nothing will be stored.
    pub dry_run: bool,
    /// The tenant that is charged for the review and its Events.
    pub tenant: Tenant,
}

impl Request {
    /// Whether it only releases a terminating object, which is not reviewed: nothing but finalizers, `managedFields`,
    /// `resourceVersion` and the status differ from the stored object.
    #[must_use]
    pub fn is_release(&self) -> bool {
        is_release(&self.operation, &self.object, &self.old_object)
    }

    /// The object: by its name where it is not there yet, and by what its name begins with where it has none.
    #[must_use]
    pub fn reference(&self) -> ObjectReference {
        let Kind { group, version, kind } = &self.kind;
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

/// A resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Resource {
    /// Its group, empty for core.
    pub group: String,
    /// Its version.
    pub version: String,
    /// Its plural.
    pub resource: String,
}

/// A kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Kind {
    /// Its group, empty for core.
    pub group: String,
    /// Its version.
    pub version: String,
    /// Its name in objects.
    pub kind: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    api_version: String,
    kind: String,
    request: Option<Box<RawValue>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    uid: String,
    #[serde(default)]
    kind: Kind,
    #[serde(default)]
    resource: Resource,
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

/// A review that can be answered.
#[derive(Debug)]
pub struct Asked {
    api_version: String,
    text: Box<RawValue>,
    raw: Raw,
}

impl Asked {
    /// Reads the body of a request, but not yet the objects in it.
    ///
    /// # Errors
    ///
    /// Where it is no AdmissionReview.
    pub fn read(body: &[u8]) -> Result<Self, String> {
        let review: Review = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        if review.kind != "AdmissionReview" || !review.api_version.starts_with("admission.k8s.io/v1") {
            return Err(format!("expected an AdmissionReview, found {} {}", review.api_version, review.kind));
        }
        let text = review.request.ok_or("an AdmissionReview has a request")?;
        let raw = serde_json::from_str(text.get()).map_err(|error| error.to_string())?;
        Ok(Self { api_version: review.api_version, text, raw })
    }

    /// The request as it was sent, as JSON.
    #[must_use]
    pub fn text(&self) -> &str {
        self.text.get()
    }

    /// The object as it is to be written, as JSON.
    #[must_use]
    pub fn object_text(&self) -> Option<&str> {
        self.raw.object.as_deref().map(RawValue::get)
    }

    /// The resource of what is written: `deployments.apps`.
    #[must_use]
    pub fn resource(&self) -> String {
        GroupResource::new(&self.raw.resource.group, &self.raw.resource.resource).to_string()
    }

    /// The tenant that is charged for the review, and the user. Reviews of cluster-scoped objects and of Namespaces are charged to the
    /// user: the API server sets a Namespace's own name as its namespace, and dry runs may use any number of names.
    #[must_use]
    pub fn requester(&self) -> (Tenant, &str) {
        let Raw { resource, namespace, user_info, .. } = &self.raw;
        let is_namespace = resource.group.is_empty() && resource.resource == "namespaces";
        let tenant = match namespace.as_str() {
            namespace if !namespace.is_empty() && !is_namespace => Tenant::namespace(namespace),
            _ => Tenant::user(&user_info.username),
        };
        (tenant, &user_info.username)
    }

    /// The object as it is to be written, and as it is stored.
    ///
    /// # Errors
    ///
    /// Where one cannot be read.
    pub fn objects(&self) -> Result<(HubObject, Option<HubObject>), String> {
        let read =
            |raw: &RawValue| serde_json::from_str::<HubObject>(raw.get()).map_err(|error| error.to_string());
        let object = self.raw.object.as_deref().ok_or("there is no object")?;
        Ok((read(object)?, self.raw.old_object.as_deref().map(read).transpose()?))
    }

    /// What it asks.
    ///
    /// # Errors
    ///
    /// Where an object cannot be read: values deeper than 128 levels cannot, whatever holds them.
    pub fn request(&self) -> Result<Request, String> {
        let read = |raw: &Option<Box<RawValue>>, what: &str| match raw {
            None => Ok(Value::Null),
            Some(raw) => {
                serde_json::from_str(raw.get()).map_err(|error| format!("{what} cannot be read: {error}"))
            }
        };
        let raw = &self.raw;
        Ok(Request {
            kind: raw.kind.clone(),
            resource: raw.resource.clone(),
            sub_resource: raw.sub_resource.clone(),
            operation: raw.operation.clone(),
            namespace: raw.namespace.clone(),
            name: raw.name.clone(),
            object: read(&raw.object, "the object")?,
            old_object: read(&raw.old_object, "the object that is stored")?,
            dry_run: raw.dry_run.unwrap_or_default(),
            tenant: self.requester().0,
        })
    }

    /// The answer.
    #[must_use]
    pub fn answer(&self, verdict: &Verdict) -> Value {
        let mut response = json!({"uid": self.raw.uid, "allowed": verdict.is_allowed()});
        match verdict {
            Verdict::Denied { code, message } => {
                let message = super::text::capped(message, MESSAGE);
                response["status"] = json!({"code": code, "message": message});
            }
            Verdict::Allowed { patch, warnings } => {
                if !patch.0.is_empty() {
                    let patch = serde_json::to_vec(patch).unwrap_or_default();
                    response["patchType"] = "JSONPatch".into();
                    response["patch"] = STANDARD.encode(patch).into();
                }
                if !warnings.is_empty() {
                    let warnings = warnings.iter().map(|warning| super::text::capped(warning, WARNING));
                    response["warnings"] = warnings.collect::<Vec<_>>().into();
                }
            }
        }
        json!({"apiVersion": self.api_version, "kind": "AdmissionReview", "response": response})
    }
}

/// What becomes of a write.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It is carried out.
    Allowed {
        /// With these changes.
        patch: Patch,
        /// What whoever writes should know.
        warnings: Vec<String>,
    },
    /// It is not.
    Denied {
        /// A status code of HTTP: 403 where policies say so, 500 where they cannot be asked.
        code: u16,
        /// Why not.
        message: String,
    },
}

impl Verdict {
    /// It is carried out as it is.
    #[must_use]
    pub fn allowed() -> Self {
        Self::Allowed { patch: Patch(Vec::new()), warnings: Vec::new() }
    }

    /// It is carried out as it is, and whoever writes should know this.
    #[must_use]
    pub fn warned(warnings: Vec<String>) -> Self {
        Self::Allowed { patch: Patch(Vec::new()), warnings }
    }

    /// It is carried out with these changes, where it is.
    #[must_use]
    pub fn with_patch(self, patch: Patch) -> Self {
        match self {
            Self::Allowed { warnings, .. } => Self::Allowed { patch, warnings },
            denied @ Self::Denied { .. } => denied,
        }
    }

    /// Policies deny it.
    #[must_use]
    pub fn denied(message: impl Into<String>) -> Self {
        Self::Denied { code: 403, message: message.into() }
    }

    /// Policies could not be asked.
    #[must_use]
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Denied { code: 500, message: message.into() }
    }

    /// There is no room to ask them now.
    #[must_use]
    pub fn too_many() -> Self {
        Self::Denied { code: 429, message: "too many reviews are waiting".to_owned() }
    }

    /// Whether it is carried out.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed { .. })
    }
}

#[cfg(test)]
mod tests;
