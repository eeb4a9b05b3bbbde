//! B8: nothing happens, for some minutes.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::counts::Counts;
use super::report::{Measure, progress};
use super::stage::Stage;
use super::usage::processor_time;

/// Writes and processor time while everything is settled.
pub(super) async fn measure(stage: &mut Stage, duration: Duration) -> Result<Vec<Measure>> {
    stage.settle().await?;
    let (_, controller) = stage.start_controller().await?;
    stage.quiet().await?;
    progress(&format!("idle for {duration:?}"));
    let (requests, time, started) =
        (Counts::now(&stage.client).await?, processor_time(controller.pid())?, Instant::now());
    tokio::time::sleep(duration).await;
    let (took, elapsed) = (processor_time(controller.pid())? - time, started.elapsed());
    let written = Counts::now(&stage.client).await?.since(&requests);
    controller.terminate().await?;
    let (works, seconds) = (stage.size(), duration.as_secs());
    let share = 100.0 * took.as_secs_f64() / elapsed.as_secs_f64();
    Ok(vec![
        Measure::at_most("B8", format!("{seconds} s idle, {works} works"), written.writes(), "writes", 0.0)
            .detail(written.describe_writes()),
        Measure::at_most("B8", format!("{seconds} s idle, of a core"), share, "%", 0.5),
    ])
}
