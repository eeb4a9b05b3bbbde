//! Evaluates placement policies for an object.

use std::collections::{BTreeMap, BTreeSet};

use regorus::Value as Rego;
use serde_json::Value;

use super::place::place;
use super::placement_result::PlacementResult;
use policy_sync_api::annotations::LAST_APPLIED;
use policy_sync_api::names::{GroupResource, ObjectKey};
use policy_sync_api::placed_by_policy::{Strings, write};
use policy_sync_rego::snapshot::{RegoQueryError, Snapshot};

pub use policy_sync_rego::queries::PLACEMENT as PACKAGE;

/// The result of placement policies for an object.
#[derive(Clone, Debug, PartialEq)]
pub enum PlacementDecision {
    /// The object with the labels and annotations set by placement policies.
    Placed(Value),
    /// Placement policies reject the object with this message.
    Rejected(String),
    /// The result is invalid, for this reason.
    Invalid(String),
}

/// A hash of the content of an object. Changes of the status do not affect it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentHash([u8; 16]);

impl ContentHash {
    /// The hash of the content of an object, given as JSON.
    #[must_use]
    pub fn of(json: &[u8]) -> Self {
        let mut hash = [0; 16];
        blake3::Hasher::new().update(json).finalize_xof().fill(&mut hash);
        Self(hash)
    }

    /// The hash of a stored `object`, without the fields that each write changes.
    #[must_use]
    pub fn of_stored(object: &Value) -> Self {
        let mut content = policy_input(object);
        if let Some(metadata) = content.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
            metadata.remove("generation");
            // Empty labels or annotations count as missing.
            metadata.retain(|_, value| value.as_object().is_none_or(|fields| !fields.is_empty()));
        }
        Self::of(content.to_string().as_bytes())
    }

    /// The hash of the content of `object` with these labels and annotations.
    #[must_use]
    pub fn of_patched(object: &Value, labels: &Strings, annotations: &Strings) -> Self {
        let mut object = object.clone();
        write(&mut object, "labels", labels);
        write(&mut object, "annotations", annotations);
        Self::of_stored(&object)
    }
}

/// Evaluates the placement policies of `snapshot` for `object`, whose original form is `original`. Without placement
/// policies, the result is `original`. Runs one evaluation.
///
/// # Errors
///
/// If placement policies cannot be evaluated.
pub fn evaluate(
    snapshot: &Snapshot,
    object: &Value,
    original: &Value,
) -> Result<PlacementDecision, RegoQueryError> {
    evaluate_without(snapshot, object, original, &[])
}

/// Like [`evaluate`], with `hidden` documents removed from `data`. External engines ignore `hidden`.
///
/// # Errors
///
/// Like [`evaluate`].
pub fn evaluate_without(
    snapshot: &Snapshot,
    object: &Value,
    original: &Value,
    hidden: &[(GroupResource, ObjectKey)],
) -> Result<PlacementDecision, RegoQueryError> {
    let query = snapshot.query(PACKAGE);
    let full_query = format!("{query}{}", without(snapshot, hidden));
    snapshot.omitted_documents(PACKAGE, original["metadata"]["namespace"].as_str().unwrap_or_default())?;
    let placement_result = match snapshot.has_policies_for(PACKAGE) {
        false => Ok(PlacementResult::default()),
        true => match snapshot.query_value(PACKAGE, &full_query, &policy_input(original).into())? {
            None => return Ok(PlacementDecision::Invalid(format!("{query} is undefined"))),
            Some(placement_result) => PlacementResult::read(&placement_result),
        },
    };
    let decision = placement_result.and_then(|placement_result| {
        if !placement_result.errors.is_empty() {
            return Ok(PlacementDecision::Rejected(placement_result.errors.join("; ")));
        }
        place(object, original, &placement_result).map(PlacementDecision::Placed)
    });
    Ok(decision.unwrap_or_else(|fault| PlacementDecision::Invalid(format!("{query}: {fault}"))))
}

/// The `with` clauses that remove `hidden` documents from `data`. A kind can have several names in `data`; the
/// documents are removed under each of these names.
fn without(snapshot: &Snapshot, hidden: &[(GroupResource, ObjectKey)]) -> String {
    let mut places: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for (kind, key) in hidden {
        for name in snapshot.names_of(kind) {
            let parts = [name.as_str(), &key.namespace].into_iter().filter(|part| !part.is_empty());
            let place = parts.map(|part| format!("[{}]", Rego::from(part))).collect();
            places.entry(place).or_default().insert(&key.name);
        }
    }
    let clause = |(place, names): (String, BTreeSet<&str>)| {
        let (place, names) =
            (format!("data.kubernetes{place}"), serde_json::to_string(&names).unwrap_or_default());
        format!(" with {place} as object.remove({place}, {names})")
    };
    places.into_iter().map(clause).collect()
}

/// The input of placement policies: the object without its status, its managed fields and the annotation of `kubectl
/// apply`. Reviews and remediation thus evaluate the same input.
fn policy_input(original: &Value) -> Value {
    let mut input = original.clone();
    if let Some(fields) = input.as_object_mut() {
        fields.remove("status");
    }
    let metadata = input.get_mut("metadata").and_then(Value::as_object_mut);
    if let Some(metadata) = metadata {
        metadata.remove("managedFields");
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(LAST_APPLIED);
            if annotations.is_empty() {
                metadata.remove("annotations");
            }
        }
    }
    input
}
