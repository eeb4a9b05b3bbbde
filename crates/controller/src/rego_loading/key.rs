//! The work queue keys of the loader, and the keys of objects that carry Rego policies.

use std::fmt;

use k8s_openapi::api::core::v1::ObjectReference;

use super::kinds::{CONFIG_MAPS, REGO_POLICIES, config_maps};
use policy_sync_api::names::{GroupVersionResource, ObjectKey};
use policy_sync_mirror::Source;
use policy_sync_mirror::{self as mirror, Priority};
use policy_sync_rego::module::ModuleId;

/// An object that may carry Rego policies: a RegoPolicy (without namespace) or a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct CarrierKey(pub ObjectKey);

impl CarrierKey {
    /// The object that contains the module `id`.
    #[must_use]
    pub(super) fn of(id: &ModuleId) -> Option<Self> {
        let mut parts = id.as_str().splitn(3, '/');
        let (first, second, key) = (parts.next()?, parts.next()?, parts.next());
        Some(Self(match key {
            Some(_) => ObjectKey::new(first, second),
            None => ObjectKey::new("", second),
        }))
    }

    #[must_use]
    pub(super) fn is_rego_policy(&self) -> bool {
        self.0.namespace.is_empty()
    }

    /// The source that watches the object.
    #[must_use]
    pub(super) fn source(&self) -> Source {
        if self.is_rego_policy() { REGO_POLICIES.all() } else { config_maps(&self.0.namespace) }
    }

    #[must_use]
    pub(super) fn gvr(&self) -> GroupVersionResource {
        if self.is_rego_policy() { REGO_POLICIES.gvr() } else { CONFIG_MAPS.gvr() }
    }

    /// The values of the fields `apiVersion` and `kind` of the object.
    #[must_use]
    pub(super) fn type_meta(&self) -> (String, &'static str) {
        if self.is_rego_policy() {
            (self.gvr().api_version(), "RegoPolicy")
        } else {
            ("v1".into(), "ConfigMap")
        }
    }

    /// A reference for Events; `uid` is the uid of the object.
    #[must_use]
    pub(super) fn reference(&self, uid: &str) -> ObjectReference {
        let (api_version, kind) = self.type_meta();
        ObjectReference {
            api_version: Some(api_version),
            kind: Some(kind.to_owned()),
            namespace: (!self.is_rego_policy()).then(|| self.0.namespace.to_string()),
            name: Some(self.0.name.to_string()),
            uid: Some(uid.to_owned()),
            ..ObjectReference::default()
        }
    }
}

impl fmt::Display for CarrierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.type_meta().1, self.0)
    }
}

/// A unit of work of the loader.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Key {
    /// Updates the looked-up and watched kinds.
    Watches,
    /// Checks the modules and loads them.
    Bundle,
    /// Publishes the objects that modules read.
    Documents,
    /// Updates the status of a carrier.
    Status(CarrierKey),
}

impl mirror::Key for Key {
    const CATEGORIES: &'static [&'static str] =
        &["rego_watches", "rego_bundle", "rego_documents", "rego_status"];

    fn category(&self) -> &'static str {
        match self {
            Self::Watches => "rego_watches",
            Self::Bundle => "rego_bundle",
            Self::Documents => "rego_documents",
            Self::Status(_) => "rego_status",
        }
    }

    fn priority(&self) -> Priority {
        match self {
            Self::Status(CarrierKey(key)) => Priority::Fair(key.namespace.clone()),
            _ => Priority::High,
        }
    }

    /// Loading and publication handle frequent changes together.
    fn is_batched(&self) -> bool {
        matches!(self, Self::Bundle | Self::Documents)
    }
}
