//! The parents of routes and ListenerSets, and references to them.

use std::sync::Arc;

use serde::Deserialize;

use super::Listener;
use super::wire::{self, GroupName, KindName, Name, Port};
use crate::locator::{GATEWAY, Kind, KindRef, LISTENER_SET, Locator, Section, X_LISTENER_SET};
use policy_sync_api::interned::MemorySize;

/// The kinds of ListenerSets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SetKind {
    /// ListenerSet.
    Standard,
    /// XListenerSet.
    Experimental,
}

impl SetKind {
    /// All kinds of ListenerSets.
    pub const ALL: [Self; 2] = [Self::Standard, Self::Experimental];

    /// The group and the `kind` in objects.
    #[must_use]
    pub const fn kind(self) -> KindRef<'static> {
        match self {
            Self::Standard => LISTENER_SET,
            Self::Experimental => X_LISTENER_SET,
        }
    }

    /// Returns the variant for `kind`; `None` if `kind` is not a kind of ListenerSets.
    #[must_use]
    pub fn named(kind: KindRef<'_>) -> Option<Self> {
        Self::ALL.into_iter().find(|set| set.kind() == kind)
    }
}

/// The kind of parent that a reference names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Parent {
    /// A Gateway.
    Gateway,
    /// A ListenerSet.
    ListenerSet(SetKind),
    /// Any other kind. Other controllers handle references to parents of this kind.
    Other(Arc<Kind>),
}

impl Parent {
    /// The kind that the reference names.
    #[must_use]
    pub fn kind(&self) -> KindRef<'_> {
        match self {
            Self::Gateway => GATEWAY,
            Self::ListenerSet(kind) => kind.kind(),
            Self::Other(kind) => (**kind).as_ref(),
        }
    }
}

/// A reference to a parent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "Written")]
pub struct ParentReference {
    /// The kind of the parent.
    pub parent: Parent,
    /// The parent's namespace; `None` for the namespace of the referring object.
    pub namespace: Option<Arc<str>>,
    /// The parent's name.
    pub name: Arc<str>,
    /// The name of one listener of the parent; `None` for all listeners.
    pub section: Option<Arc<str>>,
    /// The port, if the reference selects listeners by port.
    pub port: Option<u16>,
}

impl MemorySize for ParentReference {
    fn bytes(&self) -> usize {
        let optional = [&self.namespace, &self.section].into_iter().flatten();
        size_of_val(self) + self.name.len() + optional.map(|text| text.len()).sum::<usize>()
    }
}

impl ParentReference {
    /// The locator of the parent, for a reference in the namespace `own`.
    #[must_use]
    pub fn locator<'l>(&'l self, own: &'l str) -> Locator<'l> {
        let namespace = self.namespace.as_deref().unwrap_or(own);
        let section = self.section.as_deref().map(Section::Named);
        Locator { kind: self.parent.kind(), namespace, name: &self.name, section }
    }

    /// Whether the reference selects `listener` of its parent.
    #[must_use]
    pub fn selects(&self, listener: &Listener) -> bool {
        self.section.as_ref().is_none_or(|name| *name == listener.name)
            && self.port.is_none_or(|port| port == listener.port)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Written {
    group: Option<GroupName>,
    kind: Option<KindName>,
    namespace: Option<wire::Namespace>,
    name: Name,
    section_name: Option<Name>,
    port: Option<Port>,
}

impl From<Written> for ParentReference {
    fn from(written: Written) -> Self {
        let kind = wire::kind(written.group, written.kind, GATEWAY);
        let parent = match (kind.as_ref(), SetKind::named(kind.as_ref())) {
            (GATEWAY, _) => Parent::Gateway,
            (_, Some(set)) => Parent::ListenerSet(set),
            _ => Parent::Other(kind.into()),
        };
        Self {
            parent,
            namespace: written.namespace.map(|namespace| namespace.0),
            name: written.name.0,
            section: written.section_name.map(|name| name.0),
            port: written.port.map(|port| port.0),
        }
    }
}
