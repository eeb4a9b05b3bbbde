//! Requests at a rate, however long each takes.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::task::JoinSet;
use tokio::time::interval;

/// Sends `count` requests, by their numbers, so many a second, and returns how long each took from when it was due: one that waits
/// for others is late.
pub(super) async fn at_rate<F>(
    rate: usize,
    count: usize,
    request: impl Fn(usize) -> F,
) -> Result<Vec<Duration>>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let mut every = interval(Duration::from_secs(1) / u32::try_from(rate).context("a rate")?);
    let mut sent = JoinSet::new();
    for number in 0..count {
        let due = every.tick().await;
        let request = request(number);
        sent.spawn(async move { request.await.map(|()| due.elapsed()) });
    }
    let mut took = Vec::new();
    while let Some(one) = sent.join_next().await {
        took.push(one.context("a request ended early")??);
    }
    Ok(took)
}
