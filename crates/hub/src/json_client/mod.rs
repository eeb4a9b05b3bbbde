//! A client of a server that is asked in JSON: bounded in time and in bytes, asked again where that may help, with a token and
//! certificates of files that are read again as they change.

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

pub use address::{Address, AddressFault};
use attempts::Attempts;
pub use files::{FileError, Files, Token};

use files::Read;
use policy_sync_api::text::with_causes;

/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(1);
/// The most bytes of an answer.
const ANSWER: usize = 8 << 20;
/// The [codes](https://www.openpolicyagent.org/docs/rest-api#errors) of OPA's errors.
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
/// How often it is looked whether files have changed.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// How long a connection may be idle: less than servers keep one.
const IDLE: Duration = Duration::from_secs(15);

type Connections = Client<HttpsConnector<HttpConnector>, Body>;

/// Asks one server. Clones ask the same.
#[derive(Clone, Debug)]
pub struct JsonClient(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    address: Address,
    files: Files,
    current: Mutex<Current>,
}

/// What is asked with, as the files were when they were last read.
#[derive(Clone, Debug)]
struct Current {
    read: Arc<Read>,
    connections: Connections,
    looked: Instant,
}

/// What a server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// How.
    pub status: StatusCode,
    /// What.
    pub body: Bytes,
    /// When it may be asked again, where it says so.
    retry_after: Option<Duration>,
}

/// Why there is no answer that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// It cannot be reached, or ends the connection.
    #[error("{address}: {why}")]
    Unreached {
        /// The server.
        address: String,
        /// Why.
        why: String,
        /// Whether that may pass by itself.
        may_pass: bool,
    },
    /// It answers that it cannot.
    #[error("{address} answers {status}{}", code.map(|code| format!(" ({code})")).unwrap_or_default())]
    Refused {
        /// The server.
        address: String,
        /// How.
        status: StatusCode,
        /// OPA's error code, if the body has one. The body may quote evaluated values.
        code: Option<&'static str>,
    },
    /// It answers with something else than what was asked.
    #[error("{address} answers what cannot be read: {why}")]
    Unread {
        /// The server.
        address: String,
        /// Why it cannot be read.
        why: String,
    },
}

impl JsonClient {
    /// A client of the server at `address`, with what is in `files`.
    ///
    /// # Errors
    ///
    /// Where these cannot be read.
    pub fn new(address: Address, files: Files) -> Result<Self, FileError> {
        let read = files.read()?;
        let connections = connections(&read)?;
        let current = Current { read: Arc::new(read), connections, looked: Instant::now() };
        Ok(Self(Arc::new(Inner { address, files, current: Mutex::new(current) })))
    }

