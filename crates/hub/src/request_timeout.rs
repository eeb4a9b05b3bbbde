//! Time limits of requests: a limit that users set, like the `timeout` of client-go, and a fixed limit for lists and
//! watches.

use std::io;
use std::time::Duration;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use tokio::time::timeout;
use tower::service_fn;

/// The time limit for a response. It is longer than the API server's own limit for requests other than watches, which
/// is one minute by default. Without a limit, a lost response would block everything that needs the first list. An
/// example is a Gateway with policies of a kind that is not listed yet.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(65);

/// The time limit of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestTimeout {
    /// The user set no limit. Commands use defaults for the connection and the first byte.
    #[default]
    Unset,
    /// Requests have no time limit.
    Never,
    /// This limit. For a watch, it applies until the watch begins.
    After(Duration),
}

impl RequestTimeout {
    /// The limit that a user has set; 0 means no limit.
    #[must_use]
    pub fn new(limit: Duration) -> Self {
        if limit.is_zero() { Self::Never } else { Self::After(limit) }
    }

    /// Applies the limit to all requests of `client`.
    pub(super) fn limit(self, client: Client) -> Client {
        let Self::After(limit) = self else { return client };
        let namespace = client.default_namespace().to_owned();
        let limited = service_fn(move |request: Request<Body>| {
            let client = client.clone();
            async move {
                let response = timeout(limit, response(&client, request)).await;
                response.map_err(|_| kube::Error::Service(NoResponse(limit).into()))?
            }
        });
        Client::new(limited, namespace)
    }
}

/// The response did not arrive completely within the limit.
#[derive(Debug, thiserror::Error)]
#[error("no response within {0:?}")]
struct NoResponse(Duration);

async fn response(client: &Client, request: Request<Body>) -> Result<Response<Body>, kube::Error> {
    let is_watch =
        request.uri().query().is_some_and(|query| query.split('&').any(|part| part == "watch=true"));
    let response = client.send(request).await?;
    if is_watch {
        return Ok(response);
    }
    let (head, body) = response.into_parts();
    Ok(Response::from_parts(head, body.collect_bytes().await?.into()))
}

/// Limits the wait for the response of `request` to [`RESPONSE_TIMEOUT`].
///
/// # Errors
///
/// The errors of `request`, and [`kube::Error::Service`] if there is no response in time.
pub async fn with_response_timeout<T>(
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, kube::Error> {
    timeout(RESPONSE_TIMEOUT, request).await.unwrap_or_else(|_| {
        let fault = format!("no response within {} s", RESPONSE_TIMEOUT.as_secs());
        Err(kube::Error::Service(io::Error::new(io::ErrorKind::TimedOut, fault).into()))
    })
}

#[cfg(test)]
mod tests;
