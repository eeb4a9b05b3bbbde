//! B4: a restart with everything settled: what is written, and how soon the controller is ready.
//!
//! The raw lister pages through the same works on a connection of its own and decodes each whole, with the best of some
//! page sizes. It knows no other kind, and starts no process.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::counts::Counts;
use super::raw;
use super::report::{Measure, progress};
use super::sample::Sample;
use super::stage::Stage;
use crate::Controller;

/// How often a starting controller is asked whether it is ready: more often than in tests, as this is measured.
const ASK_EVERY: Duration = Duration::from_millis(2);
/// How long a start may take.
const LIMIT: Duration = Duration::from_secs(120);

/// Restarts against raw lists of the same works.
pub(super) async fn measure(stage: &mut Stage, runs: usize) -> Result<Vec<Measure>> {
    stage.settle().await?;
    let (mut raw, mut controller) = (Vec::new(), Vec::new());
    let before = Counts::now(&stage.client).await?;
    for run in 1..=runs {
        let (listed, found) = raw::list(&stage.hub().client_config(), &stage.selector()).await?;
        ensure!(found >= stage.size(), "the raw lister found {found} works");
        let (ready, running) = until_ready(stage).await?;
        stage.quiet().await?;
        running.terminate().await?;
        progress(&format!(
            "restart {run} of {runs}: raw list {:.3} s, ready after {:.3} s",
            listed.as_secs_f64(),
            ready.as_secs_f64()
        ));
        raw.push(listed);
        controller.push(ready);
    }
    let written = Counts::now(&stage.client).await?.since(&before);
    let what = format!("ready after a restart with {} works", stage.size());
    Ok(vec![
        Measure::at_most("B4", format!("{runs} restarts"), written.writes(), "writes", 0.0)
            .detail(written.describe_writes()),
        Measure::ratio("B4", what, &Sample::seconds(&controller), &Sample::seconds(&raw), 1.5),
    ])
}

/// Starts the controller, and returns it with the time until it was ready.
pub(super) async fn until_ready(stage: &Stage) -> Result<(Duration, Controller)> {
    let started = Instant::now();
    let controller = stage.launch()?;
    // Until it listens there is no answer.
    while !matches!(controller.readiness().await, Ok((200, _))) {
        ensure!(started.elapsed() < LIMIT, "the controller is not ready; its log: {}", controller.log()?);
        tokio::time::sleep(ASK_EVERY).await;
    }
    Ok((started.elapsed(), controller))
}
