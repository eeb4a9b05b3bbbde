//! State that the controller discovers with requests instead of watches. The mirror keeps it in rows, too.

use super::rows::kind::{KindState, Resolution};
use super::rows::schema::WorkSchema;
use policy_sync_api::names::{GroupVersionResource, ObjectKey};
use policy_sync_mirror::{Family, SourceEvent};

/// For each version of a kind that parameters list, whether the kind can be synced in this version.
pub static VERSIONS: Family<KindState> = Family::computed("versions");
/// The version in which the policies of a kind are watched.
pub static WATCHED_VERSIONS: Family<GroupVersionResource> = Family::computed("followed versions");
/// The features that the hub's ManifestWork schema supports.
pub static WORK_SCHEMA: Family<WorkSchema> = Family::computed("schema of manifestworks");

/// The key of the only row of a table.
fn only() -> ObjectKey {
    ObjectKey::new("", "")
}

pub(super) fn version_key(gvr: &GroupVersionResource) -> ObjectKey {
    ObjectKey { namespace: "".into(), name: gvr.version.clone() }
}

/// Records whether a version of a kind can be synced.
#[must_use]
pub fn resolved(gvr: &GroupVersionResource, resolution: Resolution) -> SourceEvent {
    let row = KindState { gvr: gvr.clone(), resolution, known: None };
    SourceEvent::computed(VERSIONS.resource(gvr.kind.clone()), version_key(gvr), row)
}

/// Records the version in which the policies of a kind are watched from now on.
#[must_use]
pub fn watched_version(gvr: &GroupVersionResource) -> SourceEvent {
    SourceEvent::computed(WATCHED_VERSIONS.resource(gvr.kind.clone()), only(), gvr.clone())
}

/// Records the features that the hub's ManifestWork schema supports.
#[must_use]
pub fn work_schema(schema: WorkSchema) -> SourceEvent {
    SourceEvent::computed(WORK_SCHEMA.all(), only(), schema)
}
