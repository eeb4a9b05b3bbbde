//! Rows of policies of any kind, and of resources that are copied to spokes unchanged.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::Deserialize;

use super::owners::Owners;
use super::{RawSpec, Strings, raw_spec};
use policy_sync_api::annotations::{self, LAST_APPLIED};
use policy_sync_api::cluster::PLACEMENT_LABEL;
use policy_sync_api::condition::rejection;
use policy_sync_api::gateway::{self, TargetReference};
use policy_sync_api::json::Hash;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::ControllerName;
use policy_sync_api::object::{HubObject, Metadata};
use policy_sync_mirror::{ObjectRow, Row};

/// The order in which copies are created considers at most this number of targets of a policy.
const TARGETS_LIMIT: usize = 16;

/// A target of a policy: a Gateway in its own namespace, or one of that Gateway's listeners.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// The name of the Gateway.
    pub gateway: Arc<str>,
    /// The name of the listener; `None` for the whole Gateway.
    pub section: Option<Arc<str>>,
}

/// The target references of a spec.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct References {
    target_ref: Option<TargetReference>,
    target_refs: Option<Vec<TargetReference>>,
}

impl Target {
    /// The targets in `spec`, without duplicates; empty if the spec is invalid, since such a policy is not planned.
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

/// A policy or a resource on the hub.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// The uid, which is unique over time.
    pub uid: Arc<str>,
    /// The creation time.
    pub created: Option<Moment>,
    /// The generation, which changes with the spec.
    pub generation: i64,
    /// Whether the object is terminating.
    pub deleting: bool,
    /// Whether the object's status on the hub rejects the current generation.
    pub refused: bool,
    /// The labels of the object.
    pub labels: Strings,
    /// The annotations, without those that this controller writes and without `last-applied-configuration`.
    pub annotations: Strings,
    /// The spec as JSON text.
    pub spec: RawSpec,
    /// The targets of the policy; empty for a resource.
    pub targets: Arc<[Target]>,
    /// The fields of a resource other than its spec, as JSON text; `None` for policies.
    pub others: Option<RawSpec>,
    /// The controlling owner of the object, such as `ReplicaSet web`.
    pub controlled_by: Option<Arc<str>>,
    /// The current values of the annotations that this controller writes.
    pub fields: PolicyFields,
    /// A cache for results that follow from the spec and the overrides.
    pub text_cache: CacheSlot,
    /// A cache for results that follow from all inputs of the copies.
    pub copy_cache: CacheSlot,
}

/// The annotations of a policy that this controller writes, as hashes, because comparisons need only hashes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicyFields {
    /// The hash of each annotation, in the order of [`annotations::POLICY_ANNOTATIONS`].
    pub hashes: [Option<Hash>; 4],
    /// The size of the keys and values of all annotations that this controller does not write, in bytes.
    pub other_bytes: usize,
    /// Whether this controller owns at least one of the annotations in `hashes`.
    pub owned: bool,
    /// Other Policy Sync controllers that own at least one of the annotations in `hashes`.
    pub other_owners: BTreeSet<Arc<str>>,
    /// For each annotation, in the order of `hashes`, whether another field manager owns it. Omitting such an
    /// annotation from an apply does not remove it.
    pub shared: [bool; 4],
}

impl PolicyFields {
    /// Whether any of the annotations exists, and no other Policy Sync controller owns any of them.
    #[must_use]
    pub fn is_ours_to_remove(&self) -> bool {
        self.other_owners.is_empty() && self.hashes.iter().any(Option::is_some)
    }

