//! Rows: the pruned form of objects.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use policy_sync_api::json::Hash;
use policy_sync_api::names::{ControllerName, GroupVersionResource};
use policy_sync_api::object::HubObject;

/// The data kept for an object. Equality decides whether a change is reported, so it must cover all data that decisions
/// read.
pub trait Row: Clone + fmt::Debug + PartialEq + Send + Sync + 'static {
    /// A hash of the data on which the deletion of other objects depends; `None` if no deletion depends on this row.
    fn deletion_hash(&self) -> Option<Hash> {
        None
    }
}

/// A row made from an object of the hub.
pub trait ObjectRow: Row {
    /// Prunes `object` to the data that decisions read. Before a deletion, some objects are read without spec and
    /// status, and only the [`Row::deletion_hash`] of the row is compared.
    fn prune(object: &HubObject, controller: &ControllerName) -> Self;
}

/// Makes rows from objects. Used for row types that families of several kinds share.
pub trait Pruner: 'static {
    /// The type of the rows.
    type Row: Row;

    /// Prunes `object` to the data that decisions read.
    fn prune(object: &HubObject, controller: &ControllerName) -> Self::Row;
}

impl<R: ObjectRow> Pruner for R {
    type Row = R;

    fn prune(object: &HubObject, controller: &ControllerName) -> R {
        R::prune(object, controller)
    }
}

impl Row for GroupVersionResource {}

/// A row that several owners share.
impl<R: Row> Row for Arc<R> {
    fn deletion_hash(&self) -> Option<Hash> {
        (**self).deletion_hash()
    }
}

impl<R: ObjectRow> ObjectRow for Arc<R> {
    fn prune(object: &HubObject, controller: &ControllerName) -> Self {
        Self::new(R::prune(object, controller))
    }
}

/// A row with its type erased.
#[derive(Debug)]
pub struct AnyRow(Box<dyn ErasedRow>);

trait ErasedRow: Any + fmt::Debug + Send + Sync {
    fn clone_box(&self) -> Box<dyn ErasedRow>;
    fn erased_deletion_hash(&self) -> Option<Hash>;
}

impl<R: Row> ErasedRow for R {
    fn clone_box(&self) -> Box<dyn ErasedRow> {
        Box::new(self.clone())
    }

    fn erased_deletion_hash(&self) -> Option<Hash> {
        self.deletion_hash()
    }
}

impl Clone for AnyRow {
    fn clone(&self) -> Self {
        Self(self.0.clone_box())
    }
}

impl AnyRow {
    /// Erases the type of `row`.
    #[must_use]
    pub fn new<R: Row>(row: R) -> Self {
        Self(Box::new(row))
    }

    pub(crate) fn boxed<R: Row>(row: Box<R>) -> Self {
        Self(row)
    }

    /// The row, if it is an `R`.
    #[must_use]
    pub fn get<R: Row>(&self) -> Option<&R> {
        let row: &dyn Any = &*self.0;
        row.downcast_ref()
    }

    /// The row for changes, if it is an `R`.
    #[must_use]
    pub fn get_mut<R: Row>(&mut self) -> Option<&mut R> {
        let row: &mut dyn Any = &mut *self.0;
        row.downcast_mut()
    }

    pub(crate) fn into_box<R: Row>(self) -> Option<Box<R>> {
        let row: Box<dyn Any> = self.0;
        row.downcast().ok()
    }

    /// See [`Row::deletion_hash`].
    #[must_use]
    pub fn deletion_hash(&self) -> Option<Hash> {
        self.0.erased_deletion_hash()
    }
}
