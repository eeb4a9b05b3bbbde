//! Where watch tasks hand over what they see.

use std::fmt;
use std::sync::Arc;

use crate::api::names::ControllerName;
use crate::api::object::HubObject;
use crate::clock::Clock;
use crate::mirror::{Change, Changes, Mirror, Row, Source};

/// The mirror, and who is told of its changes.
#[derive(Clone)]
pub struct Feed {
    mirror: Arc<Mirror>,
    changed: Arc<dyn Fn(&Changes<'_>) + Send + Sync>,
    controller: ControllerName,
    clock: Clock,
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").field("controller", &self.controller).finish_non_exhaustive()
    }
}

impl Feed {
    /// A feed into `mirror` for the works of `controller`, which hands what changes there to `changed`: that looks at the
    /// mirror, so nothing else changes meanwhile.
    #[must_use]
    pub fn new(
        mirror: Arc<Mirror>,
        controller: ControllerName,
        clock: Clock,
        changed: impl Fn(&Changes<'_>) + Send + Sync + 'static,
    ) -> Self {
        Self { mirror, changed: Arc::new(changed), controller, clock }
    }

    /// The label selector of the works of this controller.
    pub(super) fn work_selector(&self) -> String {
        super::work_selector(&self.controller)
    }

    pub(super) fn version(&self, source: &Source) -> u64 {
        self.mirror.version(source)
    }

    pub(super) fn applied(&self, source: &Source, object: &HubObject) {
        let row = Row::prune(source, object, &self.controller);
        let (key, version) = (object.key(), object.metadata.version());
        self.change(Change::Applied { source: source.clone(), key, version, row });
    }

    pub(super) fn deleted(&self, source: &Source, object: &HubObject) {
        let (key, version) = (object.key(), object.metadata.version());
        self.change(Change::Deleted { source: source.clone(), key, version });
    }

    pub(super) fn change(&self, change: Change) {
        (self.changed)(&self.mirror.change(change, self.clock.now()));
    }

    pub(super) fn begin_resync(&self, source: &Source) {
        self.mirror.begin_resync(source);
    }

    pub(super) fn end_resync(&self, source: &Source, version: u64) {
        (self.changed)(&self.mirror.end_resync(source, version, self.clock.now()));
    }

    pub(super) fn bookmark(&self, source: &Source, version: u64) {
        self.mirror.bookmark(source, version);
    }

    pub(super) fn forget(&self, source: &Source) {
        (self.changed)(&self.mirror.forget(source, self.clock.now()));
    }
}
