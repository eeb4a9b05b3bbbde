//! How long one request may take, answer and all, where somebody has said so, as client-go's `timeout` does.

use std::time::Duration;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use tower::service_fn;

/// How long one request may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestTimeout {
    /// Nobody has said anything: an answer has to begin in good time.
    #[default]
    Unset,
    /// As long as it takes.
    Never,
    /// So long. Of a watch, which goes on, only until it begins.
    After(Duration),
}

impl RequestTimeout {
    /// What a user has said, where 0 is no limit.
    #[must_use]
    pub fn new(limit: Duration) -> Self {
        if limit.is_zero() { Self::Never } else { Self::After(limit) }
    }

    /// `client`, of whose requests none takes longer.
    pub(super) fn limit(self, client: Client) -> Client {
        let Self::After(limit) = self else { return client };
        let namespace = client.default_namespace().to_owned();
        let limited = service_fn(move |request: Request<Body>| {
            let client = client.clone();
            async move {
                let answer = tokio::time::timeout(limit, answer(&client, request)).await;
                answer.map_err(|_| kube::Error::Service(NoAnswer(limit).into()))?
            }
        });
        Client::new(limited, namespace)
    }
}

/// There is no answer yet, or not all of it.
#[derive(Debug, thiserror::Error)]
#[error("no answer within {0:?}")]
struct NoAnswer(Duration);

async fn answer(client: &Client, request: Request<Body>) -> Result<Response<Body>, kube::Error> {
    let watches =
        request.uri().query().is_some_and(|query| query.split('&').any(|part| part == "watch=true"));
    let answer = client.send(request).await?;
    if watches {
        return Ok(answer);
    }
    let (head, body) = answer.into_parts();
    Ok(Response::from_parts(head, body.collect_bytes().await?.into()))
}

#[cfg(test)]
mod tests;
