//! The agent's writes to the hub: statuses and finalizers of the works in its cluster's namespace.
//!
//! The applying loop and the observing loop write the same status. Each write carries the uid and resourceVersion that
//! were read, so neither loop overwrites the other's changes.

use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use policy_sync_api::work::{CLEANUP_FINALIZER, ManifestWork, ManifestWorkStatus};
use serde_json::{Value, json};

/// Whether the work has the agent's finalizer.
pub(super) fn has_finalizer(work: &ManifestWork) -> bool {
    work.finalizers().iter().any(|finalizer| finalizer == CLEANUP_FINALIZER)
}

fn guarded(work: &ManifestWork) -> Value {
    json!({"uid": work.metadata.uid, "resourceVersion": work.metadata.resource_version})
}

/// Writes `status` if it differs from the work's status.
pub(super) async fn write_status(
    works: &Api<ManifestWork>,
    work: &ManifestWork,
    status: &ManifestWorkStatus,
) -> kube::Result<()> {
    if work.status.as_ref() == Some(status)
        || (work.status.is_none() && *status == ManifestWorkStatus::default())
    {
        return Ok(());
    }
    let patch = json!({"metadata": guarded(work), "status": status});
    ignore_not_found(
        works.patch_status(&work.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await,
    )
}

/// Adds the agent's finalizer.
pub(super) async fn add_finalizer(works: &Api<ManifestWork>, work: &ManifestWork) -> kube::Result<()> {
    let mut finalizers = work.finalizers().to_vec();
    finalizers.push(CLEANUP_FINALIZER.into());
    write_finalizers(works, work, &finalizers).await
}

/// Removes the agent's finalizer.
pub(super) async fn remove_finalizer(works: &Api<ManifestWork>, work: &ManifestWork) -> kube::Result<()> {
    let rest: Vec<_> =
        work.finalizers().iter().filter(|finalizer| *finalizer != CLEANUP_FINALIZER).cloned().collect();
    write_finalizers(works, work, &rest).await
}

async fn write_finalizers(
    works: &Api<ManifestWork>,
    work: &ManifestWork,
    finalizers: &[String],
) -> kube::Result<()> {
    let mut metadata = guarded(work);
    metadata["finalizers"] = json!(finalizers);
    let patch = json!({"metadata": metadata});
    ignore_not_found(
        works.patch_metadata(&work.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await,
    )
}

fn ignore_not_found<T>(result: kube::Result<T>) -> kube::Result<()> {
    match result {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(error),
    }
}
