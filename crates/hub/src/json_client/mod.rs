//! A client of an HTTP server that sends and receives JSON, for example OPA.
//!
//! Requests have a time limit and responses a size limit. Transient errors are retried. Changed token and certificate
//! files are reloaded.

mod address;
mod attempts;
mod files;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, to_bytes};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, Method, Request, StatusCode};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use parking_lot::Mutex;
use serde_json::error::Category;
use tokio::time::{sleep, timeout};

pub use address::{AddressError, ServerAddress};
use attempts::Attempts;
pub use files::{CredentialError, CredentialFiles, Token};

use files::FileContents;
use policy_sync_api::text::with_causes;

/// The time limit for one attempt.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(1);
/// The maximum size of a response body, in bytes.
const MAX_RESPONSE_BYTES: usize = 8 << 20;
/// The [error codes](https://www.openpolicyagent.org/docs/rest-api#errors) of OPA.
const CODES: [&str; 8] = [
    "evaluation_error",
    "internal_error",
    "invalid_operation",
    "invalid_parameter",
    "resource_conflict",
    "resource_not_found",
    "unauthorized",
    "undefined_document",
];
/// The interval at which credential files are checked for changes.
const RELOAD_INTERVAL: Duration = Duration::from_secs(10);
/// The idle time after which a connection is closed. It is shorter than the keep-alive time of common servers.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15);

type HttpClient = Client<HttpsConnector<HttpConnector>, Body>;

/// A client of one server. Clones share its connections.
#[derive(Clone, Debug)]
pub struct JsonClient(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    address: ServerAddress,
    files: CredentialFiles,
    current: Mutex<LoadedCredentials>,
}

/// The credentials as last read, with the connections that use them.
#[derive(Clone, Debug)]
struct LoadedCredentials {
    read: Arc<FileContents>,
    http_client: HttpClient,
    checked_at: Instant,
}

/// A server's response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpResponse {
    /// The HTTP status.
    pub status: StatusCode,
    /// The complete body.
    pub body: Bytes,
    /// The delay that the server requests by `Retry-After`.
    retry_after: Option<Duration>,
}

/// Why there is no usable response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonClientError {
    /// The server cannot be reached, or closed the connection.
    #[error("{address}: {cause}")]
    Unreachable {
        /// The address of the server.
        address: String,
        /// The cause of the failure.
        cause: String,
        /// Whether a retry may succeed.
        is_transient: bool,
    },
    /// The server returned an error status.
    #[error("{address} returned {status}{}", code.map(|code| format!(" ({code})")).unwrap_or_default())]
    ErrorStatus {
        /// The address of the server.
        address: String,
        /// The HTTP status.
        status: StatusCode,
        /// OPA's error code, if the body has one. The body itself is omitted, because it may quote evaluated values.
        code: Option<&'static str>,
    },
    /// The body is not the expected JSON.
    #[error("{address} returned an invalid response: {cause}")]
    InvalidResponse {
        /// The address of the server.
        address: String,
        /// The position of the error in the body.
        cause: String,
    },
}

impl JsonClient {
    /// A client of the server at `address` with the credentials in `files`.
    ///
    /// # Errors
    ///
    /// If the credentials cannot be loaded.
    pub fn new(address: ServerAddress, files: CredentialFiles) -> Result<Self, CredentialError> {
        let read = files.read()?;
        let http_client = http_client(&read)?;
        let current = LoadedCredentials { read: Arc::new(read), http_client, checked_at: Instant::now() };
        Ok(Self(Arc::new(Inner { address, files, current: Mutex::new(current) })))
    }

    /// The server's address.
    #[must_use]
    pub fn address(&self) -> &ServerAddress {
        &self.0.address
    }

    /// Sends a request for `path` below the server's address. Retries transient errors for at most `total_timeout`.
    ///
    /// # Errors
    ///
    /// If no attempt gets a response, or if the last attempt gets a transient error status. Other error statuses are
    /// returned as an [`HttpResponse`].
    pub async fn send_with_retries(
        &self,
        method: Method,
        path: &str,
        body: &Bytes,
        total_timeout: Duration,
    ) -> Result<HttpResponse, JsonClientError> {
        let until = Instant::now() + total_timeout;
        let mut attempts = Attempts::until(until);
        loop {
            let limit = ATTEMPT_TIMEOUT.min(until.saturating_duration_since(Instant::now()));
            let (wait, error) = match self.send_once(method.clone(), path, body.clone(), limit).await {
                Ok(response) if response.is_final() => return Ok(response),
                Ok(response) => (response.retry_after, self.status_error(&response)),
                Err(error @ JsonClientError::Unreachable { is_transient: true, .. }) => (None, error),
                Err(error) => return Err(error),
            };
            match attempts.next(wait) {
                Some(wait) => sleep(wait).await,
                None => return Err(error),
            }
        }
    }

