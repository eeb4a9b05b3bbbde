//! Sources: the list and watch requests that rows come from.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::row::{AnyRow, Pruner, Row};
use crate::table::{AnyTable, Table};
use policy_sync_api::names::{ControllerName, GroupResource, GroupVersionResource, ObjectKey};
use policy_sync_api::object::HubObject;

/// The declaration of a kind of rows, independent of the row's type.
pub struct KindDeclaration {
    pub(crate) name: &'static str,
    /// The resource of a [`Kind`](crate::Kind); `None` for a [`Family`](crate::Family).
    pub(crate) resource: Option<StaticResource>,
    pub(crate) projection: Projection,
    pub(crate) fields: Option<&'static str>,
    pub(crate) labels: Option<fn(&ControllerName) -> String>,
    prune: Option<fn(&HubObject, &ControllerName) -> AnyRow>,
    table: fn() -> Box<dyn AnyTable>,
}

#[derive(Clone, Copy)]
pub(crate) struct StaticResource {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) plural: &'static str,
}

impl StaticResource {
    pub(crate) fn gvr(self) -> GroupVersionResource {
        GroupVersionResource::new(self.group, self.version, self.plural)
    }
}

impl KindDeclaration {
    pub(crate) const fn new<R: Row>(name: &'static str) -> Self {
        let table: fn() -> Box<dyn AnyTable> = || Box::new(Table::<R>::default());
        Self {
            name,
            resource: None,
            projection: Projection::Full,
            fields: None,
            labels: None,
            prune: None,
            table,
        }
    }

    pub(crate) const fn pruned<P: Pruner>(name: &'static str) -> Self {
        let mut declaration = Self::new::<P::Row>(name);
        declaration.prune = Some(|object, controller| AnyRow::new(P::prune(object, controller)));
        declaration
    }
}

impl fmt::Debug for KindDeclaration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Which parts of an object are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Projection {
    /// The metadata only.
    Metadata,
    /// The metadata and the fields of [`HubObject`].
    Full,
    /// Like [`Self::Full`], with the object's JSON text.
    FullWithText,
}

/// A kind in a capability's registry: [`Kind`](crate::Kind) or [`Family`](crate::Family). Kinds are compared by
/// address, so each must be a `static`.
pub trait DeclaredKind: Sync {
    /// The rows of this kind.
    type Row: Row;

    /// The declaration of the kind.
    fn declaration(&self) -> &KindDeclaration;
}

/// A restriction of a source to some objects of its resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// All objects.
    #[default]
    All,
    /// The objects in one namespace.
    Namespace(Arc<str>),
    /// The objects with one name, in all namespaces.
    Named(Arc<str>),
    /// One object.
    Object(ObjectKey),
}

impl Scope {
    /// Restricts by namespace and name; `None` means any.
    #[must_use]
    pub fn new(namespace: Option<&str>, name: Option<&str>) -> Self {
        match (namespace, name) {
            (None, None) => Self::All,
            (Some(namespace), None) => Self::Namespace(namespace.into()),
            (None, Some(name)) => Self::Named(name.into()),
            (Some(namespace), Some(name)) => Self::Object(ObjectKey::new(namespace, name)),
        }
    }

    /// Whether the scope includes the object `key`.
    #[must_use]
    pub fn has(&self, key: &ObjectKey) -> bool {
        match self {
            Self::All => true,
            Self::Namespace(namespace) => key.namespace == *namespace,
            Self::Named(name) => key.name == *name,
            Self::Object(object) => key == object,
        }
    }
}

/// The sources to watch, each with the resource and version to read.
pub type WatchedSources = BTreeMap<Source, GroupVersionResource>;

/// The source of rows: one list and watch.
#[derive(Clone)]
pub struct Source {
    pub(crate) declaration: &'static KindDeclaration,
    /// The resource, if the kind is a [`Family`](crate::Family).
    pub(crate) resource: Option<GroupResource>,
    pub(crate) scope: Scope,
}

impl Source {
    /// Whether the source belongs to `kind`.
    #[must_use]
    pub fn is(&self, kind: &impl DeclaredKind) -> bool {
        self.is_of(kind.declaration())
    }

