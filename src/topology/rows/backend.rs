//! What the rules of routes send requests to.

use std::sync::Arc;

use serde::Deserialize;

use super::wire::{self, Group, KindName, Name, Port};
use crate::interned::Weigh;
use crate::topology::locator::{Kind, KindRef, Locator, SERVICE, Section};

/// What kind of backend a reference names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    /// A Service.
    Service,
    /// Any other.
    Other(Arc<Kind>),
}

impl Backend {
    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> KindRef<'_> {
        match self {
            Self::Service => SERVICE,
            Self::Other(kind) => (**kind).as_ref(),
        }
    }
}

/// A reference to a backend.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BackendReference {
    /// Of what kind it is.
    pub backend: Backend,
    /// Its namespace, the route's own where none is given.
    pub namespace: Option<Arc<str>>,
    /// Its name.
    pub name: Arc<str>,
    /// Its port.
    pub port: Option<u16>,
}

impl Weigh for [BackendReference] {
    fn bytes(&self) -> usize {
        let texts = self.iter().map(|reference| {
            let given: usize = [&reference.namespace].into_iter().flatten().map(|text| text.len()).sum();
            reference.name.len() + given
        });
        size_of_val(self) + texts.sum::<usize>()
    }
}

impl BackendReference {
    /// What it means, in an object of the namespace `own`. Only Services have ports of their own.
    #[must_use]
    pub fn locator<'l>(&'l self, own: &'l str) -> Locator<'l> {
        let (kind, namespace) = (self.backend.kind(), self.namespace.as_deref().unwrap_or(own));
        let section = self.port.filter(|_| kind == SERVICE).map(Section::Port);
        Locator { kind, namespace, name: &self.name, section }
    }
}

#[derive(Deserialize)]
pub(super) struct Written {
    group: Option<Group>,
    kind: Option<KindName>,
    namespace: Option<wire::Namespace>,
    name: Name,
    port: Option<Port>,
}

impl From<Written> for BackendReference {
    fn from(written: Written) -> Self {
        let kind = wire::kind(written.group, written.kind, SERVICE);
        Self {
            backend: if kind.as_ref() == SERVICE { Backend::Service } else { Backend::Other(kind.into()) },
            namespace: written.namespace.map(|namespace| namespace.0),
            name: written.name.0,
            port: written.port.map(|port| port.0),
        }
    }
}
