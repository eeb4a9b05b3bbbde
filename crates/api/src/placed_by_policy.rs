//! What policies have set of an object, and what its developer wrote: the annotation `kuadrant.io/placed-by-policy`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::annotations::{PLACED_BY_POLICY, is_ours};
use super::json::Hash;
use super::syntax::{is_label_key, is_label_value};

/// Labels or annotations.
pub type Strings = BTreeMap<String, String>;

/// What policies have set of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Placed {
    /// Of its annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, Set>,
    /// Of its labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, Set>,
}

/// What a policy has set at one key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Set {
    /// The hash of its value, `None` where it has removed what was there.
    #[serde(rename = "value", skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// What the developer had written there, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
}

impl Set {
    /// That a policy has set `value` where the developer had written `before`.
    #[must_use]
    pub fn new(value: Option<&str>, before: Option<&str>) -> Self {
        Self { hash: value.map(hash), before: before.map(str::to_owned) }
    }

    /// What the developer wants, where `value` stands there: that is still the policy's, or theirs.
    fn wish(&self, value: Option<&str>) -> Option<String> {
        if value.map(hash) == self.hash { self.before.clone() } else { value.map(str::to_owned) }
    }
}

fn hash(value: &str) -> String {
    Hash::of_text(value).to_string()
}

impl Placed {
    /// What `object`, as it is stored, says of it. What cannot be read is nothing.
    #[must_use]
    pub fn stored(object: &Value) -> Self {
        Self::read(object["metadata"]["annotations"][PLACED_BY_POLICY].as_str().unwrap_or_default())
    }

    /// What the annotation says. What cannot be read is nothing.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let mut placed: Self = serde_json::from_str(text).unwrap_or_default();
        // No policy sets these: somebody has written them who was not reviewed.
        let may_be = |key: &str| is_label_key(key) && !is_ours(key);
        let is_value = |value: &Option<String>| value.as_deref().is_none_or(is_label_value);
        placed.annotations.retain(|key, _| may_be(key));
        placed.labels.retain(|key, set| may_be(key) && is_value(&set.before));
        placed
    }

    /// What the developer had written in the annotation `key`, where its `value` is still a policy's.
    #[must_use]
    pub fn before(&self, key: &str, value: &str) -> Option<Option<&str>> {
        let set = self.annotations.get(key).filter(|set| set.hash == Some(hash(value)))?;
        Some(set.before.as_deref())
    }

    /// Whether it is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.annotations.is_empty() && self.labels.is_empty()
    }

    /// `object` as its developer wants it.
    #[must_use]
    pub fn wish(&self, object: &Value) -> Value {
        let mut wish = object.clone();
        for (field, set) in [("annotations", &self.annotations), ("labels", &self.labels)] {
            let mut strings = strings(object, field);
            for (key, set) in set {
                let before = set.wish(strings.get(key).map(String::as_str));
                put(&mut strings, key, before);
            }
            if field == "annotations" {
                strings.remove(PLACED_BY_POLICY);
            }
            write(&mut wish, field, &strings);
        }
        wish
    }
}

/// The labels or the annotations of `object`.
pub fn strings(object: &Value, field: &str) -> Strings {
    let fields = object["metadata"][field].as_object();
    let texts = fields
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    texts.collect()
}

/// Has `object` these labels or annotations; where there are none, and were none, nothing changes.
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

/// Puts `value` at `key`, or takes what is there away.
pub fn put(strings: &mut Strings, key: &str, value: Option<String>) {
    match value {
        Some(value) => strings.insert(key.to_owned(), value),
        None => strings.remove(key),
    };
}
