//! Kinds of rows: the lines of a capability's registry.

use std::marker::PhantomData;

use crate::row::{Pruned, Prunes, Row};
use crate::source::{Extent, Line, Registered, Resource, Scope, Source};
use policy_sync_api::names::{ControllerName, GroupResource, GroupVersionResource, ObjectKey};

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
    pub const fn new(group: &'static str, version: &'static str, plural: &'static str) -> Self {
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

    /// Their whole text is read.
    #[must_use]
    pub const fn with_text(mut self) -> Self {
        self.line.extent = Extent::Text;
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
        Source { line: &self.line, resource: None, scope: Scope::All }
    }

    /// The object `key` alone.
    #[must_use]
    pub const fn object(&'static self, key: ObjectKey) -> Source {
        Source { line: &self.line, resource: None, scope: Scope::Object(key) }
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
    /// The objects of each. `name` is a word of its own.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { line: Line::pruned::<R>(name), rows: PhantomData }
    }

    /// Their whole text is read.
    #[must_use]
    pub const fn with_text(mut self) -> Self {
        self.line.extent = Extent::Text;
        self
    }
}

impl<R: Row> Family<R> {
    /// The objects of each, of which `P` makes the rows. `name` is a word of its own.
    #[must_use]
    pub const fn pruned_by<P: Prunes<Row = R>>(name: &'static str) -> Self {
        Self { line: Line::pruned::<P>(name), rows: PhantomData }
    }

    /// Only their metadata is read.
    #[must_use]
    pub const fn of_metadata(mut self) -> Self {
        self.line.extent = Extent::Metadata;
        self
    }

    /// What some task finds out by itself: nothing is watched for it. `name` is a word of its own.
    #[must_use]
    pub const fn found_out(name: &'static str) -> Self {
        Self { line: Line::new::<R>(name), rows: PhantomData }
    }

    /// Rows that are of no resource.
    #[must_use]
    pub const fn all(&'static self) -> Source {
        Source { line: &self.line, resource: None, scope: Scope::All }
    }

    /// The rows of one resource.
    #[must_use]
    pub const fn resource(&'static self, resource: GroupResource) -> Source {
        Source { line: &self.line, resource: Some(resource), scope: Scope::All }
    }

    /// The resource of `source`, where that is one of these.
    #[must_use]
    pub fn resource_of<'s>(&self, source: &'s Source) -> Option<&'s GroupResource> {
        source.resource.as_ref().filter(|_| source.is(self))
    }
}
