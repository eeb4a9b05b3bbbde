//! The backends of route rules, and references to them.

use std::sync::Arc;

use serde::Deserialize;

use super::wire::{self, GroupName, KindName, Name, Port};
use crate::locator::{ENVOY_BACKEND, Kind, KindRef, Locator, SERVICE, SERVICE_IMPORT, Section};
use policy_sync_api::interned::MemorySize;

/// The kinds of backends whose objects are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BackendKind {
    /// Service.
    Service,
    /// ServiceImport.
    ServiceImport,
    /// Backend of Envoy Gateway.
    EnvoyBackend,
}

impl BackendKind {
    /// All kinds of backends.
    pub const ALL: [Self; 3] = [Self::Service, Self::ServiceImport, Self::EnvoyBackend];

    /// The group and the `kind` in objects.
    #[must_use]
    pub const fn kind(self) -> KindRef<'static> {
        match self {
            Self::Service => SERVICE,
            Self::ServiceImport => SERVICE_IMPORT,
            Self::EnvoyBackend => ENVOY_BACKEND,
        }
    }

    /// The type of nodes for ports of backends of this kind.
    #[must_use]
    pub const fn port(self) -> &'static str {
        match self {
            Self::Service => "ServicePort",
            Self::ServiceImport => "ServiceImportPort",
            Self::EnvoyBackend => "BackendPort",
        }
    }

    /// Whether a reference's port is a port of the object. An endpoint of Envoy Gateway's Backend has its own port.
    const fn has_ports(self) -> bool {
        !matches!(self, Self::EnvoyBackend)
    }

    /// Returns the variant for `kind`; `None` if objects of `kind` are not read as backends.
    #[must_use]
    pub fn named(kind: KindRef<'_>) -> Option<Self> {
        Self::ALL.into_iter().find(|backend| backend.kind() == kind)
    }
}

/// The kind of backend that a reference names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    /// A kind whose objects are read.
    Known(BackendKind),
    /// Any other kind.
    Other(Arc<Kind>),
}

impl Backend {
    /// The kind that the reference names.
    #[must_use]
    pub fn kind(&self) -> KindRef<'_> {
        match self {
            Self::Known(kind) => kind.kind(),
            Self::Other(kind) => (**kind).as_ref(),
        }
    }
}

/// A reference to a backend.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BackendReference {
    /// The kind of the backend.
    pub backend: Backend,
    /// The backend's namespace; `None` for the route's namespace.
    pub namespace: Option<Arc<str>>,
    /// The backend's name.
    pub name: Arc<str>,
    /// The backend's port.
    pub port: Option<u16>,
}

impl MemorySize for BackendReference {
    fn bytes(&self) -> usize {
        size_of_val(self) + self.name.len() + self.namespace.as_ref().map_or(0, |text| text.len())
    }
}

impl BackendReference {
    /// The locator of the backend, for a reference in the namespace `own`.
    #[must_use]
    pub fn locator<'l>(&'l self, own: &'l str) -> Locator<'l> {
        let (kind, namespace) = (self.backend.kind(), self.namespace.as_deref().unwrap_or(own));
        let has_ports = matches!(self.backend, Backend::Known(kind) if kind.has_ports());
        let section = self.port.filter(|_| has_ports).map(Section::Port);
        Locator { kind, namespace, name: &self.name, section }
    }
}

/// A reference to a backend in a route. `F` is the type of its filters.
#[derive(Deserialize)]
pub(super) struct BackendRef<F> {
    group: Option<GroupName>,
    kind: Option<KindName>,
    namespace: Option<wire::Namespace>,
    name: Name,
    port: Option<Port>,
    pub(super) filters: Option<F>,
}

impl<F> From<BackendRef<F>> for BackendReference {
    fn from(written: BackendRef<F>) -> Self {
        let kind = wire::kind(written.group, written.kind, SERVICE);
        Self {
            backend: BackendKind::named(kind.as_ref())
                .map_or_else(|| Backend::Other(kind.into()), Backend::Known),
            namespace: written.namespace.map(|namespace| namespace.0),
            name: written.name.0,
            port: written.port.map(|port| port.0),
        }
    }
}
