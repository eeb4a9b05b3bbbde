//! B6: the memory of the controller in comparison with an idle controller, while metrics are scraped.

use std::time::Duration;

use anyhow::Result;

use super::fan_out;
use super::hub::MeasuredHub;
use super::report::{Measure, progress};
use super::sample;
use super::scrape::scraped;
use super::usage::Memory;

/// Number of works that the goals apply to.
const GOALS_ARE_FOR: f64 = 10_000.0;

/// Time and memory of a fan-out with statuses.
pub(super) struct Footprint {
    pub(super) fan_out: Duration,
    /// Settled memory above the memory of an idle controller, in MiB.
    pub(super) settled: f64,
    /// Peak memory above the memory of an idle controller, in MiB.
    peak: f64,
}

/// Measures settled memory, and the peaks of a first fan-out and of a restart.
pub(super) async fn measure(hub: &mut MeasuredHub) -> Result<Vec<Measure>> {
    let idle = idle(hub).await?;
    let footprint = footprint(hub, idle).await?;
    let (_, restarted) = hub.start_controller().await?;
    scraped(&restarted, hub.quiet()).await?;
    let after_restart = Memory::of_process(restarted.pid())?;
    restarted.terminate().await?;
    let works = sample::count(hub.size());
    // Goals are not lower for fewer works, because then most memory belongs to the allocator.
    let goal = |mib: f64| mib * (works / GOALS_ARE_FOR).max(1.0);
    let row = |what: &str, value: f64, mib: f64| {
        Measure::at_most("B6", format!("{what}, {works} works"), value, "MiB", goal(mib))
    };
    Ok(vec![
        row("settled", footprint.settled, 15.0).detail(format!("over an idle controller's {idle:.1} MiB")),
        row("settled after a restart", after_restart.resident - idle, 15.0),
        row("peak of a first fan-out", footprint.peak, 30.0),
        row("peak of a restart", after_restart.peak - idle, 30.0),
    ])
}

/// The memory of a controller without policies.
pub(super) async fn idle(hub: &mut MeasuredHub) -> Result<f64> {
    let policies = hub.policies;
    hub.clear().await?;
    hub.set_policies(0).await?;
    let (_, controller) = hub.start_controller().await?;
    scraped(&controller, hub.quiet()).await?;
    let memory = Memory::of_process(controller.pid())?;
    controller.terminate().await?;
    hub.set_policies(policies).await?;
    progress(&format!("idle: {:.1} MiB", memory.resident));
    Ok(memory.resident)
}

/// A first fan-out with all statuses. Afterwards the hub is settled, and no controller runs.
pub(super) async fn footprint(hub: &mut MeasuredHub, idle: f64) -> Result<Footprint> {
    hub.clear().await?;
    let (fan_out, controller) = fan_out::by_controller(hub).await?;
    let settle = async {
        hub.report_all("all is well").await?;
        hub.quiet().await
    };
    scraped(&controller, settle).await?;
    let Memory { resident, peak } = Memory::of_process(controller.pid())?;
    controller.terminate().await?;
    hub.mark_settled();
    progress(&format!("{} works: {resident:.1} MiB, at most {peak:.1} MiB", hub.size()));
    Ok(Footprint { fan_out, settled: resident - idle, peak: peak - idle })
}