    /// Sends one request for `path` and waits at most `limit`.
    ///
    /// # Errors
    ///
    /// If there is no response in time. An error status is returned as an [`HttpResponse`].
    pub async fn send_once(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        limit: Duration,
    ) -> Result<HttpResponse, JsonClientError> {
        self.send_once_limited(method, path, body, limit, MAX_RESPONSE_BYTES).await
    }

    /// Like [`Self::send_once`], with a response body of at most `bytes`.
    ///
    /// # Errors
    ///
    /// See [`Self::send_once`].
    pub async fn send_once_limited(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        limit: Duration,
        bytes: usize,
    ) -> Result<HttpResponse, JsonClientError> {
        let unreachable = |cause: String, is_transient| JsonClientError::Unreachable {
            address: self.0.address.to_string(),
            cause,
            is_transient,
        };
        let current = self.current();
        let mut request = Request::builder()
            .method(method)
            .uri(self.0.address.at(path))
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/json");
        if let Some(token) = &current.read.token {
            request = request.header(AUTHORIZATION, token.clone());
        }
        let request =
            request.body(Body::from(body)).map_err(|error| unreachable(error.to_string(), false))?;
        let exchange = async {
            let response = current.http_client.request(request).await.map_err(|error| {
                // A retry does not fix an invalid certificate.
                let cause = with_causes(&error);
                let is_tls_error = cause.contains("certificate");
                unreachable(cause, !is_tls_error)
            })?;
            let (head, body) = response.into_parts();
            let body = to_bytes(Body::new(body), bytes);
            let body = body.await.map_err(|error| unreachable(with_causes(&error), true))?;
            Ok(HttpResponse { status: head.status, retry_after: retry_after(&head.headers), body })
        };
        let timed_out = || unreachable(format!("no response within {} ms", limit.as_millis()), true);
        timeout(limit, exchange).await.map_err(|_| timed_out())?
    }

    /// The error for a response with an error status.
    #[must_use]
    pub fn status_error(&self, response: &HttpResponse) -> JsonClientError {
        JsonClientError::ErrorStatus {
            address: self.0.address.to_string(),
            status: response.status,
            code: response.code(),
        }
    }

    /// The error for a body that cannot be parsed. It contains the position. It omits the parser's message, which
    /// quotes values.
    #[must_use]
    pub fn parse_error(&self, error: &serde_json::Error) -> JsonClientError {
        let what = match error.classify() {
            Category::Data => "unexpected structure",
            Category::Eof => "unexpected end",
            Category::Io | Category::Syntax => "invalid JSON",
        };
        let cause = format!("{what} at line {} column {}", error.line(), error.column());
        JsonClientError::InvalidResponse { address: self.0.address.to_string(), cause }
    }

    /// The current credentials. Reloads changed files; if that fails, the previous contents stay in use.
    fn current(&self) -> LoadedCredentials {
        let mut current = self.0.current.lock();
        if current.checked_at.elapsed() >= RELOAD_INTERVAL {
            current.checked_at = Instant::now();
            if let Ok(read) = self.0.files.read()
                && read != *current.read
                && let Ok(http_client) = http_client(&read)
            {
                *current =
                    LoadedCredentials { read: Arc::new(read), http_client, checked_at: current.checked_at };
            }
        }
        current.clone()
    }
}

impl HttpResponse {
    /// Whether the status is final, so that a retry would return an equal status.
    fn is_final(&self) -> bool {
        !matches!(self.status.as_u16(), 408 | 429 | 500 | 502..=504) || self.is_evaluation_error()
    }

    /// OPA's error code in the body.
    fn code(&self) -> Option<&'static str> {
        let body: serde_json::Value = serde_json::from_slice(&self.body).ok()?;
        let found = body["code"].as_str()?;
        CODES.into_iter().find(|code| *code == found)
    }

    /// Whether the body is an error of OPA's evaluation. Such an error recurs at each attempt.
    fn is_evaluation_error(&self) -> bool {
        self.status == StatusCode::INTERNAL_SERVER_ERROR
            && serde_json::from_slice::<serde_json::Value>(&self.body).is_ok_and(|body| {
                let code = body["errors"][0]["code"].as_str().unwrap_or_default();
                code.starts_with("eval_") || code.starts_with("rego_")
            })
    }
}

fn http_client(read: &FileContents) -> Result<HttpClient, CredentialError> {
    let mut tcp = HttpConnector::new();
    // Requests are small, so delaying them to fill packets saves nothing. The TLS layer passes `https` URLs to this
    // connector, which rejects them by default.
    tcp.set_nodelay(true);
    tcp.enforce_http(false);
    let connector = hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(read.tls()?)
        .https_or_http()
        .enable_http1()
        .wrap_connector(tcp);
    Ok(Client::builder(TokioExecutor::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_timer(TokioTimer::new())
        .build(connector))
}

/// Parses `Retry-After` in seconds. Dates are ignored: callers have only a few seconds.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests;
