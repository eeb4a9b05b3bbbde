//! Where rows come from, and what is said of that.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::row::{AnyRow, Prunes, Row};
use crate::table::{AnyTable, Table};
use policy_sync_api::names::{ControllerName, GroupResource, GroupVersionResource, ObjectKey};
use policy_sync_api::object::HubObject;

/// What is said of a kind, whatever its rows are.
pub struct Line {
    pub(crate) name: &'static str,
    /// Group, version and plural name, where these are always the same.
    pub(crate) resource: Option<Resource>,
    pub(crate) extent: Extent,
    pub(crate) fields: Option<&'static str>,
    pub(crate) labels: Option<fn(&ControllerName) -> String>,
    prune: Option<fn(&HubObject, &ControllerName) -> AnyRow>,
    table: fn() -> Box<dyn AnyTable>,
}

#[derive(Clone, Copy)]
pub(crate) struct Resource {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) plural: &'static str,
}

impl Resource {
    pub(crate) fn gvr(self) -> GroupVersionResource {
        GroupVersionResource::new(self.group, self.version, self.plural)
    }
}

impl Line {
    pub(crate) const fn new<R: Row>(name: &'static str) -> Self {
        let table: fn() -> Box<dyn AnyTable> = || Box::new(Table::<R>::default());
        Self { name, resource: None, extent: Extent::Whole, fields: None, labels: None, prune: None, table }
    }

    pub(crate) const fn pruned<P: Prunes>(name: &'static str) -> Self {
        let mut line = Self::new::<P::Row>(name);
        line.prune = Some(|object, controller| AnyRow::new(P::prune(object, controller)));
        line
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// How much of an object is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Its metadata.
    Metadata,
    /// What decisions read of it.
    Whole,
    /// The same, and its text.
    Text,
}

/// A line of a capability's registry: what is watched, and what is kept of each object. It is told from others by where it
/// stands, so it has to be a `static`.
pub trait Registered: Sync {
    /// What is kept.
    type Row: Row;

    /// What is said of it.
    fn line(&self) -> &Line;
}

/// Which objects of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// All.
    #[default]
    All,
    /// Those in a namespace.
    Namespace(Arc<str>),
    /// Those of a name, in all namespaces.
    Named(Arc<str>),
    /// One.
    Object(ObjectKey),
}

impl Scope {
    /// The objects in this namespace, or in all, and of this name, or of any.
    #[must_use]
    pub fn new(namespace: Option<&str>, name: Option<&str>) -> Self {
        match (namespace, name) {
            (None, None) => Self::All,
            (Some(namespace), None) => Self::Namespace(namespace.into()),
            (None, Some(name)) => Self::Named(name.into()),
            (Some(namespace), Some(name)) => Self::Object(ObjectKey::new(namespace, name)),
        }
    }

    /// Whether the object `key` is one of them.
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

/// The sources to watch, each with its resource in the version in which it is read.
pub type Wanted = BTreeMap<Source, GroupVersionResource>;

/// Where rows come from: one list and watch each.
#[derive(Clone)]
pub struct Source {
    pub(crate) line: &'static Line,
    /// One of the resources of its line, where that has many.
    pub(crate) resource: Option<GroupResource>,
    pub(crate) scope: Scope,
}

impl Source {
    /// Whether its objects are of `kind`.
    #[must_use]
    pub fn is(&self, kind: &impl Registered) -> bool {
        self.is_of(kind.line())
    }

    /// Whether its objects are those of `line`.
    #[must_use]
    pub fn is_of(&self, line: &Line) -> bool {
        std::ptr::eq(self.line, line)
    }

    /// The name of its line: for objects of one resource, the plural.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.line.name
    }

    /// The resource of its objects, where its line has many.
    #[must_use]
    pub fn resource(&self) -> Option<&GroupResource> {
        self.resource.as_ref()
    }

    /// What metrics call what it has: its resource, whichever of its objects these are.
    #[must_use]
    pub fn label(&self) -> String {
        self.resource.as_ref().map_or_else(|| self.line.name.to_owned(), ToString::to_string)
    }

    /// Only those of its objects that are in `scope`.
    #[must_use]
    pub fn within(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// The object, where it is one alone.
    #[must_use]
    pub fn object(&self) -> Option<&ObjectKey> {
        match &self.scope {
            Scope::Object(key) => Some(key),
            Scope::All | Scope::Namespace(_) | Scope::Named(_) => None,
        }
    }

    /// How much of its objects is read.
    #[must_use]
    pub fn extent(&self) -> Extent {
        self.line.extent
    }

    /// Its resource. Of one of a family it is none: the version is to be chosen.
    #[must_use]
    pub fn gvr(&self) -> Option<GroupVersionResource> {
        self.line.resource.map(Resource::gvr)
    }

    /// What is kept of `object`, which came from it. Of what is only found out, no object comes.
    #[must_use]
    pub fn prune(&self, object: &HubObject, controller: &ControllerName) -> Option<AnyRow> {
        self.line.prune.map(|prune| prune(object, controller))
    }

    /// The label selector of what is listed and watched for `controller`.
    #[must_use]
    pub fn labels(&self, controller: &ControllerName) -> Option<String> {
        self.line.labels.map(|selector| selector(controller))
    }

    /// The field selector of what is listed and watched.
    #[must_use]
    pub fn fields(&self) -> Option<String> {
        let name = match &self.scope {
            Scope::Object(ObjectKey { name, .. }) | Scope::Named(name) => {
                Some(format!("metadata.name={name}"))
            }
            Scope::All | Scope::Namespace(_) => None,
        };
        let selectors: Vec<String> = self.line.fields.map(str::to_owned).into_iter().chain(name).collect();
        (!selectors.is_empty()).then(|| selectors.join(","))
    }

    /// The namespace of what is listed and watched, empty for all.
    #[must_use]
    pub fn namespace(&self) -> &str {
        match &self.scope {
            Scope::Object(ObjectKey { namespace, .. }) | Scope::Namespace(namespace) => namespace,
            Scope::All | Scope::Named(_) => "",
        }
    }

    pub(crate) fn new_table(&self) -> Box<dyn AnyTable> {
        (self.line.table)()
    }

    /// Two lines of one name are two.
    fn identity(&self) -> (usize, &Option<GroupResource>, &Scope) {
        (std::ptr::from_ref(self.line).addr(), &self.resource, &self.scope)
    }
}

impl From<&'static Line> for Source {
    fn from(line: &'static Line) -> Self {
        Self { line, resource: None, scope: Scope::All }
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
        // By name first, for an order that people understand.
        self.line.name.cmp(other.line.name).then_with(|| {
            let part = (&self.resource, &self.scope).cmp(&(&other.resource, &other.scope));
            part.then_with(|| self.identity().cmp(&other.identity()))
        })
    }
}

/// As people read it: `gateways`, `configmaps shop/params`, `ratelimitpolicies.kuadrant.io`.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.resource {
            Some(resource) => resource.fmt(f)?,
            None => f.write_str(self.line.name)?,
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
