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
    fn decides(&self) -> Option<Hash> {
        None
    }
}

/// A row made from an object of the hub.
pub trait Pruned: Row {
    /// Prunes `object` to the data that decisions read. If [`Row::decides`] uses only metadata, it is the same for an
    /// object that was read without its spec and status.
    fn prune(object: &HubObject, controller: &ControllerName) -> Self;
}

/// Makes rows from objects. For row types that families of several kinds share.
pub trait Prunes: 'static {
    /// The type of the rows.
    type Row: Row;

    /// Prunes `object` to the data that decisions read.
    fn prune(object: &HubObject, controller: &ControllerName) -> Self::Row;
}

impl<R: Pruned> Prunes for R {
    type Row = R;

    fn prune(object: &HubObject, controller: &ControllerName) -> R {
        R::prune(object, controller)
    }
}

impl Row for GroupVersionResource {}

/// A shared row.
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

/// A row with its type erased.
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

    /// The row, if it is an `R`, for changes.
    #[must_use]
    pub fn get_mut<R: Row>(&mut self) -> Option<&mut R> {
        let row: &mut dyn Any = &mut *self.0;
        row.downcast_mut()
    }

    pub(crate) fn into_box<R: Row>(self) -> Option<Box<R>> {
        let row: Box<dyn Any> = self.0;
        row.downcast().ok()
    }

    /// See [`Row::decides`].
    #[must_use]
    pub fn decides(&self) -> Option<Hash> {
        self.0.hash_decides()
    }
}
