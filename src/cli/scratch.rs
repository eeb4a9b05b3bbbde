//! A mirror that nothing watches, filled by hand: with it, a command decides as the controller would.

use crate::api::moment::Moment;
use crate::api::names::{ControllerName, GroupVersionResource};
use crate::api::object::HubObject;
use crate::apply::{Keys, triggers};
use crate::clock::Clock;
use crate::hub::{Change, Source};
use crate::sync::kinds::WORKS;
use crate::sync::rows::kind::Resolution;
use crate::sync::rows::schema::WorkSchema;
use crate::sync::{Mirror, MirrorGuard, PLACEMENT_SETTLES, found};

/// When everything in it was seen.
const SEEN: Moment = Moment(0);

/// A mirror and what fills it.
#[derive(Debug)]
pub struct Scratch {
    mirror: Mirror,
    controller: ControllerName,
}

impl Scratch {
    /// An empty one, for the works of `controller`.
    #[must_use]
    pub fn new(controller: ControllerName) -> Self {
        Self { mirror: Mirror::new(controller.clone()), controller }
    }

    /// Now, when all that it holds has settled.
    #[must_use]
    pub fn settled() -> Moment {
        Clock::start().now().max(SEEN.after(PLACEMENT_SETTLES))
    }

    /// The moment at which nothing that it holds has settled yet.
    #[must_use]
    pub fn unsettled() -> Moment {
        SEEN
    }

    /// Takes `objects` in as all that there is of `source`.
    pub fn list<'o>(&self, source: &Source, objects: impl IntoIterator<Item = &'o HubObject>) {
        self.mirror.begin_resync(source);
        // When a grace began stands on a work, and counts as far as it is not later than this.
        let seen = if source.is(&WORKS) { Clock::start().now() } else { SEEN };
        for object in objects {
            let Some(row) = source.prune(object, &self.controller) else { continue };
            let (source, key, version) = (source.clone(), object.key(), object.metadata.version());
            self.mirror.change(Change::Applied { source, key, version, row }, seen);
        }
        self.mirror.end_resync(source, 0, SEEN);
    }

    /// Takes in whether the kind `gvr` can be synced.
    pub fn resolve(&self, gvr: &GroupVersionResource, resolution: Resolution) {
        self.mirror.change(found::resolved(gvr, resolution), SEEN);
    }

    /// Takes in what the hub's ManifestWork can say.
    pub fn work_schema(&self, schema: WorkSchema) {
        self.mirror.change(found::work_schema(schema), SEEN);
    }

    /// Every key there is, none before anything can be planned.
    #[must_use]
    pub fn everything(&self) -> Keys {
        triggers::everything(self.mirror.read().view(SEEN))
    }

    /// A look at all of it.
    #[must_use]
    pub fn read(&self) -> MirrorGuard<'_> {
        self.mirror.read()
    }
}
