//! A mirror that is filled from lists instead of watches. Plans from this mirror equal the plans of the controller.

use super::kinds::WORKS;
use super::rows::kind::Resolution;
use super::rows::schema::WorkSchema;
use super::{Mirror, MirrorGuard, PLACEMENT_SETTLE_TIME, found};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ControllerName, GroupVersionResource};
use policy_sync_api::object::HubObject;
use policy_sync_mirror::Source;

/// The moment at which all objects of the mirror count as seen.
const SEEN: Moment = Moment(0);

/// A mirror without watches.
#[derive(Debug)]
pub struct OfflineMirror {
    mirror: Mirror,
    controller: ControllerName,
}

impl OfflineMirror {
    /// Creates an empty mirror for the works of `controller`.
    #[must_use]
    pub fn new(controller: ControllerName) -> Self {
        Self { mirror: Mirror::new(controller.clone()), controller }
    }

    /// The first moment from `now` on at which every Placement in the mirror has settled.
    #[must_use]
    pub fn settled(now: Moment) -> Moment {
        now.max(SEEN.after(PLACEMENT_SETTLE_TIME))
    }

    /// A moment at which no Placement in the mirror has settled yet.
    #[must_use]
    pub fn unsettled() -> Moment {
        SEEN
    }

    /// Replaces the objects of `source` by `objects`, which were read at `now`.
    pub fn list<'o>(&self, source: &Source, objects: impl IntoIterator<Item = &'o HubObject>, now: Moment) {
        // The first listing counts as made at `SEEN`, so that Placements can settle.
        if self.mirror.read().tables().synced(source).is_none() {
            self.mirror.begin_resync(source);
            self.mirror.end_resync(source, 0, SEEN);
        }
        // The start of a grace period is an annotation of the work. It must not be later than the moment at which the
        // work was seen.
        let seen = if source.is(&WORKS) { now } else { SEEN };
        self.mirror.list(source, objects, &self.controller, seen);
    }

    /// Records whether the kind `gvr` can be synced.
    pub fn resolve(&self, gvr: &GroupVersionResource, resolution: Resolution) {
        self.mirror.change(found::resolved(gvr, resolution), SEEN);
    }

    /// Records the features that the hub's ManifestWork schema supports.
    pub fn work_schema(&self, schema: WorkSchema) {
        self.mirror.change(found::work_schema(schema), SEEN);
    }

    /// The controller whose plans are made from this mirror.
    #[must_use]
    pub fn controller(&self) -> &ControllerName {
        &self.controller
    }

    /// Locks the mirror for reading.
    #[must_use]
    pub fn read(&self) -> MirrorGuard<'_> {
        self.mirror.read()
    }
}
