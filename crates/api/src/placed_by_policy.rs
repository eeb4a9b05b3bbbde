//! The annotation `kuadrant.io/placed-by-policy`: the labels and annotations that Rego policies have set on an object,
//! with the original values.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::annotations::{PLACED_BY_POLICY, is_controller_key};
use super::json::Hash;
use super::syntax::{is_label_key, is_label_value};

/// Labels or annotations.
pub type Strings = BTreeMap<String, String>;

/// The content of the annotation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PlacedByPolicy {
    /// The annotations that Rego policies have set or removed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, MetadataChange>,
    /// The labels that Rego policies have set or removed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, MetadataChange>,
}

/// The change of one key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MetadataChange {
    /// The hash of the value that Rego policies set; `None` if they removed the key.
    #[serde(rename = "value", skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// The value that the object's author had set, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
}

impl MetadataChange {
    /// A change from the author's value `before` to `value`. `None` means no value.
    #[must_use]
    pub fn new(value: Option<&str>, before: Option<&str>) -> Self {
        Self { hash: value.map(hash), before: before.map(str::to_owned) }
    }

    /// The author's value of a key that now has `value`. If Rego policies set `value`, this is the value before their
    /// change. Otherwise the author has set `value` since.
    fn original(&self, value: Option<&str>) -> Option<String> {
        if value.map(hash) == self.hash { self.before.clone() } else { value.map(str::to_owned) }
    }
}

fn hash(value: &str) -> String {
    Hash::of_text(value).to_string()
}

impl PlacedByPolicy {
    /// Parses the annotation of the stored `object`. An invalid annotation counts as empty.
    #[must_use]
    pub fn from_object(object: &Value) -> Self {
        Self::parse(object["metadata"]["annotations"][PLACED_BY_POLICY].as_str().unwrap_or_default())
    }

    /// Parses the annotation's value. An invalid value counts as empty.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut placed: Self = serde_json::from_str(text).unwrap_or_default();
        // Rego policies can set neither invalid keys nor keys of the controller. Such entries come from a client that
        // bypassed the review.
        let may_be = |key: &str| is_label_key(key) && !is_controller_key(key);
        let is_value = |value: &Option<String>| value.as_deref().is_none_or(is_label_value);
        placed.annotations.retain(|key, _| may_be(key));
        placed.labels.retain(|key, set| may_be(key) && is_value(&set.before));
        placed
    }

    /// The author's value of the annotation `key`, whose current value is `value`. `None` if Rego policies did not set
    /// `value`; `Some(None)` if they set it and the author had set no value.
    #[must_use]
    pub fn before(&self, key: &str, value: &str) -> Option<Option<&str>> {
        let set = self.annotations.get(key).filter(|set| set.hash == Some(hash(value)))?;
        Some(set.before.as_deref())
    }

    /// Whether Rego policies have changed no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.annotations.is_empty() && self.labels.is_empty()
    }

    /// `object` with the values that its author had set.
    #[must_use]
    pub fn original(&self, object: &Value) -> Value {
        let mut original = object.clone();
        for (field, set) in [("annotations", &self.annotations), ("labels", &self.labels)] {
            let mut strings = strings(object, field);
            for (key, set) in set {
                let before = set.original(strings.get(key).map(String::as_str));
                put(&mut strings, key, before);
            }
            if field == "annotations" {
                strings.remove(PLACED_BY_POLICY);
            }
            write(&mut original, field, &strings);
        }
        original
    }
}

/// The labels or annotations of `object`; `field` is `labels` or `annotations`.
pub fn strings(object: &Value, field: &str) -> Strings {
    let fields = object["metadata"][field].as_object();
    let texts = fields
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    texts.collect()
}

/// Sets the labels or annotations of `object`. If the object had none and `strings` is empty, the object stays
/// unchanged.
pub fn write(object: &mut Value, field: &str, strings: &Strings) {
    if strings.is_empty() && object["metadata"][field].as_object().is_none_or(Map::is_empty) {
        return;
    }
    object["metadata"][field] = strings
        .iter()
        .map(|(key, value)| (key.clone(), Value::from(value.as_str())))
        .collect::<Map<_, _>>()
        .into();
}

/// Sets or removes the value of `key`.
pub fn put(strings: &mut Strings, key: &str, value: Option<String>) {
    match value {
        Some(value) => strings.insert(key.to_owned(), value),
        None => strings.remove(key),
    };
}
