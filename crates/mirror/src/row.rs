//! Rows: what is kept of an object.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use policy_sync_api::json::Hash;
use policy_sync_api::names::{ControllerName, GroupVersionResource};
use policy_sync_api::object::HubObject;

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

/// What makes rows of objects, where families of several kinds have rows of one type.
pub trait Prunes: 'static {
    /// What is kept.
    type Row: Row;

    /// What is kept of `object` for `controller`.
    fn prune(object: &HubObject, controller: &ControllerName) -> Self::Row;
}

impl<R: Pruned> Prunes for R {
    type Row = R;

    fn prune(object: &HubObject, controller: &ControllerName) -> R {
        R::prune(object, controller)
    }
}

impl Row for GroupVersionResource {}

/// Rows that are shared instead of copied.
impl<R: Row> Row for Arc<R> {
    fn decides(&self) -> Option<Hash> {
        (**self).decides()
    }
}

impl<R: Pruned> Pruned for Arc<R> {
    fn prune(object: &HubObject, controller: &ControllerName) -> Self {
        Self::new(R::prune(object, controller))
    }
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

    pub(crate) fn boxed<R: Row>(row: Box<R>) -> Self {
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

    pub(crate) fn into_box<R: Row>(self) -> Option<Box<R>> {
        let row: Box<dyn Any> = self.0;
        row.downcast().ok()
    }

    /// The hash of what deletes are decided from.
    #[must_use]
    pub fn decides(&self) -> Option<Hash> {
        self.0.hash_decides()
    }
}
