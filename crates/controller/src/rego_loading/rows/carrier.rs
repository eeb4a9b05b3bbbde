//! The row of an object that may carry Rego policies.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;

use policy_sync_api::names::ControllerName;
use policy_sync_api::object::HubObject;
use policy_sync_api::rego_policy::RegoPolicyStatus;
use policy_sync_mirror::{ObjectRow, Row};
use policy_sync_rego::carrier::CarrierContents;

/// The status annotation of ConfigMaps, in the format of kube-mgmt (JSON).
pub(crate) const STATUS: &str = "openpolicyagent.org/kube-mgmt-status";

/// A ConfigMap in a namespace for Rego policies, or a RegoPolicy.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Carrier {
    pub uid: String,
    /// The creation time.
    pub created: Option<Timestamp>,
    /// The generation; 0 for a ConfigMap.
    pub generation: i64,
    /// The modules and data; `None` if the object has neither.
    pub carried: Option<CarrierContents>,
    /// The number of ignored keys.
    pub ignored: usize,
    /// The current status.
    pub status: CarrierStatus,
}

/// The status that a carrier reports about its modules.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CarrierStatus {
    /// The value of the annotation [`STATUS`].
    pub annotation: Option<String>,
    /// Whether this controller wrote the annotation.
    pub is_ours: bool,
    /// The conditions in the status of a RegoPolicy.
    pub conditions: Vec<Condition>,
}

impl CarrierStatus {
    /// The status without its times, by which repeated writes of the same status are detected.
    #[must_use]
    pub(crate) fn without_times(&self) -> String {
        let conditions = self.conditions.iter().map(|condition| {
            let generation = condition.observed_generation.unwrap_or_default();
            format!("{generation} {} {}", condition.status, condition.message)
        });
        self.annotation.iter().cloned().chain(conditions).collect()
    }
}

impl Row for Carrier {}

impl ObjectRow for Carrier {
    fn prune(object: &HubObject, controller: &ControllerName) -> Self {
        let metadata = &object.metadata;
        let manager = controller.hub_field_manager();
        let mut of_ours = metadata.managed_fields.iter().filter(|entry| entry.manager == manager);
        let carried = CarrierContents::from_object(object);
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
