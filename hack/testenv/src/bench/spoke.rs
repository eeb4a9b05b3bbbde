//! B11: a spoke that says a quarter of a megabyte about one work, each time something else: what the controller keeps of it.

use anyhow::{Context, Result};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::raw::{self, Ready};
use super::report::{Measure, progress};
use super::stage::Stage;
use super::usage::Memory;

/// How many texts a status has, and how many bytes each of them.
const TEXTS: usize = 8;
const BYTES: usize = 32 * 1024;
/// How many patches are under way at once.
const AT_ONCE: usize = 4;
/// How much more memory the controller may have once it was told all that, in MiB.
const GOAL: f64 = 4.0;

/// How much more memory the controller has after `patches` of one work's status than before.
pub(super) async fn measure(stage: &mut Stage, patches: usize) -> Result<Vec<Measure>> {
    stage.settle().await?;
    let (_, controller) = stage.start_controller().await?;
    stage.quiet().await?;
    let before = Memory::of(controller.pid())?;
    progress(&format!("{patches} patches of {} KiB", TEXTS * BYTES / 1024));
    let requests = (0..patches).map(|turn| patch(stage, turn));
    let took = raw::send(&stage.client, requests.collect::<Result<_>>()?, AT_ONCE).await?;
    stage.quiet().await?;
    let after = Memory::of(controller.pid())?;
    controller.terminate().await?;
    stage.unsettle();
    let what = format!("memory kept of {patches} statuses of {} KiB", TEXTS * BYTES / 1024);
    let detail = format!(
        "over {:.1} MiB; {:.1} MiB more for a moment; in {:.1} s",
        before.resident,
        after.peak - before.resident,
        took.as_secs_f64()
    );
    Ok(vec![Measure::at_most("B11", what, after.resident - before.resident, "MiB", GOAL).detail(detail)])
}

/// A status of the first policy's work in the first cluster, with values that differ from turn to turn.
fn patch(stage: &Stage, turn: usize) -> Result<Ready> {
    let values: Vec<Value> = (0..TEXTS)
        .map(|number| {
            let text = format!("{turn}-{number}-{}", "x".repeat(BYTES));
            json!({
                "name": format!("made-up-{turn}-{number}"),
                "fieldValue": { "type": "String", "string": text },
            })
        })
        .collect();
    let status = json!({ "status": { "resourceStatus": { "manifests": [
        { "resourceMeta": { "ordinal": 0 }, "conditions": [] },
        { "resourceMeta": { "ordinal": 1 }, "conditions": [], "statusFeedback": { "values": values } },
    ] } } });
    let cluster = stage.clusters.first().context("there is no cluster")?;
    let work = stage.scene.work(&stage.controller(), 0);
    let request = raw::works_of(cluster)
        .patch_subresource("status", &work, &PatchParams::default(), &Patch::Merge(status))
        .context("making a patch")?;
    Ok(raw::answered_by_metadata(request))
}
