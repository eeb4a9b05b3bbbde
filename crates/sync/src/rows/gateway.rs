//! Rows of Gateways.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::gateway_fields::GatewayFields;
use super::{RawSpec, Strings, raw_spec};
use policy_sync_api::annotations::{GRACE_TIMEOUT, SELECTOR_ANNOTATIONS};
use policy_sync_api::cluster::PLACEMENT_LABEL;
use policy_sync_api::gateway::{GatewaySpec, listener_secrets};
use policy_sync_api::json::Hash;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ControllerName, ObjectKey};
use policy_sync_api::object::HubObject;
use policy_sync_mirror::{ObjectRow, Row};

/// A Gateway on the hub.
#[derive(Clone, Debug, PartialEq)]
pub struct Gateway {
    /// The uid, which is unique over time.
    pub uid: Arc<str>,
    /// The creation time.
    pub created: Option<Moment>,
    /// The generation, which changes with the spec.
    pub generation: i64,
    /// Whether the Gateway is terminating.
    pub deleting: bool,
    /// The name of the GatewayClass.
    pub class: Arc<str>,
    /// The labels, without those that this controller writes.
    pub labels: Strings,
    /// The annotations, without those that this controller writes.
    pub annotations: Strings,
    /// The spec as JSON text.
    pub spec: RawSpec,
    /// The Secrets that the listeners name, without duplicates.
    pub secrets: Box<[ObjectKey]>,
    /// The current values of the fields that this controller writes.
    pub fields: GatewayFields,
}

impl Gateway {
    /// The row of `object`, for the controller that writes as `field_manager`.
    #[must_use]
    pub fn new(object: &HubObject, field_manager: &str) -> Self {
        let others = |strings: &Strings| {
            let others = strings.iter().filter(|(key, _)| !GatewayFields::is_ours(key));
            others.map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        let named = object.spec_value();
        let named = listener_secrets(&named, &object.metadata.namespace).map(|named| named.secret);
        let secrets: BTreeSet<ObjectKey> = named.collect();
        Self {
            uid: object.metadata.uid.as_str().into(),
            created: object.metadata.created(),
            generation: object.metadata.generation,
            deleting: object.metadata.deletion_timestamp.is_some(),
            class: object.spec_as::<GatewaySpec>().gateway_class_name.into(),
            labels: others(&object.metadata.labels),
            annotations: others(&object.metadata.annotations),
            spec: raw_spec(object),
            secrets: secrets.into_iter().collect(),
            fields: GatewayFields::read(object, field_manager),
        }
    }

    /// The Placement that the label of the Gateway names.
    #[must_use]
    pub fn placement(&self) -> Option<&str> {
        self.labels.get(PLACEMENT_LABEL).map(String::as_str).filter(|name| !name.is_empty())
    }

    /// The inputs that select the Gateway's clusters: its Placement and its cluster selectors.
    pub(crate) fn selection_inputs(&self) -> impl PartialEq + '_ {
        (self.placement(), SELECTOR_ANNOTATIONS.map(|key| self.annotations.get(key)))
    }

    /// Whether both rows agree in all fields on which decisions about works depend.
    #[must_use]
    pub fn is_equivalent(&self, other: &Self) -> bool {
        fn decides(row: &Gateway) -> impl PartialEq + '_ {
            (&row.uid, row.deleting, &row.class, &row.labels, &row.annotations, &row.spec)
        }
        decides(self) == decides(other)
    }
}

impl Row for Gateway {
    /// The hash covers only metadata. The generation represents the spec.
    fn deletion_hash(&self) -> Option<Hash> {
        let grace = self.annotations.get(GRACE_TIMEOUT);
        let selectors = SELECTOR_ANNOTATIONS.map(|key| self.annotations.get(key));
        Some(Hash::of_value(&(&self.uid, self.generation, self.deleting, self.placement(), grace, selectors)))
    }
}

impl ObjectRow for Gateway {
    fn prune(object: &HubObject, controller: &ControllerName) -> Self {
        Self::new(object, &controller.hub_field_manager())
    }
}
