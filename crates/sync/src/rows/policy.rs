//! Policies on the hub, of any kind, and resources that are taken to the spokes as they are.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Deserialize;

use super::aside::Aside;
use super::owners::Owners;
use super::{RawSpec, Strings, raw_spec};
use policy_sync_api::annotations::{self, LAST_APPLIED};
use policy_sync_api::cluster::PLACEMENT_LABEL;
use policy_sync_api::condition::refusal;
use policy_sync_api::gateway::{self, TargetReference};
use policy_sync_api::json::Hash;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::ControllerName;
use policy_sync_api::object::{HubObject, Metadata};
use policy_sync_mirror::{Pruned, Row};

/// The most targets of a policy that count for the order in which copies are created.
const TARGETS_LIMIT: usize = 16;

/// A Gateway of the policy's own namespace, or one of its listeners, that a policy targets.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// The Gateway's name.
    pub gateway: Arc<str>,
    /// The listener's name; `None` for the whole Gateway.
    pub section: Option<Arc<str>>,
}

/// The target references in a spec.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct References {
    target_ref: Option<TargetReference>,
    target_refs: Option<Vec<TargetReference>>,
}

impl Target {
    /// The targets in `spec`, without duplicates; none if it cannot be read, because such a policy is not planned.
    fn read(spec: &str, namespace: &str) -> Arc<[Self]> {
        if !spec.contains("\"targetRef") {
            return Arc::default();
        }
        let References { target_ref, target_refs } = serde_json::from_str(spec).unwrap_or_default();
        let is_gateway = |target: &TargetReference| {
            let of_namespace = target.namespace.as_deref().filter(|name| !name.is_empty());
            target.group == gateway::GROUP
                && target.kind == "Gateway"
                && of_namespace.is_none_or(|name| name == namespace)
        };
        let references = target_ref.into_iter().chain(target_refs.into_iter().flatten()).filter(is_gateway);
        let target = |reference: TargetReference| Self {
            gateway: reference.name.into(),
            section: reference.section_name.filter(|name| !name.is_empty()).map(Into::into),
        };
        let targets: BTreeSet<Self> = references.take(TARGETS_LIMIT).map(target).collect();
        targets.into_iter().collect()
    }
}

/// A policy on the hub, or a resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Unique over time.
    pub uid: Arc<str>,
    /// When it was made.
    pub created: Option<Moment>,
    /// Changes with the spec.
    pub generation: i64,
    /// Whether it was asked to go.
    pub deleting: bool,
    /// Whether its status refuses its present generation.
    pub refused: bool,
    /// Labels.
    pub labels: Strings,
    /// Annotations, without ours and without those that only repeat the object.
    pub annotations: Strings,
    /// Spec.
    pub spec: RawSpec,
    /// Its targets.
    pub targets: Arc<[Target]>,
    /// Of a resource: what it holds beside its spec, as JSON.
    pub others: Option<RawSpec>,
    /// The object whose controller makes and deletes it: `ReplicaSet web`.
    pub controlled_by: Option<Arc<str>>,
    /// What stands in the annotations that are ours to write.
    pub fields: PolicyFields,
    /// What takes long to find out of its spec and its overrides.
    pub of_texts: Aside,
    /// What takes long to find out of all that its copies are made of.
    pub of_copies: Aside,
}

/// The annotations of ours that a policy has: what they say as a hash, which is all that a comparison needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicyFields {
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

impl PolicyFields {
    /// Whether any of our annotations is there, and ours to take away.
    #[must_use]
    pub fn is_ours_to_remove(&self) -> bool {
        self.other_owners.is_empty() && self.hashes.iter().any(Option::is_some)
    }

    fn read(metadata: &Metadata, field_manager: &str) -> Self {
        let texts = &metadata.annotations;
        let is_ours = |key: &str| annotations::OF_POLICY.contains(&key);
        let others = texts.iter().filter(|(key, _)| !is_ours(key));
        let owners = Owners::read(&metadata.managed_fields, field_manager, "f:kuadrant.io/polic", is_ours);
        Self {
            hashes: annotations::OF_POLICY.map(|key| texts.get(key).map(|text| Hash::of_text(text))),
            other_bytes: others.map(|(key, value)| key.len() + value.len()).sum(),
            owned: !owners.ours.is_empty(),
            shared: annotations::OF_POLICY.map(|key| owners.shared.contains(key)),
            other_owners: owners.others,
        }
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
            created: metadata.created(),
            refused: refusal(object).is_some(),
            generation: metadata.generation,
            deleting: metadata.deletion_timestamp.is_some(),
            labels: metadata.labels.clone(),
            annotations: metadata
                .annotations
                .iter()
                .filter(|(key, _)| travels(key))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
            targets: object
                .spec
                .as_ref()
                .map_or_else(Arc::default, |spec| Target::read(spec.get(), &metadata.namespace)),
            spec: raw_spec(object),
            others: object.others().map(Into::into),
            controlled_by: object.controlled_by().map(Into::into),
            fields: PolicyFields::read(metadata, field_manager),
            of_texts: Aside::default(),
            of_copies: Aside::default(),
        }
    }

    /// Whether it is `other` in the same generation.
    #[must_use]
    pub fn is_generation_of(&self, other: &Self) -> bool {
        self.uid == other.uid && self.generation == other.generation
    }

    /// Whether it is `other`, a resource, and holds the same. Of resources the generation does not tell: some kinds count none,
    /// and those of workloads count annotations, ours among them.
    #[must_use]
    pub fn holds_as(&self, other: &Self) -> bool {
        self.uid == other.uid && self.spec == other.spec && self.others == other.others
    }

    /// The Placement that its label names; empty where the label is.
    #[must_use]
    pub fn placement(&self) -> Option<&str> {
        self.labels.get(PLACEMENT_LABEL).map(String::as_str)
    }

    /// Takes over what was found out of `before`, as far as it was found in the same.
    pub(crate) fn replaces(&mut self, before: &Self) {
        let [ours, theirs] =
            [&*self, before].map(|policy| policy.annotations.get(annotations::CLUSTER_OVERRIDES));
        if (&self.spec, &self.others, ours) != (&before.spec, &before.others, theirs) {
            return;
        }
        self.of_texts = before.of_texts.clone();
        if (&self.labels, &self.annotations) == (&before.labels, &before.annotations) {
            self.of_copies = before.of_copies.clone();
        }
    }
}

impl Row for Policy {
    /// Its metadata says it all.
    fn decides(&self) -> Option<Hash> {
        let selectors = annotations::SELECTORS.map(|key| self.annotations.get(key));
        let preferences = self.annotations.get(annotations::REPLICA_PREFERENCES);
        let chooses = (self.placement(), selectors, preferences, &self.controlled_by);
        Some(Hash::of_value(&(&self.uid, self.generation, self.deleting, chooses)))
    }
}

impl Pruned for Policy {
    fn prune(object: &HubObject, controller: &ControllerName) -> Self {
        Self::new(object, &controller.hub_field_manager())
    }
}

#[cfg(test)]
mod tests;
