//! B11: a spoke writes different statuses of a quarter of a megabyte to one work. Measures the memory that the
//! controller keeps.

use anyhow::{Context, Result};
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use policy_sync_api::annotations::CONDITIONS;
use policy_sync_api::work::ManifestWork;
use serde_json::json;

use super::hub::MeasuredHub;
use super::raw::{self, PreparedRequest};
use super::report::{Measure, progress};
use super::usage::Memory;
use policy_sync_testenv::tenant::WorkReport;

/// Size of each condition's message, in bytes.
const BYTES: usize = 64 * 1024;
/// Number of concurrent patches.
const AT_ONCE: usize = 4;
/// Goal for the additional memory, in MiB.
const GOAL: f64 = 4.0;

/// The controller's additional memory after this number of patches of one work's status.
pub(super) async fn measure(hub: &mut MeasuredHub, patches: usize) -> Result<Vec<Measure>> {
    hub.settle().await?;
    let (_, controller) = hub.start_controller().await?;
    hub.quiet().await?;
    let before = Memory::of_process(controller.pid())?;
    progress(&format!("{patches} patches of {} KiB", CONDITIONS.len() * BYTES / 1024));
    let cluster = hub.clusters.first().context("no cluster")?;
    let works: Api<ManifestWork> = Api::namespaced(hub.client.clone(), cluster);
    let work = works.get(&hub.scene.work(&hub.controller(), 0)).await.context("reading a work")?;
    let requests = (0..patches).map(|turn| patch(&work, turn));
    let took = raw::send(&hub.client, requests.collect::<Result<_>>()?, AT_ONCE).await?;
    hub.quiet().await?;
    let after = Memory::of_process(controller.pid())?;
    controller.terminate().await?;
    hub.mark_unsettled();
    let what = format!("memory kept of {patches} statuses of {} KiB", CONDITIONS.len() * BYTES / 1024);
    let detail = format!(
        "over {:.1} MiB; {:.1} MiB more for a moment; in {:.1} s",
        before.resident,
        after.peak - before.resident,
        took.as_secs_f64()
    );
    Ok(vec![Measure::at_most("B11", what, after.resident - before.resident, "MiB", GOAL).detail(detail)])
}

/// A status patch for `work` with all conditions, and messages that differ in each turn.
fn patch(work: &ManifestWork, turn: usize) -> Result<PreparedRequest> {
    let answer = CONDITIONS.iter().enumerate().fold(WorkReport::applied(), |answer, (number, condition)| {
        let message = format!("{turn}-{number}-{}", "x".repeat(BYTES));
        answer.condition(condition, "True", "Accepted", &message)
    });
    let patch = Patch::Merge(json!({ "status": answer.status_of(work) }));
    let request = raw::works_of(&work.namespace().unwrap_or_default())
        .patch_subresource("status", &work.name_any(), &PatchParams::default(), &patch)
        .context("building a patch request")?;
    Ok(raw::with_metadata_response(request))
}
