//! How an object that is stored stands to what policies say of it now.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value, json};

use super::question::{Said, ask_without};
use crate::api::annotations::PLACED_BY_POLICY;
use crate::api::names::{GroupResource, ObjectKey};
use crate::api::placed_by_policy::{Placed, Strings, strings};
use crate::api::text::capped;
use crate::rego::snapshot::{Snapshot, Unanswered};

/// The most bytes of a value in words.
const VALUE: usize = 200;

/// How an object stands to what policies say of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compliance {
    /// It is as they say.
    AsSaid,
    /// They say otherwise.
    Differs(Change),
    /// It breaks what they say, or what they answer cannot be used; in words.
    Breaks(String),
}

impl fmt::Display for Compliance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AsSaid => f.write_str("as policies say"),
            Self::Differs(change) => write!(f, "policies say otherwise: {change}"),
            Self::Breaks(text) => f.write_str(text),
        }
    }
}

/// What of an object's labels and annotations is to be otherwise: `None` where one goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Of its labels.
    pub labels: BTreeMap<String, Option<String>>,
    /// Of its annotations.
    pub annotations: BTreeMap<String, Option<String>>,
}

/// How `object`, as it is stored, stands to the policies of `snapshot`. It takes the time of one evaluation.
///
/// # Errors
///
/// Where they cannot be asked.
pub fn compliance(snapshot: &Snapshot, object: &Value) -> Result<Compliance, Unanswered> {
    compliance_without(snapshot, object, &[])
}

/// As [`compliance`], with `hidden` documents left out of `data`.
///
/// # Errors
///
/// As [`compliance`].
pub fn compliance_without(
    snapshot: &Snapshot,
    object: &Value,
    hidden: &[(GroupResource, ObjectKey)],
) -> Result<Compliance, Unanswered> {
    let wish = Placed::stored(object).wish(object);
    Ok(match ask_without(snapshot, object, &wish, hidden)? {
        Said::Placed(placed) => match Change::new(object, &placed) {
            change if change.is_empty() => Compliance::AsSaid,
            change => Compliance::Differs(change),
        },
        Said::Refused(text) | Said::Unusable(text) => Compliance::Breaks(text),
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

    /// Whether these are as it says.
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

    /// The body of a merge patch for the object of this uid, as it is at this version.
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

    /// What it comes to for who reads the object: one line each, `annotation a: "b"` or `label c: gone`.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let of = |what: &'static str, changes: &BTreeMap<String, Option<String>>| {
            // What is kept for policies themselves says nothing to anybody else.
            let told = changes.iter().filter(|(key, _)| *key != PLACED_BY_POLICY);
            let told = told.map(|(key, value)| match value {
                Some(value) => format!("{what} {key}: {:?}", capped(value, VALUE)),
                None => format!("{what} {key}: gone"),
            });
            told.collect::<Vec<_>>()
        };
        of("annotation", &self.annotations).into_iter().chain(of("label", &self.labels))
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.lines().collect();
        if lines.is_empty() {
            // A policy says what its owner wrote, or no longer does.
            return f.write_str("what is kept of its owner's wish");
        }
        f.write_str(&lines.join("; "))
    }
}

#[cfg(test)]
mod tests;
