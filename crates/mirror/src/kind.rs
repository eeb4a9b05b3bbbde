//! Declares kinds of rows and required APIs, for a capability's registry.

use std::marker::PhantomData;

use crate::row::{ObjectRow, Pruner, Row};
use crate::source::{DeclaredKind, KindDeclaration, Projection, Scope, Source, StaticResource};
use policy_sync_api::names::{ControllerName, GroupResource, GroupVersionResource, ObjectKey};

/// A kind of rows for the objects of one resource.
pub struct Kind<R> {
    declaration: KindDeclaration,
    resource: StaticResource,
    rows: PhantomData<fn() -> R>,
}

impl<R: Row> DeclaredKind for Kind<R> {
    type Row = R;

    fn declaration(&self) -> &KindDeclaration {
        &self.declaration
    }
}

impl<R: ObjectRow> Kind<R> {
    /// A kind for the objects of the resource with this group, version and plural.
    #[must_use]
    pub const fn new(group: &'static str, version: &'static str, plural: &'static str) -> Self {
        let (mut declaration, resource) =
            (KindDeclaration::pruned::<R>(plural), StaticResource { group, version, plural });
        declaration.resource = Some(resource);
        Self { declaration, resource, rows: PhantomData }
    }

    /// Restricts the objects by a field selector.
    #[must_use]
    pub const fn with_fields(mut self, selector: &'static str) -> Self {
        self.declaration.fields = Some(selector);
        self
    }

    /// Restricts the objects by a label selector.
    #[must_use]
    pub const fn with_labels(mut self, selector: fn(&ControllerName) -> String) -> Self {
        self.declaration.labels = Some(selector);
        self
    }

    /// Keeps the objects' JSON text for pruning.
    #[must_use]
    pub const fn with_text(mut self) -> Self {
        self.declaration.projection = Projection::FullWithText;
        self
    }

    /// The declaration, independent of the row's type.
    #[must_use]
    pub const fn declaration(&'static self) -> &'static KindDeclaration {
        &self.declaration
    }

    /// The source of all objects.
    #[must_use]
    pub const fn all(&'static self) -> Source {
        Source { declaration: &self.declaration, resource: None, scope: Scope::All }
    }

    /// The source of one object.
    #[must_use]
    pub const fn object(&'static self, key: ObjectKey) -> Source {
        Source { declaration: &self.declaration, resource: None, scope: Scope::Object(key) }
    }

    /// The resource, in the version to read.
    #[must_use]
    pub fn gvr(&self) -> GroupVersionResource {
        self.resource.gvr()
    }
}

/// A kind of rows for several resources, which are known only at run time.
pub struct Family<R> {
    declaration: KindDeclaration,
    rows: PhantomData<fn() -> R>,
}

impl<R: Row> DeclaredKind for Family<R> {
    type Row = R;

    fn declaration(&self) -> &KindDeclaration {
        &self.declaration
    }
}

impl<R: ObjectRow> Family<R> {
    /// A family of rows for the objects of several resources. `name` identifies the family and must be unique.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { declaration: KindDeclaration::pruned::<R>(name), rows: PhantomData }
    }

    /// Keeps the objects' JSON text for pruning.
    #[must_use]
    pub const fn with_text(mut self) -> Self {
        self.declaration.projection = Projection::FullWithText;
        self
    }
}

impl<R: Row> Family<R> {
    /// A family of rows for the objects of several resources, pruned by `P`. `name` identifies the family and must be
    /// unique.
    #[must_use]
    pub const fn pruned_by<P: Pruner<Row = R>>(name: &'static str) -> Self {
        Self { declaration: KindDeclaration::pruned::<P>(name), rows: PhantomData }
    }

    /// Reads only the objects' metadata.
    #[must_use]
    pub const fn of_metadata(mut self) -> Self {
        self.declaration.projection = Projection::Metadata;
        self
    }

    /// A family of rows that a task computes, without a watch. `name` identifies the family and must be unique.
    #[must_use]
    pub const fn computed(name: &'static str) -> Self {
        Self { declaration: KindDeclaration::new::<R>(name), rows: PhantomData }
    }

    /// The source of rows that belong to no resource.
    #[must_use]
    pub const fn all(&'static self) -> Source {
        Source { declaration: &self.declaration, resource: None, scope: Scope::All }
    }

    /// The source of the rows of one resource.
    #[must_use]
    pub const fn resource(&'static self, resource: GroupResource) -> Source {
        Source { declaration: &self.declaration, resource: Some(resource), scope: Scope::All }
    }

    /// The resource of `source`, if it belongs to this family.
    #[must_use]
    pub fn resource_of<'s>(&self, source: &'s Source) -> Option<&'s GroupResource> {
        source.resource.as_ref().filter(|_| source.is(self))
    }
}

/// A resource that the API of a hub must serve.
#[derive(Clone, Copy, Debug)]
pub struct RequiredApi {
    /// The resource's API group.
    pub group: &'static str,
    /// The resource's version.
    pub version: &'static str,
    /// The resource's plural name.
    pub resource: &'static str,
    /// The plural name of a resource of the same group and version that only spokes serve.
    pub spoke_resource: Option<&'static str>,
    /// The kind in the plural, for messages: `GatewayClasses`.
    pub kinds: &'static str,
    /// The project that installs the resource, for messages.
    pub project: &'static str,
}
