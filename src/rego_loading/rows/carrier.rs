//! What is kept of an object that may carry policies.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;

use policy_sync_api::names::ControllerName;
use policy_sync_api::object::HubObject;
use policy_sync_api::rego_policy::RegoPolicyStatus;
use policy_sync_mirror::{Pruned, Row};
use policy_sync_rego::carrier::Carried;

/// On a ConfigMap, as kube-mgmt has it: whether its policies count, as JSON.
pub(crate) const STATUS: &str = "openpolicyagent.org/kube-mgmt-status";

/// A ConfigMap of a policy namespace, or a RegoPolicy.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Carrier {
    /// Unique over time.
    pub uid: String,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// Changes with the spec, 0 of a ConfigMap.
    pub generation: i64,
    /// What it carries, `None` where it is nothing.
    pub carried: Option<Carried>,
    /// How many keys it has that are ignored.
    pub ignored: usize,
    /// What it says of that.
    pub status: CarrierStatus,
}

/// What a carrier says of what it carries.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CarrierStatus {
    /// The annotation [`STATUS`].
    pub annotation: Option<String>,
    /// Whether that is this controller's.
    pub is_ours: bool,
    /// The conditions in its status.
    pub conditions: Vec<Condition>,
}

impl CarrierStatus {
    /// What it comes to, whenever that is.
    #[must_use]
    pub(crate) fn words(&self) -> String {
        let conditions = self.conditions.iter().map(|condition| {
            let generation = condition.observed_generation.unwrap_or_default();
            format!("{generation} {} {}", condition.status, condition.message)
        });
        self.annotation.iter().cloned().chain(conditions).collect()
    }
}

impl Row for Carrier {}

impl Pruned for Carrier {
    fn prune(object: &HubObject, controller: &ControllerName) -> Self {
        let metadata = &object.metadata;
        let manager = controller.hub_field_manager();
        let mut of_ours = metadata.managed_fields.iter().filter(|entry| entry.manager == manager);
        let carried = Carried::by(object);
        let ignored = match &carried {
            Some(carried) => carried.ignored.len(),
            None => object.data_as::<std::collections::BTreeMap<String, serde::de::IgnoredAny>>().len(),
        };
        Self {
            uid: metadata.uid.clone(),
            created: metadata.creation_timestamp.as_ref().map(|time| time.0),
            generation: metadata.generation,
            carried,
            ignored,
            status: CarrierStatus {
                annotation: metadata.annotations.get(STATUS).cloned(),
                is_ours: of_ours.any(|entry| {
                    entry.fields_v1.as_deref().is_some_and(|fields| fields.get().contains(STATUS))
                }),
                conditions: object.status_as::<RegoPolicyStatus>().conditions,
            },
        }
    }
}
