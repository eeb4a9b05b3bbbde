//! Settings of the stored topology.

use policy_sync_api::names::ObjectKey;

/// The name of the ConfigMap.
const NAME: &str = "topology";

/// Settings of the stored topology.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The namespace and name of the ConfigMap.
    pub(super) config_map: ObjectKey,
    /// Whether to write entries to route statuses; if not, existing ones are removed.
    pub(super) route_status: bool,
}

impl Settings {
    /// Uses the ConfigMap `topology` in `namespace`. `route_status`: whether to write route statuses, too.
    #[must_use]
    pub fn new(namespace: &str, route_status: bool) -> Self {
        Self { config_map: ObjectKey::new(namespace, NAME), route_status }
    }
}
