//! A mirror that nothing watches, filled by hand: plans made of it are the controller's.

use super::kinds::WORKS;
use super::rows::kind::Resolution;
use super::rows::schema::WorkSchema;
use super::{Mirror, MirrorGuard, PLACEMENT_SETTLES, found};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ControllerName, GroupVersionResource};
use policy_sync_api::object::HubObject;
use policy_sync_mirror::Source;

/// When everything in it was seen.
const SEEN: Moment = Moment(0);

/// A mirror and what fills it.
#[derive(Debug)]
pub struct OfflineMirror {
    mirror: Mirror,
    controller: ControllerName,
}

impl OfflineMirror {
    /// An empty one, for the works of `controller`.
    #[must_use]
    pub fn new(controller: ControllerName) -> Self {
        Self { mirror: Mirror::new(controller.clone()), controller }
    }

    /// The moment `now`, or the first one at which every Placement in it has settled.
    #[must_use]
    pub fn settled(now: Moment) -> Moment {
        now.max(SEEN.after(PLACEMENT_SETTLES))
    }

    /// The moment at which nothing that it holds has settled yet.
    #[must_use]
    pub fn unsettled() -> Moment {
        SEEN
    }

    /// Replaces the objects of `source` by `objects`, which were read at the moment `now`.
    pub fn list<'o>(&self, source: &Source, objects: impl IntoIterator<Item = &'o HubObject>, now: Moment) {
        // When it was first listed is the moment at which it was seen.
        if self.mirror.read().tables().synced(source).is_none() {
            self.mirror.begin_resync(source);
            self.mirror.end_resync(source, 0, SEEN);
        }
        // The beginning of a grace period is an annotation of a work. If it is later than this moment, this moment counts.
        let seen = if source.is(&WORKS) { now } else { SEEN };
        self.mirror.list(source, objects, &self.controller, seen);
    }

    /// Takes in whether the kind `gvr` can be synced.
    pub fn resolve(&self, gvr: &GroupVersionResource, resolution: Resolution) {
        self.mirror.change(found::resolved(gvr, resolution), SEEN);
    }

    /// Takes in what the hub's ManifestWork can say.
    pub fn work_schema(&self, schema: WorkSchema) {
        self.mirror.change(found::work_schema(schema), SEEN);
    }

    /// The controller whose plans are made of it.
    #[must_use]
    pub fn controller(&self) -> &ControllerName {
        &self.controller
    }

    /// A look at all of it.
    #[must_use]
    pub fn read(&self) -> MirrorGuard<'_> {
        self.mirror.read()
    }
}
