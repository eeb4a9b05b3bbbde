//! Policies on the hub, of any kind.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;

use super::aside::Aside;
use super::{RawSpec, Seen, Strings, raw_spec};
use crate::api::annotations;
use crate::api::json::Hash;
use crate::api::names::ControllerName;
use crate::api::object::{HubObject, ManagedFields, Metadata};
use crate::hub::{Pruned, Row};

/// The annotation in which `kubectl apply` keeps the whole object again.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A policy on the hub.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Unique over time.
    pub uid: Arc<str>,
    /// Changes with the spec.
    pub generation: i64,
    /// Since when this process has seen its generation, `None` where it was there at the start.
    pub changed: Seen,
    /// Whether it was asked to go.
    pub deleting: bool,
    /// Labels.
    pub labels: Strings,
    /// Annotations, without ours and without those that only repeat the object.
    pub annotations: Strings,
    /// Spec.
    pub spec: RawSpec,
    /// What stands in the annotations that are ours to write.
    pub folded: Folded,
    /// What takes long to find out of its spec and its overrides.
    pub of_texts: Aside,
    /// What takes long to find out of all that its copies are made of.
    pub of_copies: Aside,
}

/// The annotations of ours that a policy has: what they say as a hash, which is all that a comparison needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Folded {
    /// A hash of each annotation's text, in the order of [`annotations::OF_POLICY`].
    pub hashes: [Option<Hash>; 4],
    /// The bytes of all other annotations, keys and values.
    pub other_bytes: usize,
    /// Whether this controller owns one of them.
    pub owned: bool,
    /// Other controllers of this make that own one of them.
    pub other_owners: BTreeSet<Arc<str>>,
    /// Which of them anyone else owns, too, in the same order: leaving one out of an apply does not remove it then.
    pub shared: [bool; 4],
}

impl Folded {
    /// Whether any of our annotations is there, and ours to take away.
    #[must_use]
    pub fn is_ours_to_remove(&self) -> bool {
        self.other_owners.is_empty() && self.hashes.iter().any(Option::is_some)
    }

    /// The hash of an annotation's text.
    #[must_use]
    pub fn hash(text: &str) -> Hash {
        Hash::of_parts(&[text])
    }
}

impl Policy {
    /// The row of `object`, for the controller that writes as `field_manager`.
    #[must_use]
    pub fn new(object: &HubObject, field_manager: &str) -> Self {
        let metadata = &object.metadata;
        let travels = |key: &str| key != LAST_APPLIED && !annotations::OF_POLICY.contains(&key);
        Self {
            uid: metadata.uid.as_str().into(),
            generation: metadata.generation,
            changed: Seen::default(),
            deleting: metadata.deletion_timestamp.is_some(),
            labels: metadata.labels.clone(),
            annotations: metadata
                .annotations
                .iter()
                .filter(|(key, _)| travels(key))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
            spec: raw_spec(object),
            folded: folded(metadata, field_manager),
            of_texts: Aside::default(),
            of_copies: Aside::default(),
        }
    }

    /// Takes over what was found out of `before`, as far as it was found in the same.
    pub(in crate::sync) fn replaces(&mut self, before: &Self) {
        let [ours, theirs] =
            [&*self, before].map(|policy| policy.annotations.get(annotations::CLUSTER_OVERRIDES));
        if (&self.spec, ours) != (&before.spec, theirs) {
            return;
        }
        self.of_texts = before.of_texts.clone();
        if (&self.labels, &self.annotations) == (&before.labels, &before.annotations) {
            self.of_copies = before.of_copies.clone();
        }
    }
}

fn folded(metadata: &Metadata, field_manager: &str) -> Folded {
    let texts = &metadata.annotations;
    let others = texts.iter().filter(|(key, _)| !annotations::OF_POLICY.contains(&key.as_str()));
    let mut folded = Folded {
        hashes: annotations::OF_POLICY.map(|key| texts.get(key).map(|text| Folded::hash(text))),
        other_bytes: others.map(|(key, value)| key.len() + value.len()).sum(),
        ..Folded::default()
    };
    let is_ours = |entry: &ManagedFields| entry.manager == field_manager && entry.operation == "Apply";
    for entry in &metadata.managed_fields {
        let owned = owned_annotations(entry);
        if is_ours(entry) {
            folded.owned |= owned.contains(&true);
            continue;
        }
        if entry.manager.starts_with("policy-sync-")
            && entry.manager != field_manager
            && owned.contains(&true)
        {
            folded.other_owners.insert(entry.manager.as_str().into());
        }
        for (shared, owned) in folded.shared.iter_mut().zip(owned) {
            *shared |= owned;
        }
    }
    folded
}

/// Which of our annotations an entry of `managedFields` owns.
fn owned_annotations(entry: &ManagedFields) -> [bool; 4] {
    // Most entries own none, and their text can be long.
    let fields =
        entry.fields_v1.as_deref().map(RawValue::get).filter(|fields| fields.contains("f:kuadrant.io/polic"));
    let fields: Value = fields.and_then(|fields| serde_json::from_str(fields).ok()).unwrap_or_default();
    let owned = &fields["f:metadata"]["f:annotations"];
    annotations::OF_POLICY.map(|key| !owned[format!("f:{key}")].is_null())
}

impl Row for Arc<Policy> {
    /// Its metadata says it all.
    fn decides(&self) -> Option<Hash> {
        let selector = self.annotations.get(annotations::CLUSTER_SELECTOR);
        Some(Hash::of(&(&self.uid, self.generation, self.deleting, selector)))
    }
}

impl Pruned for Arc<Policy> {
    fn prune(object: &HubObject, controller: &ControllerName) -> Self {
        Self::new(Policy::new(object, &controller.hub_field_manager()))
    }
}