    /// The server.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.0.address
    }

    /// Asks for `path`, below the server's own, again where that may help, for `patience` at most.
    ///
    /// # Errors
    ///
    /// Where there is no answer, or one that says that it cannot be given.
    pub async fn ask(
        &self,
        method: Method,
        path: &str,
        body: &Bytes,
        patience: Duration,
    ) -> Result<Answer, AskError> {
        let until = Instant::now() + patience;
        let mut attempts = Attempts::until(until);
        loop {
            let limit = ATTEMPT.min(until.saturating_duration_since(Instant::now()));
            let (wait, error) = match self.once(method.clone(), path, body.clone(), limit).await {
                Ok(answer) if answer.is_of_use() => return Ok(answer),
                Ok(answer) => (answer.retry_after, self.refused(&answer)),
                Err(error @ AskError::Unreached { may_pass: true, .. }) => (None, error),
                Err(error) => return Err(error),
            };
            match attempts.next(wait) {
                Some(wait) => sleep(wait).await,
                None => return Err(error),
            }
        }
    }

    /// Asks for `path` once, for `limit` at most.
    ///
    /// # Errors
    ///
    /// Where there is no answer.
    pub async fn once(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        limit: Duration,
    ) -> Result<Answer, AskError> {
        self.once_within(method, path, body, limit, ANSWER).await
    }

    /// Like [`Self::once`], with a response of at most `bytes`.
    ///
    /// # Errors
    ///
    /// As [`Self::once`].
    pub async fn once_within(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        limit: Duration,
        bytes: usize,
    ) -> Result<Answer, AskError> {
        let unreached = |why: String, may_pass| AskError::Unreached {
            address: self.0.address.to_string(),
            why,
            may_pass,
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
        let request = request.body(Body::from(body)).map_err(|error| unreached(error.to_string(), false))?;
        let asking = async {
            let response = current.connections.request(request).await.map_err(|error| {
                // What is wrong with certificates stays so.
                let why = with_causes(&error);
                let is_of_tls = why.contains("certificate");
                unreached(why, !is_of_tls)
            })?;
            let (head, body) = response.into_parts();
            let body = to_bytes(Body::new(body), bytes);
            let body = body.await.map_err(|error| unreached(with_causes(&error), true))?;
            Ok(Answer { status: head.status, retry_after: retry_after(&head.headers), body })
        };
        let late = || unreached(format!("no answer within {} ms", limit.as_millis()), true);
        timeout(limit, asking).await.map_err(|_| late())?
    }

    /// That what it answers is no answer.
    #[must_use]
    pub fn refused(&self, answer: &Answer) -> AskError {
        AskError::Refused { address: self.0.address.to_string(), status: answer.status, code: answer.code() }
    }

    /// The error for a body that cannot be parsed: its place, without the parser's message, which quotes values.
    #[must_use]
    pub fn unread(&self, error: &serde_json::Error) -> AskError {
        let what = match error.classify() {
            Category::Data => "another shape is expected",
            Category::Eof => "it ends too soon",
            Category::Io | Category::Syntax => "it is no JSON",
        };
        let why = format!("{what} at line {} column {}", error.line(), error.column());
        AskError::Unread { address: self.0.address.to_string(), why }
    }

    /// What is asked with now. Files that cannot be read any more leave what was in them.
    fn current(&self) -> Current {
        let mut current = self.0.current.lock();
        if current.looked.elapsed() >= LOOK_EVERY {
            current.looked = Instant::now();
            if let Ok(read) = self.0.files.read()
                && read != *current.read
                && let Ok(connections) = connections(&read)
            {
                *current = Current { read: Arc::new(read), connections, looked: current.looked };
            }
        }
        current.clone()
    }
}

impl Answer {
    /// Whether it is an answer, and no word that it may be given later.
    fn is_of_use(&self) -> bool {
        !matches!(self.status.as_u16(), 408 | 429 | 500 | 502..=504) || self.is_of_evaluation()
    }

    /// OPA's error code in the body.
    fn code(&self) -> Option<&'static str> {
        let body: serde_json::Value = serde_json::from_slice(&self.body).ok()?;
        let found = body["code"].as_str()?;
        CODES.into_iter().find(|code| *code == found)
    }

    /// Whether it is that an evaluation fails, which it does each time.
    fn is_of_evaluation(&self) -> bool {
        self.status == StatusCode::INTERNAL_SERVER_ERROR
            && serde_json::from_slice::<serde_json::Value>(&self.body).is_ok_and(|body| {
                let code = body["errors"][0]["code"].as_str().unwrap_or_default();
                code.starts_with("eval_") || code.starts_with("rego_")
            })
    }
}

fn connections(read: &Read) -> Result<Connections, FileError> {
    let mut tcp = HttpConnector::new();
    // Questions are small. TLS comes on top of it.
    tcp.set_nodelay(true);
    tcp.enforce_http(false);
    let connector = hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(read.tls()?)
        .https_or_http()
        .enable_http1()
        .wrap_connector(tcp);
    Ok(Client::builder(TokioExecutor::new())
        .pool_idle_timeout(IDLE)
        .pool_timer(TokioTimer::new())
        .build(connector))
}

/// The seconds that a server says; a date is of no use to whoever has four of them.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests;
