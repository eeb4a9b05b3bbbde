//! What is found out beside what is watched, and is kept in rows as well.

use super::rows::kind::{KindState, Resolution};
use super::rows::schema::WorkSchema;
use policy_sync_api::names::{GroupVersionResource, ObjectKey};
use policy_sync_mirror::{Change, Family};

/// Whether the versions of a kind that parameters list can be synced, by version.
pub static VERSIONS: Family<KindState> = Family::found_out("versions");
/// In which version the policies of a kind are read.
pub static FOLLOWED: Family<GroupVersionResource> = Family::found_out("followed versions");
/// What ManifestWorks can say.
pub static WORK_SCHEMA: Family<WorkSchema> = Family::found_out("schema of manifestworks");

/// The key of what there is one of.
fn only() -> ObjectKey {
    ObjectKey::new("", "")
}

pub(super) fn version_key(gvr: &GroupVersionResource) -> ObjectKey {
    ObjectKey { namespace: "".into(), name: gvr.version.clone() }
}

/// It was found out whether a version of a kind can be synced.
#[must_use]
pub fn resolved(gvr: &GroupVersionResource, resolution: Resolution) -> Change {
    let row = KindState { gvr: gvr.clone(), resolution, known: None };
    Change::found(VERSIONS.resource(gvr.kind.clone()), version_key(gvr), row)
}

/// The policies of a kind are read in this version from now on.
#[must_use]
pub fn followed(gvr: &GroupVersionResource) -> Change {
    Change::found(FOLLOWED.resource(gvr.kind.clone()), only(), gvr.clone())
}

/// It was found out what ManifestWorks can say.
#[must_use]
pub fn work_schema(schema: WorkSchema) -> Change {
    Change::found(WORK_SCHEMA.all(), only(), schema)
}
