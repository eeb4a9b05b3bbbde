//! The registry: what is watched for Rego, and what is kept of it.

use super::rows::{Carrier, Document};
use super::settings::Settings;
use policy_sync_api::names::GroupResource;
use policy_sync_api::rego_policy::{GROUP, PLURAL};
pub(super) use policy_sync_mirror::served::{SERVED, served_key};
use policy_sync_mirror::{Family, Kind, Scope, Source};

/// ConfigMaps of the policy namespaces.
pub(super) static CONFIG_MAPS: Kind<Carrier> = Kind::new("", "v1", "configmaps");
/// RegoPolicies, where the hub serves them.
pub(super) static REGO_POLICIES: Kind<Carrier> = Kind::new(GROUP, "v1alpha1", PLURAL);
/// Objects of the kinds that modules read, whole.
pub(super) static DOCUMENTS: Family<Document> = Family::new("documents").with_text();

/// The ConfigMaps of one policy namespace.
#[must_use]
pub(super) fn config_maps(namespace: &str) -> Source {
    CONFIG_MAPS.all().within(Scope::Namespace(namespace.into()))
}

/// The objects of `kind`.
#[must_use]
pub(super) fn documents(kind: &GroupResource) -> Source {
    DOCUMENTS.resource(kind.clone())
}

/// Where policies come from in any case.
pub(super) fn carriers(settings: &Settings) -> impl Iterator<Item = Source> {
    settings.namespaces.iter().map(|namespace| config_maps(namespace))
}

/// How RegoPolicies are looked up.
#[must_use]
pub(super) fn rego_policies() -> String {
    REGO_POLICIES.gvr().kind.to_string()
}
