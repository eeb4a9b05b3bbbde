//! B1: cold fan-out. Everything exists except works. Measures the time from the controller's start until all works of
//! policies exist.
//!
//! The measurements of the controller and of the raw writer end when the harness's watch delivers the last of these
//! works. The controller's time includes its start, its lists, the Lease, and the works of Gateways and of access,
//! which the raw writer does not create.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::hub::{MeasuredHub, WorkBody};
use super::observer::ObservedEvent;
use super::raw;
use super::report::{Measure, progress};
use super::sample::Sample;
use policy_sync_testenv::Controller;

/// Number of works for each concurrency that the raw writer tries.
const TRIAL: usize = 2_000;

/// Measures cold fan-outs, and raw creates of the same works.
pub(super) async fn measure(hub: &mut MeasuredHub, runs: usize) -> Result<Vec<Measure>> {
    let works = hub.works().await?;
    let at_once = raw::best(async |at_once| {
        hub.clear().await?;
        by_raw(hub, &works[..works.len().min(TRIAL)], at_once).await
    })
    .await?;
    let (mut raw, mut controller) = (Vec::new(), Vec::new());
    for run in 1..=runs {
        hub.clear().await?;
        raw.push(by_raw(hub, &works, at_once).await?);
        hub.clear().await?;
        let (took, running) = by_controller(hub).await?;
        controller.push(took);
        running.terminate().await?;
        progress(&format!(
            "fan-out {run} of {runs}: raw {:.3} s, controller {:.3} s",
            raw[run - 1].as_secs_f64(),
            took.as_secs_f64()
        ));
    }
    let measure = format!("cold fan-out of {} works, {at_once} raw creates at once", hub.size());
    Ok(vec![Measure::ratio("B1", measure, &Sample::seconds(&controller), &Sample::seconds(&raw), 1.15)])
}

/// Sends the creates, and returns the time until the last of these works exists.
pub(super) async fn by_raw(hub: &MeasuredHub, works: &[WorkBody], at_once: usize) -> Result<Duration> {
    let creates = works.iter().map(WorkBody::create).collect::<Result<Vec<_>>>()?;
    let mut observer = hub.observe().await?;
    let started = Instant::now();
    let (_, last) = tokio::try_join!(
        raw::send(&hub.client, creates, at_once),
        observer.until(works.len(), ObservedEvent::added)
    )?;
    Ok(last - started)
}

/// Starts the controller, and returns it with the time until all works of policies exist.
pub(super) async fn by_controller(hub: &MeasuredHub) -> Result<(Duration, Controller)> {
    let mut observer = hub.observe().await?;
    let started = Instant::now();
    let controller = hub.launch()?;
    let last = observer.until(hub.size(), ObservedEvent::added).await?;
    Ok((last - started, controller))
}
