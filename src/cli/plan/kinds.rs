//! Resolves the kinds that parameters list, from the CustomResourceDefinitions and objects in manifests.

use super::inventory::Inventory;
use policy_sync_api::names::GroupVersionResource;
use policy_sync_api::params::Role;
use policy_sync_sync::rows::kind::{KindInfo, Resolution, check, is_direct};

/// How a kind was resolved.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KindResolution {
    /// The kind was resolved from its CustomResourceDefinition. Contains the `kind` in objects, and whether the kind
    /// can be synced.
    Defined(String, Resolution),
    /// The kind was resolved from an object whose `kind` matches the plural. Contains this `kind`.
    Inferred(String),
    /// The kind was not resolved: there is neither a definition nor an object.
    Absent,
}

impl KindResolution {
    /// Whether the kind can be synced.
    pub(super) fn resolution(&self) -> Resolution {
        match self {
            Self::Defined(_, resolution) => resolution.clone(),
            Self::Inferred(kind) => Resolution::Resolved(KindInfo::named(kind)),
            Self::Absent => Resolution::Gone,
        }
    }

    /// The `kind` in objects.
    pub(super) fn kind(&self) -> Option<&str> {
        match self {
            Self::Defined(kind, _) | Self::Inferred(kind) => Some(kind),
            Self::Absent => None,
        }
    }
}

/// Resolves `gvr`, which parameters list under `role`.
pub(super) fn resolve_kind(inventory: &Inventory, role: Role, gvr: &GroupVersionResource) -> KindResolution {
    if let Some(given) = inventory.definitions.get(&gvr.kind.to_string()) {
        let definition = &given.definition.spec;
        let kind = &definition.names.kind;
        let direct = is_direct(&given.definition);
        let info = check(definition, gvr, role).map(|info| KindInfo { direct, ..info });
        let resolution = info.map_or_else(|fault| fault, Resolution::Resolved);
        return KindResolution::Defined(kind.clone(), resolution);
    }
    let mut kinds = inventory.kinds();
    let fits = |(group, kind): &(&str, &str)| **group == *gvr.kind.group && gvr.kind.is_plural_of(kind);
    kinds.find(fits).map_or(KindResolution::Absent, |(_, kind)| KindResolution::Inferred(kind.to_owned()))
}

#[cfg(test)]
mod tests;
