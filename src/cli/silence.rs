//! Whether the agent of a cluster is heard of.

use k8s_openapi::jiff::Timestamp;

use crate::api::cluster::{AVAILABLE, ManagedClusterStatus};
use crate::api::object::HubObject;

/// Since when the agent of a ManagedCluster is silent; `None` where it is not, or nothing says so.
pub(super) fn silent_since(cluster: &HubObject) -> Option<Timestamp> {
    let conditions = cluster.status_as::<ManagedClusterStatus>().conditions;
    let silent = conditions.into_iter().find(|said| said.type_ == AVAILABLE && said.status != "True")?;
    Some(silent.last_transition_time.0)
}
