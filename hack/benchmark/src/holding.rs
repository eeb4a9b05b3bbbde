//! R4: the memory of documents in the controller, and in an OPA server with the same documents.

use anyhow::Result;
use policy_sync_testenv::Opa;

use super::Options;
use super::documents::{self, PODS, Variety};
use super::hub::MeasuredHub;
use super::rego_policies;
use super::report::{Measure, progress};
use super::usage::Memory;

/// Goal for the documents' memory as a fraction of OPA's memory.
const RATIO_GOAL: f64 = 0.4;

/// Memory of a controller with the embedded engine, and of an OPA server filled by another controller.
#[derive(Clone, Copy, Debug)]
struct MemoryUse {
    controller: Memory,
    opa: Memory,
}

/// The controller's additional memory with documents, and its ratio to OPA's memory.
pub(super) async fn measure(hub: &MeasuredHub, options: &Options) -> Result<Vec<Measure>> {
    rego_policies::set(hub).await?;
    let idle = held(hub, 0, options).await?;
    let mut measures = Vec::new();
    for (variety, goal) in [(Variety::Different, 90.0), (Variety::Alike, 40.0)] {
        documents::fill(&hub.client, options.documents, variety).await?;
        let held = held(hub, options.documents, options).await?;
        documents::clear(&hub.client, PODS, documents::namespaces()).await?;
        let over = held.controller.resident - idle.controller.resident;
        let what = format!("{} documents of 1.2 KB, {}", options.documents, variety.words());
        measures.extend([
            Measure::at_most("R4", format!("memory of {what}"), over, "MiB", goal).detail(format!(
                "over {:.1} MiB; {:.1} MiB more for a moment",
                idle.controller.resident,
                held.controller.peak - idle.controller.resident
            )),
            Measure::at_most(
                "R4",
                format!("memory of {what}, over OPA's"),
                over / held.opa.resident,
                "×",
                RATIO_GOAL,
            )
            .detail(format!(
                "OPA has {:.1} MiB, {:.1} MiB when it has only the modules, {:.1} MiB for a moment",
                held.opa.resident, idle.opa.resident, held.opa.peak
            )),
        ]);
    }
    Ok(measures)
}

async fn held(hub: &MeasuredHub, pods: usize, options: &Options) -> Result<MemoryUse> {
    let embedded = rego_policies::start(hub, pods, &[]).await?;
    let server = Opa::start().await?;
    let filling = rego_policies::start(hub, pods, &[format!("--opa-url={}", server.url())]).await?;
    tokio::time::sleep(options.settles).await;
    let (controller, opa) = (Memory::of_process(embedded.pid())?, Memory::of_process(server.pid())?);
    embedded.terminate().await?;
    filling.terminate().await?;
    progress(&format!("{pods} pods: {:.1} MiB, OPA {:.1} MiB", controller.resident, opa.resident));
    Ok(MemoryUse { controller, opa })
}
