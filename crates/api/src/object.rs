//! An object of the hub of any kind: typed metadata, and the other fields as raw JSON.
//!
//! Parsing does not depend on the shape of the raw fields. So one malformed object does not stop the list or watch of
//! its kind.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::de::{DeserializeOwned, Error, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::moment::Moment;
use super::names::ObjectKey;

/// Object metadata, limited to the fields in use.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// Name.
    pub name: String,
    /// The namespace; empty for a cluster-scoped object.
    pub namespace: String,
    /// The UID, which is never reused.
    pub uid: String,
    /// The resource version, which changes with each write of the object.
    pub resource_version: String,
    /// The generation, which changes with each write of the spec.
    pub generation: i64,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// The creation time.
    pub creation_timestamp: Option<Time>,
    /// When deletion was requested; `None` if it was not.
    pub deletion_timestamp: Option<Time>,
    /// The owners.
    pub owner_references: Vec<OwnerReference>,
    /// The owners of the fields.
    pub managed_fields: Vec<ManagedFields>,
}

/// A reference to an owner.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// The owner's kind.
    pub kind: String,
    /// The owner's name.
    pub name: String,
    /// Whether the owner is the managing controller.
    pub controller: bool,
}

/// The fields of one field manager.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ManagedFields {
    /// The field manager's name.
    pub manager: String,
    /// `Apply` or `Update`.
    pub operation: String,
    /// The subresource; empty for the object itself.
    pub subresource: String,
    /// The time of the manager's last change.
    pub time: Option<Time>,
    /// The set of fields, in the format `FieldsV1`.
    pub fields_v1: Option<Box<RawValue>>,
}

impl ManagedFields {
    /// Whether `manager` owns the fields by server-side apply.
    #[must_use]
    pub fn are_applied_by(&self, manager: &str) -> bool {
        self.manager == manager && self.operation == "Apply"
    }
}

impl Metadata {
    /// The resource version as a number; 0 if it is not a number. Versions of objects of one kind are comparable:
    /// Kubernetes guarantees this from version 1.35, and earlier versions behave in the same way.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.resource_version.parse().unwrap_or_default()
    }

    /// The creation time; `None` if it is absent.
    #[must_use]
    pub fn created(&self) -> Option<Moment> {
        self.creation_timestamp.as_ref().map(|time| Moment(time.0.as_millisecond()))
    }

    /// The time of the last write of the spec, according to the managed fields, or else the creation time.
    #[must_use]
    pub fn spec_modified(&self) -> Option<&Time> {
        let has_spec = |fields: &RawValue| fields.get().contains("\"f:spec\"");
        let of_spec = self
            .managed_fields
            .iter()
            .filter(|entry| entry.subresource.is_empty() && entry.fields_v1.as_deref().is_some_and(has_spec));
        let times = of_spec.filter_map(|entry| entry.time.as_ref());
        times.max_by_key(|time| time.0).or(self.creation_timestamp.as_ref())
    }
}

/// An object of the hub of any kind.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HubObject {
    /// `group/version`; the items of a list may omit it.
    #[serde(default)]
    pub api_version: String,
    /// The kind; the items of a list may omit it.
    #[serde(default)]
    pub kind: String,
    /// Metadata.
    #[serde(default)]
    pub metadata: Metadata,
    /// The field `spec`.
    #[serde(default)]
    pub spec: Option<Box<RawValue>>,
    /// The field `status`.
    #[serde(default)]
    pub status: Option<Box<RawValue>>,
    /// The field `data` of a ConfigMap or Secret.
    #[serde(default)]
    pub data: Option<Box<RawValue>>,
    /// The field `binaryData` of a ConfigMap.
    #[serde(default)]
    pub binary_data: Option<Box<RawValue>>,
    /// The field `type` of a Secret.
    #[serde(default, rename = "type")]
    pub object_type: Option<Box<RawValue>>,
    /// The object's complete JSON, if it was parsed as [`WithText`].
    #[serde(skip)]
    pub text: Option<Box<RawValue>>,
}

/// An object that is parsed together with its complete JSON.
#[derive(Clone)]
pub struct WithText(HubObject);

impl<'de> Deserialize<'de> for WithText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let object: HubObject = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        Ok(Self(HubObject { text: Some(text), ..object }))
    }
}

impl From<WithText> for HubObject {
    fn from(WithText(object): WithText) -> Self {
        object
    }
}

/// Prints the name only, because the object may contain secrets.
impl fmt::Debug for HubObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Metadata { namespace, name, resource_version, .. } = &self.metadata;
        write!(f, "{} {namespace}/{name} at {resource_version}", self.kind)
    }
}

impl HubObject {
    /// The object's namespace and name.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.metadata.namespace, &self.metadata.name)
    }

    /// The spec as `T`; the default if it is absent or has another shape.
    #[must_use]
    pub fn spec_as<T: DeserializeOwned + Default>(&self) -> T {
        decode(self.spec.as_deref())
    }

    /// The status as `T`; the default if it is absent or has another shape.
    #[must_use]
    pub fn status_as<T: DeserializeOwned + Default>(&self) -> T {
        decode(self.status.as_deref())
    }

    /// The field `data` as `T`; the default if it is absent or has another shape.
    #[must_use]
    pub fn data_as<T: DeserializeOwned + Default>(&self) -> T {
        decode(self.data.as_deref())
    }

    /// The keys of `binaryData`.
    #[must_use]
    pub fn binary_keys(&self) -> Vec<String> {
        let keys = decode::<BTreeMap<String, IgnoredAny>>(self.binary_data.as_deref());
        keys.into_keys().collect()
    }

    /// Whether the object is a Secret of the type `wanted`.
    #[must_use]
    pub fn is_of_type(&self, wanted: &str) -> bool {
        decode::<Value>(self.object_type.as_deref()) == wanted
    }

    /// All fields besides API version, kind, metadata, spec and status, as JSON. `None` if there are none, or if the
    /// object was not parsed as [`WithText`].
    #[must_use]
    pub fn other_fields(&self) -> Option<String> {
        const KNOWN: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];
        let mut fields: BTreeMap<String, &RawValue> =
            serde_json::from_str(self.text.as_deref()?.get()).ok()?;
        fields.retain(|key, _| !KNOWN.contains(&key.as_str()));
        if fields.is_empty() { None } else { serde_json::to_string(&fields).ok() }
    }

    /// The kind and name of the managing controller, for example `ReplicaSet web`.
    #[must_use]
    pub fn controlled_by(&self) -> Option<String> {
        let owner = self.metadata.owner_references.iter().find(|owner| owner.controller)?;
        Some(format!("{} {}", owner.kind, owner.name))
    }

    /// The spec as JSON; null if absent.
    #[must_use]
    pub fn spec_value(&self) -> Value {
        decode(self.spec.as_deref())
    }
}

fn decode<T: DeserializeOwned + Default>(raw: Option<&RawValue>) -> T {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}
