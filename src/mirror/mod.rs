//! The mirror: what is known of the hub, pruned to what decisions read.
//!
//! ```text
//! watch ──apply, delete, resync──▶ [ tables ] ──view──▶ plan
//!                                      │
//!                                      └──keys affected──▶ queue
//! ```
//!
//! No I/O and no await: the one lock is held for the length of a table operation or of a plan. Every operation
//! returns the [`Key`]s whose plan may have changed, and none where only a resource version did.

mod affected;
mod change;
mod counts;
mod displaced;
mod failing;
mod interned;
mod params;
mod recent;
mod refused;
mod resync;
pub mod rows;
mod table;
mod tables;
mod view;

use std::collections::BTreeSet;

use parking_lot::{RwLock, RwLockReadGuard};

use crate::api::names::{ClusterName, ControllerName, GroupResource, ObjectKey, Parent};

pub use change::{Change, Failure, Row, Source, Wants};
pub use displaced::Displacement;
pub use refused::Refused;
pub use table::{Moment, Table};
pub use tables::{Tables, WorkKey};
pub use view::{CLASS_RETURNS, ClassParams, PLACEMENT_SETTLES, View};

/// Something to plan for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// Which watches should run.
    Watches,
    /// The status of a GatewayClass.
    Class(ObjectKey),
    /// The access work of a cluster.
    Access(ClusterName),
    /// The works of a Gateway or of a policy, whether or not it still exists.
    Works(Parent),
    /// What a hub policy, or a Gateway, says of its clusters.
    Fold(Parent),
}

impl Key {
    /// What kind of key this is, for metrics.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::Watches => "watches",
            Self::Class(_) => "class",
            Self::Access(_) => "access",
            Self::Works(parent) if parent.is_gateway() => "gateway",
            Self::Works(_) => "policy",
            Self::Fold(_) => "fold",
        }
    }
}

/// The keys that a change affects.
pub type Keys = BTreeSet<Key>;

/// What is known of the hub.
#[derive(Debug)]
pub struct Mirror {
    tables: RwLock<Tables>,
}

impl Mirror {
    /// An empty mirror for the works of `controller`.
    #[must_use]
    pub fn new(controller: ControllerName) -> Self {
        Self { tables: RwLock::new(Tables::new(controller)) }
    }

    /// Takes a change in, seen at `now`, and returns the keys that it affects.
    pub fn change(&self, change: Change, now: Moment) -> Keys {
        self.tables.write().change(change, now)
    }

    /// Starts a full listing of `source`: what it does not bring until [`Mirror::end_resync`] is gone.
    pub fn begin_resync(&self, source: &Source) {
        self.tables.write().begin_resync(source);
    }

    /// Ends a full listing of `source` that showed the hub at `version`.
    pub fn end_resync(&self, source: &Source, version: u64, now: Moment) -> Keys {
        self.tables.write().end_resync(source, version, now)
    }

    /// Notes that `source` has seen everything up to `version`.
    pub fn bookmark(&self, source: &Source, version: u64) {
        self.tables.write().bookmark(source, version);
    }

    /// Forgets a source that is no longer watched.
    pub fn forget(&self, source: &Source) -> Keys {
        self.tables.write().forget(source)
    }

    /// The highest version that `source` has seen, 0 before the first listing.
    #[must_use]
    pub fn version(&self, source: &Source) -> u64 {
        self.tables.read().version(source)
    }

    /// Every key there is, none before anything can be planned.
    #[must_use]
    pub fn everything(&self) -> Keys {
        let tables = self.tables.read();
        if tables.ready() { tables.everything() } else { Keys::new() }
    }

    /// A consistent look at everything. It holds the lock: take it, plan, drop it.
    #[must_use]
    pub fn read(&self) -> MirrorGuard<'_> {
        MirrorGuard(self.tables.read())
    }
}

/// A mirror of its own, that knows the same.
impl Clone for Mirror {
    fn clone(&self) -> Self {
        Self { tables: RwLock::new(self.tables.read().clone()) }
    }
}

/// Keeps a look at the mirror consistent while it lives.
#[derive(Debug)]
pub struct MirrorGuard<'m>(RwLockReadGuard<'m, Tables>);

impl MirrorGuard<'_> {
    /// The view of the mirror at the moment `now`.
    #[must_use]
    pub fn view(&self, now: Moment) -> View<'_> {
        View::new(&self.0, now)
    }
}

/// A kind of policies, as keys of tables name it.
pub type PolicyKind = GroupResource;

#[cfg(test)]
mod tests;
