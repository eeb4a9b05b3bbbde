//! Declares kinds of rows, for a capability's registry.

use std::marker::PhantomData;

use crate::row::{Pruned, Prunes, Row};
use crate::source::{Extent, Line, Registered, Resource, Scope, Source};
use policy_sync_api::names::{ControllerName, GroupResource, GroupVersionResource, ObjectKey};

/// A kind of rows for the objects of one resource.
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
    /// The objects of the resource with this group, version and plural.
    #[must_use]
    pub const fn new(group: &'static str, version: &'static str, plural: &'static str) -> Self {
        let (mut line, resource) = (Line::pruned::<R>(plural), Resource { group, version, plural });
        line.resource = Some(resource);
        Self { line, resource, rows: PhantomData }
    }

    /// Restricts the objects by a field selector.
    #[must_use]
    pub const fn with_fields(mut self, selector: &'static str) -> Self {
        self.line.fields = Some(selector);
        self
    }

    /// Restricts the objects by a label selector.
    #[must_use]
    pub const fn with_labels(mut self, selector: fn(&ControllerName) -> String) -> Self {
        self.line.labels = Some(selector);
        self
    }

    /// Keeps the objects' JSON text for pruning.
    #[must_use]
    pub const fn with_text(mut self) -> Self {
        self.line.extent = Extent::Text;
        self
    }

    /// The declaration, independent of the row's type.
    #[must_use]
    pub const fn line(&'static self) -> &'static Line {
        &self.line
    }

    /// The source of all objects.
    #[must_use]
    pub const fn all(&'static self) -> Source {
        Source { line: &self.line, resource: None, scope: Scope::All }
    }

    /// The source of one object.
    #[must_use]
    pub const fn object(&'static self, key: ObjectKey) -> Source {
        Source { line: &self.line, resource: None, scope: Scope::Object(key) }
    }

    /// The resource, in the version to read.
    #[must_use]
    pub fn gvr(&self) -> GroupVersionResource {
        self.resource.gvr()
    }
}

/// A kind of rows for several resources, which are known only at run time.
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
    /// Objects of each resource. `name` identifies the family and must be unique.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { line: Line::pruned::<R>(name), rows: PhantomData }
    }

    /// Keeps the objects' JSON text for pruning.
    #[must_use]
    pub const fn with_text(mut self) -> Self {
        self.line.extent = Extent::Text;
        self
    }
}

impl<R: Row> Family<R> {
    /// Objects of each resource, pruned by `P`. `name` identifies the family and must be unique.
    #[must_use]
    pub const fn pruned_by<P: Prunes<Row = R>>(name: &'static str) -> Self {
        Self { line: Line::pruned::<P>(name), rows: PhantomData }
    }

    /// Reads only the objects' metadata.
    #[must_use]
    pub const fn of_metadata(mut self) -> Self {
        self.line.extent = Extent::Metadata;
        self
    }

    /// Rows that a task computes, without a watch. `name` identifies the family and must be unique.
    #[must_use]
    pub const fn found_out(name: &'static str) -> Self {
        Self { line: Line::new::<R>(name), rows: PhantomData }
    }

    /// The source of rows that belong to no resource.
    #[must_use]
    pub const fn all(&'static self) -> Source {
        Source { line: &self.line, resource: None, scope: Scope::All }
    }

    /// The source of the rows of one resource.
    #[must_use]
    pub const fn resource(&'static self, resource: GroupResource) -> Source {
        Source { line: &self.line, resource: Some(resource), scope: Scope::All }
    }

    /// The resource of `source`, if it belongs to this family.
    #[must_use]
    pub fn resource_of<'s>(&self, source: &'s Source) -> Option<&'s GroupResource> {
        source.resource.as_ref().filter(|_| source.is(self))
    }
}
