//! Kinds of rows: one line says what is watched, and what is kept of each object.

use std::any::Any;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash as HashKey, Hasher};
use std::marker::PhantomData;

use futures::future::BoxFuture;
use kube::Client;

use super::mirror::{AnyTable, Change, Table};
use super::watch::{Definitions, Feed, Followed};
use crate::api::json::Hash;
use crate::api::names::{ControllerName, GroupResource, GroupVersionResource, ObjectKey};
use crate::api::object::HubObject;

/// What is kept of something. Two are equal where nothing that is decided from them differs.
pub trait Row: Clone + fmt::Debug + PartialEq + Send + Sync + 'static {
    /// The hash of what deletes are decided from; none where they are not decided from such rows.
    fn decides(&self) -> Option<Hash> {
        None
    }
}

/// What is kept of an object of the hub.
pub trait Pruned: Row {
    /// What is kept of `object` for `controller`. One of its metadata alone may give the same [`Row::decides`].
    fn prune(object: &HubObject, controller: &ControllerName) -> Self;
}

/// A row of any kind.
#[derive(Debug)]
pub struct AnyRow(Box<dyn Erased>);

trait Erased: Any + fmt::Debug + Send + Sync {
    fn clone_box(&self) -> Box<dyn Erased>;
    fn hash_decides(&self) -> Option<Hash>;
}

impl<R: Row> Erased for R {
    fn clone_box(&self) -> Box<dyn Erased> {
        Box::new(self.clone())
    }

    fn hash_decides(&self) -> Option<Hash> {
        self.decides()
    }
}

impl Clone for AnyRow {
    fn clone(&self) -> Self {
        Self(self.0.clone_box())
    }
}

impl AnyRow {
    /// A row.
    #[must_use]
    pub fn new<R: Row>(row: R) -> Self {
        Self(Box::new(row))
    }

    pub(super) fn boxed<R: Row>(row: Box<R>) -> Self {
        Self(row)
    }

    /// The row, where it is an `R`.
    #[must_use]
    pub fn get<R: Row>(&self) -> Option<&R> {
        let row: &dyn Any = &*self.0;
        row.downcast_ref()
    }

    /// The same, to be changed.
    #[must_use]
    pub fn get_mut<R: Row>(&mut self) -> Option<&mut R> {
        let row: &mut dyn Any = &mut *self.0;
        row.downcast_mut()
    }

    pub(super) fn into_box<R: Row>(self) -> Option<Box<R>> {
        let row: Box<dyn Any> = self.0;
        row.downcast().ok()
    }

    /// The hash of what deletes are decided from.
    #[must_use]
    pub fn decides(&self) -> Option<Hash> {
        self.0.hash_decides()
    }
}

/// How the objects of a source are followed.
pub(super) type Follow = fn(Followed, Client, Feed, Definitions) -> BoxFuture<'static, ()>;

/// What is said of a kind, whatever its rows are.
pub struct Line {
    name: &'static str,
    /// Group, version and plural name, where these are always the same.
    resource: Option<Resource>,
    fields: Option<&'static str>,
    labels: Option<fn(&ControllerName) -> String>,
    prune: Option<fn(&HubObject, &ControllerName) -> AnyRow>,
    table: fn() -> Box<dyn AnyTable>,
    follow: Option<Follow>,
}

#[derive(Clone, Copy)]
struct Resource {
    group: &'static str,
    version: &'static str,
    plural: &'static str,
}

impl Resource {
    fn gvr(self) -> GroupVersionResource {
        GroupVersionResource::new(self.group, self.version, self.plural)
    }
}

impl Line {
    const fn new<R: Row>(name: &'static str) -> Self {
        let table: fn() -> Box<dyn AnyTable> = || Box::new(Table::<R>::default());
        Self { name, resource: None, fields: None, labels: None, prune: None, table, follow: None }
    }

