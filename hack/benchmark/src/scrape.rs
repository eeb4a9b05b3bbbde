//! Scrapes a controller's metrics every 15 s, as Prometheus does.

use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::Result;
use policy_sync_testenv::Controller;
use tokio::time::{MissedTickBehavior, interval};

const EVERY: Duration = Duration::from_secs(15);

/// Scrapes the metrics of `controller` while `work` runs, at least once. Returns the duration of the longest
/// scrape.
pub(super) async fn scraped<T>(
    controller: &Controller,
    work: impl Future<Output = Result<T>>,
) -> Result<(T, Duration)> {
    let mut work = pin!(work);
    let mut every = interval(EVERY);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut longest = Duration::ZERO;
    loop {
        tokio::select! {
            biased;
            _ = every.tick() => {
                let started = Instant::now();
                controller.metrics().await?;
                longest = longest.max(started.elapsed());
            }
            done = &mut work => return Ok((done?, longest)),
        }
    }
}
