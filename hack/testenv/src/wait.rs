//! Waiting for something to become true, with a limit.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How often it is looked.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// Looks until `look` gives a value, for at most `limit`.
///
/// # Errors
///
/// That `what` did not happen, with what `look` last said about why not.
pub async fn until<T, F>(what: &str, limit: Duration, look: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    until_seen(what, limit, LOOK_EVERY, look).await
}

/// The same for what costs much to look at: it looks only so often.
///
/// # Errors
///
/// As [`until`].
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
