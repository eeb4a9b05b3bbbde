//! Polls for conditions with a time limit.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Poll interval.
const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// Calls `look` until it succeeds, for at most `limit`.
///
/// # Errors
///
/// Returns an error with `what` and the last error of `look` after the limit.
pub async fn until<T, F>(what: &str, limit: Duration, look: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    until_seen(what, limit, POLL_INTERVAL, look).await
}

/// Like [`until`], with a longer poll interval for expensive checks.
///
/// # Errors
///
/// Returns the errors of [`until`].
pub async fn until_seen<T, F>(
    what: &str,
    limit: Duration,
    every: Duration,
    mut look: impl FnMut() -> F,
) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let start = Instant::now();
    loop {
        let missing = match look().await {
            Ok(value) => return Ok(value),
            Err(missing) => missing,
        };
        if start.elapsed() > limit {
            bail!("{what}: not within {limit:?}: {missing:#}");
        }
        tokio::time::sleep(every).await;
    }
}
