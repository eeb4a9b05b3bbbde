//! The status of a Gateway, as far as it says which policies affect it: the row, and the request.

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
use policy_sync_mirror::{Pruned, Row};
use policy_sync_sync::kinds::GATEWAYS;
use policy_sync_topology::conditions::{AFFECTED_DOMAIN, ConditionText};

/// What stands in the status of a Gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct GatewayStatus {
    /// Of the Gateway, unique over time.
    pub(super) uid: Arc<str>,
    /// Of its spec.
    pub(super) generation: i64,
    /// The conditions that this controller has written.
    pub(super) conditions: Box<[Condition]>,
    /// How many other conditions there are, beside the two that every Gateway of ours has.
    pub(super) others: usize,
    /// Whether this controller has written anything of it.
    pub(super) is_ours: bool,
}

impl GatewayStatus {
    /// Whether `other` differs in nothing but what this controller writes.
    pub(super) fn is_as(&self, other: &Self) -> bool {
        let key = |row: &Self| (row.uid.clone(), row.generation, row.others);
        key(self) == key(other)
    }

    /// The hash of what it says.
    pub(super) fn digest(&self) -> Hash {
        let generations =
            self.conditions.iter().map(|condition| condition.observed_generation.unwrap_or_default());
        digest::of_gateway(digest::of_conditions(&self.conditions), generations)
    }

    /// Whether it is that of the Gateway of this `uid`.
    #[must_use]
    pub fn is_of(&self, uid: &str) -> bool {
        *self.uid == *uid
    }

    /// The request that has the Gateway `key` say `texts` of this `generation`.
    ///
    /// # Errors
    ///
    /// Where it cannot be made.
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

impl Pruned for GatewayStatus {
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
        // What somebody else has put there is theirs, whatever it is called.
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
