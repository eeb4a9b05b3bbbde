//! The registry of watched kinds: carriers of Rego policies, and objects that Rego policies read.

use super::rows::{Carrier, Document};
use super::settings::Settings;
use policy_sync_api::names::GroupResource;
use policy_sync_api::rego_policy::{GROUP, PLURAL};
pub(super) use policy_sync_mirror::plurals::{RESOLVED_PLURALS, plural_key};
use policy_sync_mirror::{Family, Kind, Scope, Source};

/// ConfigMaps in the Rego namespaces, which are the namespaces whose ConfigMaps carry Rego policies.
pub(super) static CONFIG_MAPS: Kind<Carrier> = Kind::new("", "v1", "configmaps");
/// RegoPolicies, if the hub serves them.
pub(super) static REGO_POLICIES: Kind<Carrier> = Kind::new(GROUP, "v1alpha1", PLURAL);
/// The objects of the kinds that modules read, without the fields that Rego policies do not need.
pub(super) static DOCUMENTS: Family<Document> = Family::new("documents").with_text();

/// The ConfigMaps in one Rego namespace.
#[must_use]
pub(super) fn config_maps(namespace: &str) -> Source {
    CONFIG_MAPS.all().within(Scope::Namespace(namespace.into()))
}

/// All objects of `kind`.
#[must_use]
pub(super) fn documents(kind: &GroupResource) -> Source {
    DOCUMENTS.resource(kind.clone())
}

/// The sources of Rego policies that are always watched.
pub(super) fn carriers(settings: &Settings) -> impl Iterator<Item = Source> {
    settings.namespaces.iter().map(|namespace| config_maps(namespace))
}

/// The name by which API discovery looks up RegoPolicies.
#[must_use]
pub(super) fn rego_policies() -> String {
    REGO_POLICIES.gvr().kind.to_string()
}
