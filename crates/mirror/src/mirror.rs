//! Tables of rows, and the index that a capability derives from them, behind one lock.

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::change::{Change, Changed};
use crate::index::Index;
use crate::source::Source;
use crate::state::State;
use crate::tables::Tables;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::ControllerName;
use policy_sync_api::object::HubObject;

/// What is known of the hub.
#[derive(Debug)]
pub struct Mirror<I> {
    state: RwLock<State<I>>,
}

impl<I: Index> Mirror<I> {
    /// An empty mirror for `controller`.
    #[must_use]
    pub fn new(controller: ControllerName) -> Self {
        Self::with_index(I::new(controller))
    }

    /// An empty mirror with this `index`, which is derived from nothing.
    #[must_use]
    pub fn with_index(index: I) -> Self {
        Self { state: RwLock::new(State { tables: Tables::default(), index }) }
    }

    /// Has the index give memory back that nothing uses any more.
    pub fn tidy(&self) {
        self.state.write().index.tidy();
    }

    /// Takes a change in, seen at `now`, and returns what it came to.
    pub fn change(&self, change: Change, now: Moment) -> Changes<'_, I> {
        self.write(now, |state| state.change(change, now))
    }

    /// Starts a full listing of `source`: what it does not bring until [`Mirror::end_resync`] is gone.
    pub fn begin_resync(&self, source: &Source) {
        self.state.write().begin_resync(source);
    }

    /// Ends a full listing of `source` that showed the hub at `version`.
    pub fn end_resync(&self, source: &Source, version: u64, now: Moment) -> Changes<'_, I> {
        self.write(now, |state| state.end_resync(source, version, now))
    }

    /// Takes `objects` in as all that there is of `source`, seen at `now`, whatever version the hub was at.
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
            self.change(Change::Applied { source, key, version, row }, now);
        }
        self.end_resync(source, 0, now);
    }

    /// Notes that `source` has seen everything up to `version`.
    pub fn bookmark(&self, source: &Source, version: u64) {
        self.state.write().tables.entry(source).bookmark(version);
    }

    /// Forgets a source that is no longer watched, at `now`.
    pub fn forget(&self, source: &Source, now: Moment) -> Changes<'_, I> {
        self.write(now, |state| state.forget(source, now))
    }

    fn write(&self, now: Moment, write: impl FnOnce(&mut State<I>) -> Vec<Changed>) -> Changes<'_, I> {
        let mut state = self.state.write();
        let changed = write(&mut state);
        Changes { changed, now, guard: MirrorGuard(RwLockWriteGuard::downgrade(state)) }
    }

    /// The highest version that `source` has seen, 0 before the first listing.
    #[must_use]
    pub fn version(&self, source: &Source) -> u64 {
        self.state.read().tables.version(source)
    }

    /// A consistent look at everything. It holds the lock: take it, plan, drop it.
    #[must_use]
    pub fn read(&self) -> MirrorGuard<'_, I> {
        MirrorGuard(self.state.read())
    }
}

/// A mirror of its own, that knows the same.
impl<I: Index> Clone for Mirror<I> {
    fn clone(&self) -> Self {
        Self { state: RwLock::new(self.state.read().clone()) }
    }
}

/// What a change came to, and a look at the mirror just after it: it holds the lock while it lives.
#[derive(Debug)]
pub struct Changes<'m, I> {
    changed: Vec<Changed>,
    now: Moment,
    guard: MirrorGuard<'m, I>,
}

impl<I: Index> Changes<'_, I> {
    /// What has changed, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Changed> {
        self.changed.iter()
    }

    /// The mirror just after it.
    #[must_use]
    pub fn view(&self) -> I::View<'_> {
        self.guard.view(self.now)
    }
}

/// Keeps a look at the mirror consistent while it lives.
#[derive(Debug)]
pub struct MirrorGuard<'m, I>(RwLockReadGuard<'m, State<I>>);

impl<I: Index> MirrorGuard<'_, I> {
    /// The view of the mirror at the moment `now`.
    #[must_use]
    pub fn view(&self, now: Moment) -> I::View<'_> {
        self.0.index.view(&self.0.tables, now)
    }

    /// The rows.
    #[must_use]
    pub fn tables(&self) -> &Tables {
        &self.0.tables
    }
}
