//! Tables of rows, and the index that a capability derives from them, behind one lock.

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::change::{MirrorChange, SourceEvent};
use crate::index::Index;
use crate::source::Source;
use crate::state::MirrorState;
use crate::tables::Tables;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::ControllerName;
use policy_sync_api::object::HubObject;

/// A mirror of the hub's objects, with the index of one capability.
#[derive(Debug)]
pub struct Mirror<I> {
    state: RwLock<MirrorState<I>>,
}

impl<I: Index> Mirror<I> {
    /// An empty mirror for `controller`.
    #[must_use]
    pub fn new(controller: ControllerName) -> Self {
        Self::with_index(I::new(controller))
    }

    /// An empty mirror with `index`, which must also be empty.
    #[must_use]
    pub fn with_index(index: I) -> Self {
        Self { state: RwLock::new(MirrorState { tables: Tables::default(), index }) }
    }

    /// Releases memory of the index that is no longer used.
    pub fn release_memory(&self) {
        self.state.write().index.release_memory();
    }

    /// Applies a change seen at `now`. Returns the resulting changes.
    pub fn change(&self, change: SourceEvent, now: Moment) -> Changes<'_, I> {
        self.write(now, |state| state.change(change, now))
    }

    /// Starts a full listing of `source`. Rows that are not applied before [`Mirror::end_resync`] are removed then.
    pub fn begin_resync(&self, source: &Source) {
        self.state.write().begin_resync(source);
    }

    /// Ends a full listing of `source` at resource version `version`.
    pub fn end_resync(&self, source: &Source, version: u64, now: Moment) -> Changes<'_, I> {
        self.write(now, |state| state.end_resync(source, version, now))
    }

    /// Replaces all rows of `source` by the rows of `objects`, seen at `now`. Used for objects from files, so their
    /// resource versions are ignored.
    pub fn list<'o>(
        &self,
        source: &Source,
        objects: impl IntoIterator<Item = &'o HubObject>,
        controller: &ControllerName,
        now: Moment,
    ) {
        self.begin_resync(source);
        for object in objects {
            let Some(row) = source.prune(object, controller) else { continue };
            let (source, key, version) = (source.clone(), object.key(), object.metadata.version());
            self.change(SourceEvent::Applied { source, key, version, row }, now);
        }
        self.end_resync(source, 0, now);
    }

    /// Records that `source` is up to date with `version`.
    pub fn bookmark(&self, source: &Source, version: u64) {
        self.state.write().tables.entry(source).bookmark(version);
    }

    /// Removes a source that is no longer watched.
    pub fn forget(&self, source: &Source, now: Moment) -> Changes<'_, I> {
        self.write(now, |state| state.forget(source, now))
    }

    fn write(
        &self,
        now: Moment,
        write: impl FnOnce(&mut MirrorState<I>) -> Vec<MirrorChange>,
    ) -> Changes<'_, I> {
        let mut state = self.state.write();
        let changed = write(&mut state);
        Changes { changed, now, guard: MirrorGuard(RwLockWriteGuard::downgrade(state)) }
    }

    /// The latest resource version of `source`; 0 before the first listing.
    #[must_use]
    pub fn version(&self, source: &Source) -> u64 {
        self.state.read().tables.version(source)
    }

    /// Locks the mirror for reading, for a consistent view. Drop the guard soon, because it blocks changes.
    #[must_use]
    pub fn read(&self) -> MirrorGuard<'_, I> {
        MirrorGuard(self.state.read())
    }
}

/// A clone is an independent copy of the mirror.
impl<I: Index> Clone for Mirror<I> {
    fn clone(&self) -> Self {
        Self { state: RwLock::new(self.state.read().clone()) }
    }
}

/// The changes that resulted from an operation, with a view of the mirror directly after it. Holds a read lock.
#[derive(Debug)]
pub struct Changes<'m, I> {
    changed: Vec<MirrorChange>,
    now: Moment,
    guard: MirrorGuard<'m, I>,
}

impl<I: Index> Changes<'_, I> {
    /// The changes, in order.
    pub fn iter(&self) -> impl Iterator<Item = &MirrorChange> {
        self.changed.iter()
    }

    /// The mirror directly after the operation.
    #[must_use]
    pub fn view(&self) -> I::View<'_> {
        self.guard.view(self.now)
    }
}

/// A read lock on the mirror.
#[derive(Debug)]
pub struct MirrorGuard<'m, I>(RwLockReadGuard<'m, MirrorState<I>>);

impl<I: Index> MirrorGuard<'_, I> {
    /// The capability's view at the time `now`.
    #[must_use]
    pub fn view(&self, now: Moment) -> I::View<'_> {
        self.0.index.view(&self.0.tables, now)
    }

    /// The tables with all rows.
    #[must_use]
    pub fn tables(&self) -> &Tables {
        &self.0.tables
    }
}
