//! Any object of the hub, as it comes off the wire: the metadata that decisions read, and the rest as raw text.
//!
//! Decoding it cannot fail on what an object holds, so that one odd object never stops a list or a watch of its kind.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::de::{DeserializeOwned, Error, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::moment::Moment;
use super::names::ObjectKey;

/// Metadata, without what no decision reads.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// Name.
    pub name: String,
    /// Namespace, empty for a cluster-scoped object.
    pub namespace: String,
    /// Unique over time.
    pub uid: String,
    /// Changes with every write.
    pub resource_version: String,
    /// Changes with the spec.
    pub generation: i64,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// When it was made.
    pub creation_timestamp: Option<Time>,
    /// When it was asked to go.
    pub deletion_timestamp: Option<Time>,
    /// What it belongs to.
    pub owner_references: Vec<OwnerReference>,
    /// Who wrote which field.
    pub managed_fields: Vec<ManagedFields>,
}

/// An object that another one belongs to.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Whether it is what makes, changes and deletes the other.
    pub controller: bool,
}

/// The fields that one writer owns.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ManagedFields {
    /// The writer.
    pub manager: String,
    /// `Apply` or `Update`.
    pub operation: String,
    /// The subresource it wrote through, empty for the object itself.
    pub subresource: String,
    /// When it last changed them.
    pub time: Option<Time>,
    /// The fields.
    pub fields_v1: Option<Box<RawValue>>,
}

impl ManagedFields {
    /// Whether they are what `manager` has applied.
    #[must_use]
    pub fn are_applied_by(&self, manager: &str) -> bool {
        self.manager == manager && self.operation == "Apply"
    }
}

impl Metadata {
    /// The resource version as a number: comparable within one kind since Kubernetes 1.35, and in practice before.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.resource_version.parse().unwrap_or_default()
    }

    /// When it was made, as far as that is noted.
    #[must_use]
    pub fn created(&self) -> Option<Moment> {
        self.creation_timestamp.as_ref().map(|time| Moment(time.0.as_millisecond()))
    }

    /// When the spec was last written, as far as that is noted; otherwise when the object was made.
    #[must_use]
    pub fn spec_written(&self) -> Option<&Time> {
        let has_spec = |fields: &RawValue| fields.get().contains("\"f:spec\"");
        let of_spec = self
            .managed_fields
            .iter()
            .filter(|entry| entry.subresource.is_empty() && entry.fields_v1.as_deref().is_some_and(has_spec));
        let times = of_spec.filter_map(|entry| entry.time.as_ref());
        times.max_by_key(|time| time.0).or(self.creation_timestamp.as_ref())
    }
}

/// Any object of the hub.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HubObject {
    /// `group/version`; absent for the items of a list.
    #[serde(default)]
    pub api_version: String,
    /// Kind; absent for the items of a list.
    #[serde(default)]
    pub kind: String,
    /// Metadata.
    #[serde(default)]
    pub metadata: Metadata,
    /// What is wanted.
    #[serde(default)]
    pub spec: Option<Box<RawValue>>,
    /// What is.
    #[serde(default)]
    pub status: Option<Box<RawValue>>,
    /// What a ConfigMap or a Secret holds.
    #[serde(default)]
    pub data: Option<Box<RawValue>>,
    /// What a ConfigMap holds that is no text.
    #[serde(default)]
    pub binary_data: Option<Box<RawValue>>,
    /// What type a Secret is of.
    #[serde(default, rename = "type")]
    pub object_type: Option<Box<RawValue>>,
    /// All of it, where that was [asked for](WithText).
    #[serde(skip)]
    pub text: Option<Box<RawValue>>,
}

/// An object that keeps its text.
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

/// By its name alone: it may be a Secret, or hold one.
impl fmt::Debug for HubObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Metadata { namespace, name, resource_version, .. } = &self.metadata;
        write!(f, "{} {namespace}/{name} at {resource_version}", self.kind)
    }
}

impl HubObject {
    /// Its namespace and name.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.metadata.namespace, &self.metadata.name)
    }

    /// The spec as `T`, its default where there is none or where it is of another shape.
    #[must_use]
    pub fn spec_as<T: DeserializeOwned + Default>(&self) -> T {
        decode(self.spec.as_deref())
    }

    /// The status as `T`, its default where there is none or where it is of another shape.
    #[must_use]
    pub fn status_as<T: DeserializeOwned + Default>(&self) -> T {
        decode(self.status.as_deref())
    }

    /// What it holds as `T`, its default where that is nothing or of another shape.
    #[must_use]
    pub fn data_as<T: DeserializeOwned + Default>(&self) -> T {
        decode(self.data.as_deref())
    }

    /// The keys of what a ConfigMap holds that is no text.
    #[must_use]
    pub fn binary_keys(&self) -> Vec<String> {
        let keys = decode::<BTreeMap<String, IgnoredAny>>(self.binary_data.as_deref());
        keys.into_keys().collect()
    }

    /// Whether it is a Secret of the type `wanted`.
    #[must_use]
    pub fn is_of_type(&self, wanted: &str) -> bool {
        decode::<Value>(self.object_type.as_deref()) == wanted
    }

    /// What it holds beside its metadata, its spec and its status, as JSON; `None` where that is nothing, or where its text was
    /// not asked for.
    #[must_use]
    pub fn others(&self) -> Option<String> {
        const KNOWN: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];
        let mut fields: BTreeMap<String, &RawValue> =
            serde_json::from_str(self.text.as_deref()?.get()).ok()?;
        fields.retain(|key, _| !KNOWN.contains(&key.as_str()));
        if fields.is_empty() { None } else { serde_json::to_string(&fields).ok() }
    }

    /// The object whose controller makes and deletes this one: `ReplicaSet web`.
    #[must_use]
    pub fn controlled_by(&self) -> Option<String> {
        let owner = self.metadata.owner_references.iter().find(|owner| owner.controller)?;
        Some(format!("{} {}", owner.kind, owner.name))
    }

    /// The spec as JSON, null where there is none.
    #[must_use]
    pub fn spec_value(&self) -> Value {
        decode(self.spec.as_deref())
    }
}

fn decode<T: DeserializeOwned + Default>(raw: Option<&RawValue>) -> T {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}