    const fn pruned<R: Pruned>(name: &'static str) -> Self {
        let mut line = Self::new::<R>(name);
        line.prune = Some(|object, controller| AnyRow::new(R::prune(object, controller)));
        line
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A line of a capability's registry: what is watched, and what is kept of each object.
pub trait Registered: Sync {
    /// What is kept.
    type Row: Row;

    /// What is said of it.
    fn line(&self) -> &Line;
}

/// Objects of one resource.
pub struct Kind<R> {
    line: Line,
    resource: Resource,
    rows: PhantomData<fn() -> R>,
}

impl<R: Row> Registered for Kind<R> {
    type Row = R;

    fn line(&self) -> &Line {
        &self.line
    }
}

impl<R: Pruned> Kind<R> {
    /// Those of `group`, `version` and plural name.
    #[must_use]
    pub const fn of(group: &'static str, version: &'static str, plural: &'static str) -> Self {
        let (mut line, resource) = (Line::pruned::<R>(plural), Resource { group, version, plural });
        line.resource = Some(resource);
        Self { line, resource, rows: PhantomData }
    }

    /// Only those that this field selector selects.
    #[must_use]
    pub const fn with_fields(mut self, selector: &'static str) -> Self {
        self.line.fields = Some(selector);
        self
    }

    /// Only those that this label selector selects.
    #[must_use]
    pub const fn with_labels(mut self, selector: fn(&ControllerName) -> String) -> Self {
        self.line.labels = Some(selector);
        self
    }

    /// What is said of it.
    #[must_use]
    pub const fn line(&'static self) -> &'static Line {
        &self.line
    }

    /// All of them.
    #[must_use]
    pub const fn all(&'static self) -> Source {
        Source { line: &self.line, part: Part::All }
    }

    /// The object `key` alone.
    #[must_use]
    pub const fn object(&'static self, key: ObjectKey) -> Source {
        Source { line: &self.line, part: Part::Object(key) }
    }

    /// The resource.
    #[must_use]
    pub fn gvr(&self) -> GroupVersionResource {
        self.resource.gvr()
    }
}

/// Rows for each of many resources, which are known only while the process runs.
pub struct Family<R> {
    line: Line,
    rows: PhantomData<fn() -> R>,
}

impl<R: Row> Registered for Family<R> {
    type Row = R;

    fn line(&self) -> &Line {
        &self.line
    }
}

impl<R: Pruned> Family<R> {
    /// The objects of each, followed so. `name` is a word of its own.
    #[must_use]
    pub const fn followed_by(name: &'static str, follow: Follow) -> Self {
        let mut line = Line::pruned::<R>(name);
        line.follow = Some(follow);
        Self { line, rows: PhantomData }
    }
}

impl<R: Row> Family<R> {
    /// What some task finds out by itself: nothing is watched for it. `name` is a word of its own.
    #[must_use]
    pub const fn found_out(name: &'static str) -> Self {
        Self { line: Line::new::<R>(name), rows: PhantomData }
    }

    /// Rows that are of no resource.
    #[must_use]
    pub const fn all(&'static self) -> Source {
        Source { line: &self.line, part: Part::All }
    }

    /// The rows of one resource.
    #[must_use]
    pub const fn resource(&'static self, resource: GroupResource) -> Source {
        Source { line: &self.line, part: Part::Resource(resource) }
    }

    /// The resource of `source`, where that is one of these.
    #[must_use]
    pub fn resource_of<'s>(&self, source: &'s Source) -> Option<&'s GroupResource> {
        match &source.part {
            Part::Resource(resource) if source.is(self) => Some(resource),
            _ => None,
        }
    }
}

/// Which objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// All.
    All,
    /// One.
    Object(ObjectKey),
    /// Those of one of its resources.
    Resource(GroupResource),
}

/// Where rows come from: one list and watch each.
#[derive(Clone)]
pub struct Source {
    line: &'static Line,
    part: Part,
}

impl Source {
    /// Whether its objects are of `kind`.
    #[must_use]
    pub fn is(&self, kind: &impl Registered) -> bool {
        self.line.name == kind.line().name
    }

    /// The name of its line: for objects of one resource, the plural.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.line.name
    }

    /// Which objects of its kind.
    #[must_use]
    pub fn part(&self) -> &Part {
        &self.part
    }

    /// The object, where it is one alone.
    #[must_use]
    pub fn object(&self) -> Option<&ObjectKey> {
        match &self.part {
            Part::Object(key) => Some(key),
            _ => None,
        }
    }

    /// Its resource. Of one of a family it is none: the version is to be chosen.
    #[must_use]
    pub fn gvr(&self) -> Option<GroupVersionResource> {
        self.line.resource.map(Resource::gvr)
    }

    /// The change that a row was found out.
    #[must_use]
    pub fn found<R: Row>(self, key: ObjectKey, row: R) -> Change {
        Change::Applied { source: self, key, version: 0, row: AnyRow::new(row) }
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
        let object = self.object().map(|key| format!("metadata.name={}", key.name));
        object.or_else(|| self.line.fields.map(str::to_owned))
    }

    /// The namespace of what is listed and watched, empty for all.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.object().map_or("", |key| &key.namespace)
    }

    pub(super) fn new_table(&self) -> Box<dyn AnyTable> {
        (self.line.table)()
    }

    pub(super) fn follow(&self) -> Option<Follow> {
        self.line.follow
    }

    fn identity(&self) -> (&'static str, &Part) {
        (self.line.name, &self.part)
    }
}

impl From<&'static Line> for Source {
    fn from(line: &'static Line) -> Self {
        Self { line, part: Part::All }
    }
}

impl PartialEq for Source {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Source {}

impl HashKey for Source {
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
        self.identity().cmp(&other.identity())
    }
}

/// As people read it: `gateways`, `configmaps shop/params`, `ratelimitpolicies.kuadrant.io`.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.part {
            Part::All => f.write_str(self.line.name),
            Part::Object(key) => write!(f, "{} {key}", self.line.name),
            Part::Resource(resource) => resource.fmt(f),
        }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
