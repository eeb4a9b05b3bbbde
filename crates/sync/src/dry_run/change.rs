//! A planned change of one object: its content before and after, reduced to the fields that the controller writes.

use serde_json::{Value, json};

use crate::rows::Strings;
use crate::rows::work::{ANNOTATIONS, LABELS};
use policy_sync_api::annotations::UNPLACED_SINCE;
use policy_sync_api::json::normalize;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::ObjectKey;
use policy_sync_api::object::HubObject;
use policy_sync_api::secret;
use policy_sync_api::work::ManifestWorkSpec;

/// The type of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// The object does not exist.
    Create,
    /// The object differs from the plan.
    Change,
    /// The object is not planned.
    Delete,
}

impl Verb {
    /// The name of the verb.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Change => "change",
            Self::Delete => "delete",
        }
    }
}

/// The change of one object.
#[derive(Clone, Debug)]
pub struct Change {
    /// The type of the change.
    pub verb: Verb,
    /// The `kind` of the object.
    pub kind: String,
    /// The object's namespace and name.
    pub key: ObjectKey,
    /// The object on the hub; null if it would be created.
    pub before: Value,
    /// The planned object; null if it would be deleted.
    pub after: Value,
    /// The event that the controller would wait for. `None` if it would write at once.
    pub waits: Option<String>,
}

impl Change {
    /// The change of a work.
    pub(super) fn of_work(key: ObjectKey, before: Option<&HubObject>, after: Option<Value>) -> Self {
        let before = before.map(written).unwrap_or_default();
        let mut after = after.unwrap_or_default();
        normalize(&mut after);
        let verb = match (before.is_null(), after.is_null()) {
            (true, _) => Verb::Create,
            (_, true) => Verb::Delete,
            _ => Verb::Change,
        };
        Self { verb, kind: "ManifestWork".to_owned(), key, before, after, waits: None }
    }

    /// The change of the annotation that records since when a work's cluster is unplaced; if `unplaced` is `None`, the
    /// annotation is removed.
    pub(super) fn of_mark(key: ObjectKey, work: &HubObject, unplaced: Option<Moment>) -> Self {
        let marked = |since: Option<Value>| {
            let mut written = written(work);
            if let (Some(since), Some(annotations)) =
                (since, written["metadata"]["annotations"].as_object_mut())
            {
                annotations.insert(UNPLACED_SINCE.to_owned(), since);
            }
            written
        };
        let before = marked(work.metadata.annotations.get(UNPLACED_SINCE).map(|text| json!(text)));
        let after = marked(unplaced.map(|since| json!(since.rfc3339())));
        Self { verb: Verb::Change, kind: "ManifestWork".to_owned(), key, before, after, waits: None }
    }

    /// The change of the controller's fields in an object that users own.
    pub(super) fn of_part(kind: &str, key: ObjectKey, before: Value, after: Value) -> Self {
        Self { verb: Verb::Change, kind: kind.to_owned(), key, before, after, waits: None }
    }

    #[must_use]
    pub(super) fn waiting(mut self, waits: Option<String>) -> Self {
        self.waits = waits;
        self
    }

    /// Redacts the contents of Secrets.
    pub(super) fn hide(&mut self) {
        secret::redact(&mut self.before);
        secret::redact(&mut self.after);
    }

    /// The heading, such as `create ManifestWork eu-1/…`.
    #[must_use]
    pub fn heading(&self) -> String {
        let heading = format!("{} {} {}", self.verb.as_str(), self.kind, self.key);
        match &self.waits {
            None => heading,
            Some(waits) => format!("{heading} ({waits})"),
        }
    }
}

/// The fields of a work that the controller writes and compares.
fn written(work: &HubObject) -> Value {
    let ours = |all: &Strings, keys: &[&str]| -> Strings {
        all.iter()
            .filter(|(key, _)| keys.contains(&key.as_str()))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect()
    };
    json!({
        "apiVersion": "work.open-cluster-management.io/v1",
        "kind": "ManifestWork",
        "metadata": {
            "name": work.metadata.name,
            "namespace": work.metadata.namespace,
            "labels": ours(&work.metadata.labels, &LABELS),
            "annotations": ours(&work.metadata.annotations, &ANNOTATIONS),
        },
        "spec": work.spec_as::<ManifestWorkSpec>(),
    })
}
