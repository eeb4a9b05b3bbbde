//! The registry of the kinds that the sync watches, and of the fields that it keeps of each kind.

use std::sync::Arc;

use super::PolicyKind;
use super::rows::class::{Class, ConfigMap};
use super::rows::cluster::{Cluster, Decision, Placement};
use super::rows::gateway::Gateway;
use super::rows::grant::Grant;
use super::rows::policy::Policy;
use super::rows::secret::Secret;
use super::rows::work::Work;
use policy_sync_api::names::{ControllerName, ObjectKey};
use policy_sync_api::params::Role;
use policy_sync_api::{annotations, cluster, gateway, secret, work};
use policy_sync_mirror::{Family, Kind, KindDeclaration, RequiredApi, Source};

/// GatewayClasses, of all controllers.
pub static CLASSES: Kind<Class> = Kind::new(gateway::GROUP, "v1", "gatewayclasses");
/// The ConfigMaps that classes name as their parameters; each ConfigMap is watched separately.
pub static CONFIG_MAPS: Kind<ConfigMap> = Kind::new("", "v1", "configmaps");
/// Gateways.
pub static GATEWAYS: Kind<Gateway> = Kind::new(gateway::GROUP, "v1", "gateways");
/// ReferenceGrants.
pub static GRANTS: Kind<Grant> = Kind::new(gateway::GROUP, "v1beta1", "referencegrants");
/// Secrets of type `kubernetes.io/tls`, which hold the certificates of listeners.
pub static SECRETS: Kind<Secret> = Kind::new("", "v1", "secrets").with_fields(secret::TLS_FIELD_SELECTOR);
/// ManagedClusters.
pub static CLUSTERS: Kind<Cluster> = Kind::new(cluster::GROUP, "v1", "managedclusters");
/// Placements.
pub static PLACEMENTS: Kind<Placement> = Kind::new(cluster::GROUP, "v1beta1", "placements");
/// PlacementDecisions.
pub static DECISIONS: Kind<Decision> = Kind::new(cluster::GROUP, "v1beta1", "placementdecisions");
/// ManifestWorks of this controller, selected by label.
pub static WORKS: Kind<Work> = Kind::new(work::GROUP, "v1", "manifestworks").with_labels(of_controller);
/// Policies of the kinds that parameters list. Each kind is watched in one version, as long as that version can be
/// synced.
pub static POLICIES: Family<Arc<Policy>> = Family::new("policies");
/// Resources of the kinds that parameters list, watched like policies. The whole JSON text of a resource is kept,
/// because all of it may be copied.
pub static RESOURCES: Family<Arc<Policy>> = Family::new("resources").with_text();
/// The kinds that must be listed before anything is planned.
pub const NEEDED: [&KindDeclaration; 6] = [
    CLASSES.declaration(),
    GATEWAYS.declaration(),
    CLUSTERS.declaration(),
    PLACEMENTS.declaration(),
    DECISIONS.declaration(),
    WORKS.declaration(),
];

/// The API group without which a cluster cannot have Gateways.
pub const GATEWAY_API: RequiredApi = RequiredApi {
    group: gateway::GROUP,
    version: "v1",
    resource: "gatewayclasses",
    spoke_resource: None,
    kinds: "GatewayClasses",
    project: "Gateway API",
};
/// The API groups without which a cluster cannot be a hub.
pub const REQUIRED: [RequiredApi; 2] = [
    GATEWAY_API,
    RequiredApi {
        group: work::GROUP,
        version: "v1",
        resource: "manifestworks",
        spoke_resource: Some("appliedmanifestworks"),
        kinds: "ManifestWorks",
        project: "Open Cluster Management",
    },
];

/// The sources of [`NEEDED`].
pub fn needed() -> impl Iterator<Item = Source> {
    NEEDED.into_iter().map(Source::from)
}

/// The label selector that matches the works of `controller`.
#[must_use]
pub fn of_controller(controller: &ControllerName) -> String {
    format!("{}={}", annotations::CONTROLLER, controller.hash())
}

/// The source of the objects of `kind`, which parameters list in the role `role`.
#[must_use]
pub fn objects(role: Role, kind: &PolicyKind) -> Source {
    match role {
        Role::Policy => POLICIES.resource(kind.clone()),
        Role::Resource => RESOURCES.resource(kind.clone()),
    }
}

/// The role and kind of the objects of `source`; `None` if they are neither policies nor resources.
#[must_use]
pub fn role_of(source: &Source) -> Option<(Role, &PolicyKind)> {
    let policies = POLICIES.resource_of(source).map(|kind| (Role::Policy, kind));
    policies.or_else(|| RESOURCES.resource_of(source).map(|kind| (Role::Resource, kind)))
}

/// The source of the single ConfigMap `key`.
#[must_use]
pub fn config_map(key: &ObjectKey) -> Source {
    CONFIG_MAPS.object(key.clone())
}
