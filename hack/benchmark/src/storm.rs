//! B7: the status of every work changes, as fast as the hub accepts the patches. A *fold* combines the statuses
//! of a policy's works and writes them to the policy.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::hub::MeasuredHub;
use super::observer::{EventType, Observer};
use super::report::Measure;
use super::sample;
use super::{agents, raw};

/// The default of `--status-window`: the controller folds a policy at most once in this time.
const WINDOW: Duration = Duration::from_secs(1);
/// Goal for the delay of the last fold. The delay starts when a watch delivers the last status, because a busy
/// hub delivers events seconds late.
const LAST_FOLD: Duration = Duration::from_secs(2);
/// Title of the row about the last fold.
const LAST: &str = "last fold after the watch event of the last status";

/// Measures folds while all statuses change, and after the last change.
pub(super) async fn measure(hub: &mut MeasuredHub) -> Result<Vec<Measure>> {
    hub.settle().await?;
    let (_, controller) = hub.start_controller().await?;
    hub.quiet().await?;
    let mut reports = Vec::with_capacity(hub.size());
    hub.pages(async |page| {
        for work in &page {
            reports.push(agents::report(work, "all is well after a storm")?);
        }
        Ok(())
    })
    .await?;
    let works = reports.len();
    let (mut observer, mut status_changes) =
        (Observer::start(&hub.client, &hub.scene.path(), "").await?, hub.observe().await?);
    let took = raw::send(&hub.client, reports, agents::AT_ONCE).await?;
    let last_status = Instant::now();
    hub.quiet().await?;
    controller.terminate().await?;

    let last_change = status_changes.so_far()?.last().context("no status changed")?.at;
    let mut folds: HashMap<String, Vec<Instant>> = HashMap::new();
    for seen in observer.so_far()? {
        if seen.what == EventType::Modified {
            folds.entry(seen.name).or_default().push(seen.at);
        }
    }
    let last_fold = folds.values().flatten().max().context("no status was written")?;
    let after = |moment: Instant| last_fold.saturating_duration_since(moment).as_secs_f64();
    let count: usize = folds.values().map(Vec::len).sum();
    let most = folds.values().map(|folds| writes_a_window(folds)).fold(0.0, f64::max);
    let storm = format!("{works} statuses in {:.1} s", took.as_secs_f64());
    Ok(vec![
        Measure::at_most("B7", "writes a policy and window, the most of any policy", most, "", 1.0)
            .detail(format!("{storm}, {count} writes for {} policies", folds.len())),
        Measure::at_most("B7", LAST, after(last_change), "s", LAST_FOLD.as_secs_f64())
            .detail(format!("{:.3} s after it was answered", after(last_status))),
    ])
}

/// The average number of writes per window. The first write does not count, because it has no delay.
fn writes_a_window(folds: &[Instant]) -> f64 {
    match (folds.first(), folds.last()) {
        (Some(first), Some(last)) if last > first => {
            sample::count(folds.len() - 1) * WINDOW.as_secs_f64() / (*last - *first).as_secs_f64()
        }
        _ => sample::count(folds.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_counted_by_windows() {
        let start = Instant::now();
        let at = |ms: &[u64]| ms.iter().map(|ms| start + Duration::from_millis(*ms)).collect::<Vec<_>>();
        assert!((writes_a_window(&at(&[0, 1000, 2000])) - 1.0).abs() < 1e-9);
        assert!((writes_a_window(&at(&[0, 500, 1000])) - 2.0).abs() < 1e-9);
        assert!(writes_a_window(&at(&[0, 1100, 2300])) < 1.0);
        assert!((writes_a_window(&at(&[0])) - 1.0).abs() < 1e-9);
    }
}
