//! The conditions on Gateways that name the policies affecting them: a row with the present conditions, and the request
//! that writes the desired conditions.

use std::sync::Arc;

use http::Request;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::core::request;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::digest;
use policy_sync_api::gateway::CONDITIONS;
use policy_sync_api::json::Hash;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ControllerName, ObjectKey};
use policy_sync_api::object::HubObject;
use policy_sync_hub::reconcile::apply;
use policy_sync_mirror::{ObjectRow, Row};
use policy_sync_sync::kinds::GATEWAYS;
use policy_sync_topology::conditions::{AFFECTED_DOMAIN, ConditionText};

/// The status of a Gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct GatewayStatus {
    /// The uid of the Gateway.
    pub(super) uid: Arc<str>,
    /// The generation of the Gateway.
    pub(super) generation: i64,
    /// The conditions written by this controller.
    pub(super) conditions: Box<[Condition]>,
    /// The number of conditions that this controller did not write, without the two conditions that every Gateway of
    /// this controller has.
    pub(super) others: usize,
    /// Whether this controller owns any field of the status.
    pub(super) is_ours: bool,
}

impl GatewayStatus {
    /// Whether `other` is equal except for fields that this controller writes.
    pub(super) fn equals_without_own_fields(&self, other: &Self) -> bool {
        let key = |row: &Self| (row.uid.clone(), row.generation, row.others);
        key(self) == key(other)
    }

    /// The hash of the conditions.
    pub(super) fn digest(&self) -> Hash {
        let generations =
            self.conditions.iter().map(|condition| condition.observed_generation.unwrap_or_default());
        digest::of_gateway(digest::of_conditions(&self.conditions), generations)
    }

    /// Whether this is the status of the Gateway with this `uid`.
    #[must_use]
    pub fn has_uid(&self, uid: &str) -> bool {
        *self.uid == *uid
    }

    /// A request that sets the conditions `texts`, with this `generation`, on the Gateway `key`.
    ///
    /// # Errors
    ///
    /// If the request cannot be built.
    pub fn request(
        &self,
        controller: &ControllerName,
        key: &ObjectKey,
        (texts, generation): (&[ConditionText], i64),
        now: Moment,
    ) -> Result<Request<Vec<u8>>, request::Error> {
        let conditions: Vec<Condition> =
            texts.iter().map(|text| text.dated(&self.conditions, generation, now)).collect();
        let manager = controller.topology_field_manager();
        apply::conditions(&manager, (&GATEWAYS.gvr(), "Gateway"), key, &self.uid, &conditions)
    }
}

impl Row for GatewayStatus {}

impl ObjectRow for GatewayStatus {
    fn prune(object: &HubObject, controller: &ControllerName) -> Self {
        #[derive(Default, Deserialize)]
        struct Status {
            #[serde(default)]
            conditions: Vec<Condition>,
        }
        let status: Status = object.status_as();
        let manager = controller.topology_field_manager();
        let applied = object.metadata.managed_fields.iter().find(|entry| entry.are_applied_by(&manager));
        let fields =
            applied.and_then(|entry| entry.fields_v1.as_deref()).map(RawValue::get).unwrap_or_default();
        // A condition with this prefix counts as own only if `managedFields` lists it for this controller.
        let is_ours = |condition: &Condition| {
            condition.type_.starts_with(AFFECTED_DOMAIN)
                && fields.contains(&format!(r#""k:{{\"type\":\"{}\"}}""#, condition.type_))
        };
        let (mut ours, others): (Vec<_>, Vec<_>) = status.conditions.into_iter().partition(is_ours);
        ours.sort_by(|left, right| left.type_.cmp(&right.type_));
        let is_beside = |condition: &&Condition| !CONDITIONS.contains(&condition.type_.as_str());
        Self {
            uid: object.metadata.uid.as_str().into(),
            generation: object.metadata.generation,
            others: others.iter().filter(is_beside).count(),
            conditions: ours.into(),
            is_ours: applied.is_some(),
        }
    }
}