    /// Whether the source belongs to the kind that `declaration` declares.
    #[must_use]
    pub fn is_of(&self, declaration: &KindDeclaration) -> bool {
        std::ptr::eq(self.declaration, declaration)
    }

    /// The name of the kind: for a [`Kind`](crate::Kind) the plural.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.declaration.name
    }

    /// The resource, if the kind is a [`Family`](crate::Family).
    #[must_use]
    pub fn resource(&self) -> Option<&GroupResource> {
        self.resource.as_ref()
    }

    /// The label value for metrics: the resource, without the scope.
    #[must_use]
    pub fn label(&self) -> String {
        self.resource.as_ref().map_or_else(|| self.declaration.name.to_owned(), ToString::to_string)
    }

    /// Restricts the source to `scope`.
    #[must_use]
    pub fn within(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// The object, if the scope is one object.
    #[must_use]
    pub fn object(&self) -> Option<&ObjectKey> {
        match &self.scope {
            Scope::Object(key) => Some(key),
            Scope::All | Scope::Namespace(_) | Scope::Named(_) => None,
        }
    }

    /// Which parts of the objects are read.
    #[must_use]
    pub fn projection(&self) -> Projection {
        self.declaration.projection
    }

    /// The resource and version to read; `None` for a [`Family`](crate::Family), where the version must be resolved
    /// first.
    #[must_use]
    pub fn gvr(&self) -> Option<GroupVersionResource> {
        self.declaration.resource.map(StaticResource::gvr)
    }

    /// Prunes `object` to a row; `None` for rows that tasks compute.
    #[must_use]
    pub fn prune(&self, object: &HubObject, controller: &ControllerName) -> Option<AnyRow> {
        self.declaration.prune.map(|prune| prune(object, controller))
    }

    /// The label selector of the requests.
    #[must_use]
    pub fn labels(&self, controller: &ControllerName) -> Option<String> {
        self.declaration.labels.map(|selector| selector(controller))
    }

    /// The field selector of the requests.
    #[must_use]
    pub fn fields(&self) -> Option<String> {
        let name = match &self.scope {
            Scope::Object(ObjectKey { name, .. }) | Scope::Named(name) => {
                Some(format!("metadata.name={name}"))
            }
            Scope::All | Scope::Namespace(_) => None,
        };
        let selectors: Vec<String> =
            self.declaration.fields.map(str::to_owned).into_iter().chain(name).collect();
        (!selectors.is_empty()).then(|| selectors.join(","))
    }

    /// The namespace of the requests; empty for all namespaces.
    #[must_use]
    pub fn namespace(&self) -> &str {
        match &self.scope {
            Scope::Object(ObjectKey { namespace, .. }) | Scope::Namespace(namespace) => namespace,
            Scope::All | Scope::Named(_) => "",
        }
    }

    pub(crate) fn new_table(&self) -> Box<dyn AnyTable> {
        (self.declaration.table)()
    }

    /// Kinds with equal names are distinct, so the address of the declaration is compared.
    fn identity(&self) -> (usize, &Option<GroupResource>, &Scope) {
        (std::ptr::from_ref(self.declaration).addr(), &self.resource, &self.scope)
    }
}

impl From<&'static KindDeclaration> for Source {
    fn from(declaration: &'static KindDeclaration) -> Self {
        Self { declaration, resource: None, scope: Scope::All }
    }
}

impl PartialEq for Source {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Source {}

impl Hash for Source {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

impl PartialOrd for Source {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Source {
    fn cmp(&self, other: &Self) -> Ordering {
        // Sources are ordered by name first, so that output has a meaningful order.
        self.declaration.name.cmp(other.declaration.name).then_with(|| {
            let part = (&self.resource, &self.scope).cmp(&(&other.resource, &other.scope));
            part.then_with(|| self.identity().cmp(&other.identity()))
        })
    }
}

/// Formats the source for messages: `gateways`, `configmaps shop/params`, `ratelimitpolicies.kuadrant.io`.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.resource {
            Some(resource) => resource.fmt(f)?,
            None => f.write_str(self.declaration.name)?,
        }
        match &self.scope {
            Scope::All => Ok(()),
            Scope::Namespace(namespace) => write!(f, " in {namespace}"),
            Scope::Named(name) => write!(f, " named {name}"),
            Scope::Object(key) => write!(f, " {key}"),
        }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests;
