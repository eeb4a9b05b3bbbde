//! Where the topology is kept.

use policy_sync_api::names::ObjectKey;

/// The name of the ConfigMap.
const NAME: &str = "topology";

/// Where the topology is kept.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The ConfigMap.
    pub(super) config_map: ObjectKey,
    /// Whether the statuses of routes say what they are attached to; where not, that is taken away.
    pub(super) route_status: bool,
}

impl Settings {
    /// In the ConfigMap `topology` of `namespace`, in the statuses of Gateways, and, where there is to be a `route_status`, of
    /// routes.
    #[must_use]
    pub fn new(namespace: &str, route_status: bool) -> Self {
        Self { config_map: ObjectKey::new(namespace, NAME), route_status }
    }
}
