//! Passes the objects that watch tasks receive to the mirror.

use std::fmt;
use std::sync::Arc;

use crate::clock::Clock;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::ControllerName;
use policy_sync_api::object::HubObject;
use policy_sync_mirror::Source;
use policy_sync_mirror::{Changes, Index, Mirror, SourceEvent};

/// A mirror, with a callback for its changes. Clones share the mirror and the callback.
#[derive(Clone)]
pub struct Feed {
    mirror: Arc<dyn AnyMirror>,
    controller: ControllerName,
    clock: Clock,
}

/// A mirror of any index type.
trait AnyMirror: Send + Sync {
    fn change(&self, change: SourceEvent, now: Moment);
    fn begin_resync(&self, source: &Source);
    fn end_resync(&self, source: &Source, version: u64, now: Moment);
    fn bookmark(&self, source: &Source, version: u64);
    fn forget(&self, source: &Source, now: Moment);
    fn version(&self, source: &Source) -> u64;
}

struct NotifyingMirror<I, T> {
    mirror: Arc<Mirror<I>>,
    changed: T,
}

impl<I: Index, T: Fn(&Changes<'_, I>) + Send + Sync> AnyMirror for NotifyingMirror<I, T> {
    fn change(&self, change: SourceEvent, now: Moment) {
        (self.changed)(&self.mirror.change(change, now));
    }

    fn begin_resync(&self, source: &Source) {
        self.mirror.begin_resync(source);
    }

    fn end_resync(&self, source: &Source, version: u64, now: Moment) {
        (self.changed)(&self.mirror.end_resync(source, version, now));
    }

    fn bookmark(&self, source: &Source, version: u64) {
        self.mirror.bookmark(source, version);
    }

    fn forget(&self, source: &Source, now: Moment) {
        (self.changed)(&self.mirror.forget(source, now));
    }

    fn version(&self, source: &Source) -> u64 {
        self.mirror.version(source)
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").field("controller", &self.controller).finish_non_exhaustive()
    }
}

impl Feed {
    /// Passes objects, pruned for `controller`, to `mirror`. Passes each change of the mirror to `changed`. The mirror
    /// is locked during this callback, which can read it.
    #[must_use]
    pub fn new<I: Index>(
        mirror: Arc<Mirror<I>>,
        controller: ControllerName,
        clock: Clock,
        changed: impl Fn(&Changes<'_, I>) + Send + Sync + 'static,
    ) -> Self {
        Self { mirror: Arc::new(NotifyingMirror { mirror, changed }), controller, clock }
    }

    pub(super) fn controller(&self) -> &ControllerName {
        &self.controller
    }

    pub(super) fn version(&self, source: &Source) -> u64 {
        self.mirror.version(source)
    }

    pub(super) fn applied(&self, source: &Source, object: &HubObject) {
        if let Some(row) = source.prune(object, &self.controller) {
            let (key, version) = (object.key(), object.metadata.version());
            self.change(SourceEvent::Applied { source: source.clone(), key, version, row });
        }
    }

    pub(super) fn deleted(&self, source: &Source, object: &HubObject) {
        let (key, version) = (object.key(), object.metadata.version());
        self.change(SourceEvent::Deleted { source: source.clone(), key, version });
    }

    /// Applies a change to the mirror.
    pub fn change(&self, change: SourceEvent) {
        self.mirror.change(change, self.clock.now());
    }

    pub(super) fn begin_resync(&self, source: &Source) {
        self.mirror.begin_resync(source);
    }

    pub(super) fn end_resync(&self, source: &Source, version: u64) {
        self.mirror.end_resync(source, version, self.clock.now());
    }

    pub(super) fn bookmark(&self, source: &Source, version: u64) {
        self.mirror.bookmark(source, version);
    }

    pub(super) fn forget(&self, source: &Source) {
        self.mirror.forget(source, self.clock.now());
    }
}
