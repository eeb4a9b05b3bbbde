//! B8: writes and processor time while nothing changes for some minutes and metrics are scraped. R7: the same
//! values with Rego policies.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::counts::Counts;
use super::hub::MeasuredHub;
use super::rego_policies::POLICIES;
use super::report::{Measure, progress};
use super::scrape::scraped;
use super::usage::processor_time;

/// Writes and processor time of a settled controller.
pub(super) async fn measure(hub: &mut MeasuredHub, duration: Duration) -> Result<Vec<Measure>> {
    let works = hub.size();
    measured(hub, "B8", &format!("{works} works"), duration).await
}

/// Like [`measure`], with Rego policies and documents.
pub(super) async fn with_policies(
    hub: &mut MeasuredHub,
    documents: usize,
    duration: Duration,
) -> Result<Vec<Measure>> {
    let what = format!("{POLICIES} policies, {documents} documents, {} works", hub.size());
    measured(hub, "R7", &what, duration).await
}

async fn measured(
    hub: &mut MeasuredHub,
    id: &'static str,
    what: &str,
    duration: Duration,
) -> Result<Vec<Measure>> {
    hub.settle().await?;
    let (_, controller) = hub.start_controller().await?;
    hub.quiet().await?;
    progress(&format!("idle for {duration:?}"));
    let (requests, time, started) =
        (Counts::now(&hub.client).await?, processor_time(controller.pid())?, Instant::now());
    let wait = async {
        tokio::time::sleep(duration).await;
        Ok(())
    };
    let ((), scrape) = scraped(&controller, wait).await?;
    let (took, elapsed) = (processor_time(controller.pid())? - time, started.elapsed());
    let written = Counts::now(&hub.client).await?.since(&requests);
    controller.terminate().await?;
    let seconds = duration.as_secs();
    let share = 100.0 * took.as_secs_f64() / elapsed.as_secs_f64();
    Ok(vec![
        Measure::at_most(id, format!("{seconds} s idle, {what}"), written.writes(), "writes", 0.0)
            .detail(written.describe_writes()),
        Measure::at_most(id, format!("{seconds} s idle, of a core"), share, "%", 0.5),
        Measure::at_most(id, "longest scrape", 1e3 * scrape.as_secs_f64(), "ms", 50.0),
    ])
}
