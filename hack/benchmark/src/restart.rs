//! B4: a restart with everything settled. Measures the writes, and the time until the controller is ready.
//!
//! The raw lister reads the same works in pages on a new connection and decodes them completely, with the best of
//! several page sizes. The lister lists no other kinds, and starts no process.

use anyhow::{Result, ensure};

use super::counts::Counts;
use super::hub::MeasuredHub;
use super::raw;
use super::report::{Measure, progress};
use super::sample::Sample;

/// Compares restarts with raw lists of the same works.
pub(super) async fn measure(hub: &mut MeasuredHub, runs: usize) -> Result<Vec<Measure>> {
    hub.settle().await?;
    let (mut raw, mut controller) = (Vec::new(), Vec::new());
    let before = Counts::now(&hub.client).await?;
    for run in 1..=runs {
        let (listed, found) = raw::list(&hub.hub().client_config(), &hub.selector()).await?;
        ensure!(found >= hub.size(), "the raw list has {found} works");
        let (ready, running) = hub.start_controller().await?;
        hub.quiet().await?;
        running.terminate().await?;
        progress(&format!(
            "restart {run} of {runs}: raw list {:.3} s, ready after {:.3} s",
            listed.as_secs_f64(),
            ready.as_secs_f64()
        ));
        raw.push(listed);
        controller.push(ready);
    }
    let written = Counts::now(&hub.client).await?.since(&before);
    let what = format!("ready after a restart with {} works", hub.size());
    Ok(vec![
        Measure::at_most("B4", format!("{runs} restarts"), written.writes(), "writes", 0.0)
            .detail(written.describe_writes()),
        Measure::ratio("B4", what, &Sample::seconds(&controller), &Sample::seconds(&raw), 1.5),
    ])
}