    fn read(metadata: &Metadata, field_manager: &str) -> Self {
        let texts = &metadata.annotations;
        let is_ours = |key: &str| annotations::POLICY_ANNOTATIONS.contains(&key);
        let others = texts.iter().filter(|(key, _)| !is_ours(key));
        let owners = Owners::read(&metadata.managed_fields, field_manager, "f:kuadrant.io/polic", is_ours);
        Self {
            hashes: annotations::POLICY_ANNOTATIONS.map(|key| texts.get(key).map(|text| Hash::of_text(text))),
            other_bytes: others.map(|(key, value)| key.len() + value.len()).sum(),
            owned: !owners.ours.is_empty(),
            shared: annotations::POLICY_ANNOTATIONS.map(|key| owners.shared.contains(key)),
            other_owners: owners.others,
        }
    }
}

impl Policy {
    /// The row of `object`, for the controller that writes as `field_manager`.
    #[must_use]
    pub fn new(object: &HubObject, field_manager: &str) -> Self {
        let metadata = &object.metadata;
        let travels = |key: &str| key != LAST_APPLIED && !annotations::POLICY_ANNOTATIONS.contains(&key);
        Self {
            uid: metadata.uid.as_str().into(),
            created: metadata.created(),
            refused: rejection(object).is_some(),
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
            others: object.other_fields().map(Into::into),
            controlled_by: object.controlled_by().map(Into::into),
            fields: PolicyFields::read(metadata, field_manager),
            text_cache: CacheSlot::default(),
            copy_cache: CacheSlot::default(),
        }
    }

    /// Whether `other` is the same object in the same generation.
    #[must_use]
    pub fn is_generation_of(&self, other: &Self) -> bool {
        self.uid == other.uid && self.generation == other.generation
    }

    /// Whether `other` is the same resource with the same content. The generation of resources is not reliable: some
    /// kinds have none, and workloads also count changes of annotations, such as this controller's.
    #[must_use]
    pub fn has_same_content(&self, other: &Self) -> bool {
        self.uid == other.uid && self.spec == other.spec && self.others == other.others
    }

    /// The Placement that the label of the object names; empty if the label is empty.
    #[must_use]
    pub fn placement(&self) -> Option<&str> {
        self.labels.get(PLACEMENT_LABEL).map(String::as_str)
    }

    /// Takes over the caches of `before` whose inputs are unchanged.
    pub(crate) fn take_caches(&mut self, before: &Self) {
        let [ours, theirs] =
            [&*self, before].map(|policy| policy.annotations.get(annotations::CLUSTER_OVERRIDES));
        if (&self.spec, &self.others, ours) != (&before.spec, &before.others, theirs) {
            return;
        }
        self.text_cache = before.text_cache.clone();
        if (&self.labels, &self.annotations) == (&before.labels, &before.annotations) {
            self.copy_cache = before.copy_cache.clone();
        }
    }
}

impl Row for Policy {
    /// The hash covers only metadata. The generation represents the spec.
    fn deletion_hash(&self) -> Option<Hash> {
        let selectors = annotations::SELECTOR_ANNOTATIONS.map(|key| self.annotations.get(key));
        let preferences = self.annotations.get(annotations::REPLICA_PREFERENCES);
        let selection_inputs = (self.placement(), selectors, preferences, &self.controlled_by);
        Some(Hash::of_value(&(&self.uid, self.generation, self.deleting, selection_inputs)))
    }
}

impl ObjectRow for Policy {
    fn prune(object: &HubObject, controller: &ControllerName) -> Self {
        Self::new(object, &controller.hub_field_manager())
    }
}

/// A cache in a row, for results that plans derive from the row and would otherwise compute again. The value is dropped
/// with the row. Since it follows from the row, it does not take part in comparisons. Clones share the value.
#[derive(Clone, Default)]
pub struct CacheSlot(Arc<OnceLock<Arc<dyn Any + Send + Sync>>>);

impl CacheSlot {
    /// The cached value, created by the first call. A later call with another type returns an uncached default.
    #[must_use]
    pub fn get<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        self.0.get_or_init(|| Arc::new(T::default())).clone().downcast().unwrap_or_default()
    }
}

impl PartialEq for CacheSlot {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for CacheSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CacheSlot")
    }
}

#[cfg(test)]
mod tests;
