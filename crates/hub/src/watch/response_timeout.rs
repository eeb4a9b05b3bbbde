//! The time limit for responses to lists and watches.

use std::future::Future;
use std::io;
use std::time::Duration;

use kube::Error;
use tokio::time::timeout;

/// Longer than the API server's own limit for requests other than watches, one minute by default. Without a limit, a
/// lost response would block everything that needs the first list, for example Gateways with policies of a kind that is
/// not listed yet.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(65);

/// Limits the wait for the response of `request` to [`RESPONSE_TIMEOUT`].
///
/// # Errors
///
/// Those of `request`; [`Error::Service`] if there is no response in time.
pub async fn with_response_timeout<T>(request: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    timeout(RESPONSE_TIMEOUT, request).await.unwrap_or_else(|_| {
        let fault = format!("no response within {} s", RESPONSE_TIMEOUT.as_secs());
        Err(Error::Service(io::Error::new(io::ErrorKind::TimedOut, fault).into()))
    })
}
