//! How long an answer is waited for.

use std::future::Future;
use std::io;
use std::time::Duration;

use kube::Error;
use tokio::time::timeout;

/// Longer than the hub itself takes for anything but a watch: it gives up after a minute, where its operator says nothing
/// else. What comes later than that never comes, and what waits for it, such as Gateways for a kind that nobody knows
/// of yet, waits no longer.
pub const ANSWERED_WITHIN: Duration = Duration::from_secs(65);

/// What `request` is answered, or that it is not.
///
/// # Errors
///
/// Those of `request`; [`Error::Service`] where there is no answer in time.
pub async fn answered<T>(request: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    timeout(ANSWERED_WITHIN, request).await.unwrap_or_else(|_| {
        let fault = format!("no answer in {} s", ANSWERED_WITHIN.as_secs());
        Err(Error::Service(io::Error::new(io::ErrorKind::TimedOut, fault).into()))
    })
}
