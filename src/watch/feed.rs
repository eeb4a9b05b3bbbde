//! Where watch tasks hand over what they see.

use std::sync::Arc;

use tokio::sync::mpsc::UnboundedSender;

use crate::api::names::ControllerName;
use crate::api::object::HubObject;
use crate::clock::Clock;
use crate::mirror::{Change, Key, Keys, Mirror, Row, Source};

/// The mirror, and the way on for the keys that a change affects.
#[derive(Clone, Debug)]
pub struct Feed {
    mirror: Arc<Mirror>,
    affected: UnboundedSender<Key>,
    controller: ControllerName,
    clock: Clock,
}

impl Feed {
    /// A feed into `mirror` that passes the keys affected to `affected`.
    #[must_use]
    pub fn new(
        mirror: Arc<Mirror>,
        affected: UnboundedSender<Key>,
        controller: ControllerName,
        clock: Clock,
    ) -> Self {
        Self { mirror, affected, controller, clock }
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
        self.pass(self.mirror.change(change, self.clock.now()));
    }

    pub(super) fn begin_resync(&self, source: &Source) {
        self.mirror.begin_resync(source);
    }

    pub(super) fn end_resync(&self, source: &Source, version: u64) {
        self.pass(self.mirror.end_resync(source, version, self.clock.now()));
    }

    pub(super) fn bookmark(&self, source: &Source, version: u64) {
        self.mirror.bookmark(source, version);
    }

    pub(super) fn forget(&self, source: &Source) {
        self.pass(self.mirror.forget(source));
    }

    fn pass(&self, keys: Keys) {
        for key in keys {
            // The receiver is gone only while the process stops.
            let _ = self.affected.send(key);
        }
    }
}
