//! Compares a stored object with the current result of placement policies.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value, json};

use super::evaluation::{PlacementDecision, evaluate_without};
use policy_sync_api::annotations::PLACED_BY_POLICY;
use policy_sync_api::names::{GroupResource, ObjectKey};
use policy_sync_api::placed_by_policy::{PlacedByPolicy, Strings, strings};
use policy_sync_api::text::truncate_bytes;
use policy_sync_rego::snapshot::{RegoQueryError, Snapshot};

/// The maximum number of bytes of a value in a message.
const MAX_VALUE_BYTES: usize = 200;

/// The compliance of an object with placement policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compliance {
    /// The object complies.
    Compliant,
    /// Placement policies would set other values.
    Differs(Change),
    /// Placement policies reject the object, or their result is invalid. Contains the message.
    Violates(String),
}

impl fmt::Display for Compliance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compliant => f.write_str("complies with placement policies"),
            Self::Differs(change) => write!(f, "placement policies require: {change}"),
            Self::Violates(text) => f.write_str(text),
        }
    }
}

/// Changes of the labels and annotations of an object. `None` removes a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Changes of the object's labels.
    pub labels: BTreeMap<String, Option<String>>,
    /// Changes of the object's annotations.
    pub annotations: BTreeMap<String, Option<String>>,
}

/// The compliance of a stored `object` with the placement policies of `snapshot`. Runs one evaluation.
///
/// # Errors
///
/// If placement policies cannot be evaluated.
pub fn compliance(snapshot: &Snapshot, object: &Value) -> Result<Compliance, RegoQueryError> {
    compliance_without(snapshot, object, &[])
}

/// Like [`compliance`], with `hidden` documents left out of `data`.
///
/// # Errors
///
/// Like [`compliance`].
pub fn compliance_without(
    snapshot: &Snapshot,
    object: &Value,
    hidden: &[(GroupResource, ObjectKey)],
) -> Result<Compliance, RegoQueryError> {
    let original = PlacedByPolicy::from_object(object).original(object);
    Ok(match evaluate_without(snapshot, object, &original, hidden)? {
        PlacementDecision::Placed(placed) => match Change::new(object, &placed) {
            change if change.is_empty() => Compliance::Compliant,
            change => Compliance::Differs(change),
        },
        PlacementDecision::Rejected(text) | PlacementDecision::Invalid(text) => Compliance::Violates(text),
    })
}

impl Change {
    fn new(before: &Value, after: &Value) -> Self {
        let of = |field: &str| {
            let (before, after) = (strings(before, field), strings(after, field));
            let gone = before.keys().filter(|key| !after.contains_key(*key));
            let gone = gone.map(|key| (key.clone(), None));
            let set = after.iter().filter(|(key, value)| before.get(*key) != Some(value));
            gone.chain(set.map(|(key, value)| (key.clone(), Some(value.clone())))).collect()
        };
        Self { labels: of("labels"), annotations: of("annotations") }
    }

    /// Whether `labels` and `annotations` already have the values that this change would set.
    #[must_use]
    pub fn is_in(&self, labels: &Strings, annotations: &Strings) -> bool {
        let is = |change: &BTreeMap<String, Option<String>>, found: &Strings| {
            change.iter().all(|(key, value)| found.get(key) == value.as_ref())
        };
        is(&self.labels, labels) && is(&self.annotations, annotations)
    }

    fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.annotations.is_empty()
    }

    /// A merge patch that applies only to the object with this uid at this version.
    #[must_use]
    pub fn merge_patch(&self, uid: &str, version: &str) -> Value {
        let mut metadata = Map::new();
        metadata.insert("uid".to_owned(), uid.into());
        metadata.insert("resourceVersion".to_owned(), version.into());
        for (field, changes) in [("labels", &self.labels), ("annotations", &self.annotations)] {
            if !changes.is_empty() {
                metadata.insert(field.to_owned(), json!(changes));
            }
        }
        json!({"metadata": metadata})
    }

    /// The changes, one line each: `annotation a: "b"` or `label c: removed`.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let of = |what: &'static str, changes: &BTreeMap<String, Option<String>>| {
            // Omits the annotation with the original values, which is internal.
            let lines = changes.iter().filter(|(key, _)| *key != PLACED_BY_POLICY);
            let lines = lines.map(|(key, value)| match value {
                Some(value) => format!("{what} {key}: {:?}", truncate_bytes(value, MAX_VALUE_BYTES)),
                None => format!("{what} {key}: removed"),
            });
            lines.collect::<Vec<_>>()
        };
        of("annotation", &self.annotations).into_iter().chain(of("label", &self.labels))
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.lines().collect();
        if lines.is_empty() {
            // The change affects only the record of the original values.
            return f.write_str("the stored original values");
        }
        f.write_str(&lines.join("; "))
    }
}

#[cfg(test)]
mod tests;
