//! T7: the cost of the topology on a hub without routes. Compares measurements with the topology and without it.

use anyhow::Result;

use crate::Options;
use crate::fan_out;
use crate::hub::MeasuredHub;
use crate::report::{Measure, progress};
use crate::sample::Sample;
use crate::usage::Memory;

const TIME_GOAL: f64 = 1.05;
/// Goal for the additional memory, in MiB.
const MEMORY_GOAL: f64 = 1.0;

/// Measurements with the topology, or without it.
#[derive(Default)]
struct ArmMeasurements {
    fan_out: Vec<std::time::Duration>,
    restart: Vec<std::time::Duration>,
    settled: Vec<f64>,
}

/// Measures fan-outs, restarts and settled memory with the topology and without it, in turns.
pub(crate) async fn measure(hub: &mut MeasuredHub, options: &Options) -> Result<Vec<Measure>> {
    let mut arms = [ArmMeasurements::default(), ArmMeasurements::default()];
    for run in 1..=options.runs {
        for place in [run % 2, (run + 1) % 2] {
            hub.topology = place == 1;
            one(hub, &mut arms[place]).await?;
        }
        progress(&format!("with and without the topology: {run} of {}", options.runs));
    }
    hub.topology = false;
    let [off, on] = arms;
    let ratio = |what: String, of: fn(&ArmMeasurements) -> &Vec<std::time::Duration>| {
        Measure::ratio("T7", what, &Sample::seconds(of(&on)), &Sample::seconds(of(&off)), TIME_GOAL)
    };
    let (with, without) =
        (Sample::new(on.settled.clone()).median(), Sample::new(off.settled.clone()).median());
    let works = hub.size();
    Ok(vec![
        ratio(format!("fan-out of {works} works, --topology over without"), |arm| &arm.fan_out),
        ratio(format!("ready after a restart with {works} works, the same"), |arm| &arm.restart),
        Measure::at_most("T7", "settled memory more", with - without, "MiB", MEMORY_GOAL)
            .detail(format!("{with:.1} against {without:.1} MiB")),
    ])
}

async fn one(hub: &mut MeasuredHub, arm: &mut ArmMeasurements) -> Result<()> {
    hub.clear().await?;
    let (took, controller) = fan_out::by_controller(hub).await?;
    hub.report_all("all is well").await?;
    hub.quiet().await?;
    controller.terminate().await?;
    hub.mark_settled();
    let (ready, controller) = hub.start_controller().await?;
    hub.quiet().await?;
    let memory = Memory::of_process(controller.pid())?;
    controller.terminate().await?;
    arm.fan_out.push(took);
    arm.restart.push(ready);
    arm.settled.push(memory.resident);
    Ok(())
}
