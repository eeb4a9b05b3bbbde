//! The mirror: what is known of the hub, pruned to what decisions read.
//!
//! ```text
//! watch ──apply, delete, resync──▶ [ tables ] ──view──▶ plan
//!                                      │
//!                                      └──changes──▶ triggers
//! ```
//!
//! No I/O and no await: the one lock is held for the length of a table operation or of a plan. Every operation
//! returns what has [changed](Changed), and nothing where only a resource version did. Which plans that affects is for others
//! to know.

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
mod works;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::api::names::{ControllerName, GroupResource};

pub use change::{Change, Changed, Failure, Row, Source, Wants};
pub use displaced::Displacement;
pub use refused::Refused;
pub use table::{Moment, Table};
pub use tables::{Tables, WorkKey};
pub use view::{CLASS_RETURNS, ClassParams, PLACEMENT_SETTLES, View};

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

    /// Takes a change in, seen at `now`, and returns what it came to.
    pub fn change(&self, change: Change, now: Moment) -> Changes<'_> {
        self.write(now, |tables| tables.change(change, now))
    }

    /// Starts a full listing of `source`: what it does not bring until [`Mirror::end_resync`] is gone.
    pub fn begin_resync(&self, source: &Source) {
        self.tables.write().begin_resync(source);
    }

    /// Ends a full listing of `source` that showed the hub at `version`.
    pub fn end_resync(&self, source: &Source, version: u64, now: Moment) -> Changes<'_> {
        self.write(now, |tables| tables.end_resync(source, version, now))
    }

    /// Notes that `source` has seen everything up to `version`.
    pub fn bookmark(&self, source: &Source, version: u64) {
        self.tables.write().bookmark(source, version);
    }

    /// Forgets a source that is no longer watched, at `now`.
    pub fn forget(&self, source: &Source, now: Moment) -> Changes<'_> {
        self.write(now, |tables| tables.forget(source))
    }

    fn write(&self, now: Moment, write: impl FnOnce(&mut Tables) -> Vec<Changed>) -> Changes<'_> {
        let mut tables = self.tables.write();
        let changed = write(&mut tables);
        Changes { changed, now, guard: MirrorGuard(RwLockWriteGuard::downgrade(tables)) }
    }

    /// The highest version that `source` has seen, 0 before the first listing.
    #[must_use]
    pub fn version(&self, source: &Source) -> u64 {
        self.tables.read().version(source)
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

/// What a change came to, and a look at the mirror just after it: it holds the lock while it lives.
#[derive(Debug)]
pub struct Changes<'m> {
    changed: Vec<Changed>,
    now: Moment,
    guard: MirrorGuard<'m>,
}

impl Changes<'_> {
    /// What has changed, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Changed> {
        self.changed.iter()
    }

    /// The mirror just after it.
    #[must_use]
    pub fn view(&self) -> View<'_> {
        self.guard.view(self.now)
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
