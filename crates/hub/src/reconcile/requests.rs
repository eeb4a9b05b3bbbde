//! Requests to the hub, limited in number and time. Writes return only metadata, to save memory.
//!
//! A write is sent only while this process leads.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Method, Request, header};
use k8s_openapi::jiff::fmt::rfc2822;
use kube::Client;
use kube::client::Body;
use kube::core::{ObjectList, Status, request};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::{Leadership, ReconcileError};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::GroupVersionResource;
use policy_sync_api::object::{HubObject, Metadata};
use policy_sync_mirror::Projection;

/// The maximum number of concurrent requests.
const MAX_CONCURRENT: usize = 64;
/// The time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The status code for three rejections: a failed test of a JSON Patch, a different uid, and a rejection by a schema or
/// an admission policy.
const UNPROCESSABLE: u16 = 422;
/// The `Accept` header for an object's metadata only.
const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
/// The `Accept` header for a list's metadata only.
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
/// The `Accept` header for whole objects.
const FULL_OBJECT: &str = "application/json";

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The API server rejected the request.
    #[error("{} ({})", .0.message, .0.code)]
    Rejected(Box<Status>),
    /// The API server rejected the request because the object has changed since the decision.
    #[error("{} ({})", .0.message, .0.code)]
    Stale(Box<Status>),
    /// The term ended before the request was sent, or before its response.
    #[error("this process is not the leader")]
    NotLeader,
    /// There was no response within the time limit.
    #[error("no response within {} s", TIMEOUT.as_secs())]
    Timeout,
    /// The connection failed, or the response could not be parsed.
    #[error("no response")]
    Connection(#[source] kube::Error),
    /// The request could not be built.
    #[error("cannot build the request")]
    Build(#[source] request::Error),
}

impl RequestError {
    /// The HTTP status code; 0 without a response.
    pub fn code(&self) -> u16 {
        match self {
            Self::Rejected(status) | Self::Stale(status) => status.code,
            _ => 0,
        }
    }
}

impl ReconcileError for RequestError {
    fn category(&self) -> &'static str {
        match self {
            Self::Rejected(status) => match status.code {
                403 => "forbidden",
                404 => "not_found",
                409 => "conflict",
                429 => "throttled",
                _ => "refused",
            },
            Self::Stale(_) => "conflict",
            Self::NotLeader => "not_leader",
            Self::Timeout => "timeout",
            Self::Connection(_) => "connection",
            Self::Build(_) => "build",
        }
    }

    fn is_expected(&self) -> bool {
        matches!(self, Self::NotLeader)
    }
}

/// The response to a write.
#[derive(Clone, Debug, Deserialize)]
struct WriteResponse {
    #[serde(default)]
    metadata: Metadata,
}

/// Sends requests. Clones share the limit of concurrent requests.
#[derive(Clone)]
pub struct Requests {
    client: Client,
    leadership: Leadership,
    slots: Arc<Semaphore>,
}

impl Requests {
    /// Sends requests with `client`. Writes are sent only while `leadership` permits.
    #[must_use]
    pub fn new(client: Client, leadership: Leadership) -> Self {
        Self { client, leadership, slots: Arc::new(Semaphore::new(MAX_CONCURRENT)) }
    }

    /// Sends a request about one object and returns the object's metadata.
    ///
    /// # Errors
    ///
    /// If the request was rejected or not sent, or if its outcome is unknown (timeout or lost connection).
    pub async fn write(
        &self,
        request: Result<Request<Vec<u8>>, request::Error>,
    ) -> Result<Metadata, RequestError> {
        let written: WriteResponse = self.send(request, METADATA_ONLY).await?;
        Ok(written.metadata)
    }

    /// Reads an object.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub async fn read(
        &self,
        request: Result<Request<Vec<u8>>, request::Error>,
        projection: Projection,
    ) -> Result<HubObject, RequestError> {
        let accept = if projection == Projection::Metadata { METADATA_ONLY } else { FULL_OBJECT };
        self.send(request, accept).await
    }

    /// Sends a write with a precondition, for example a uid or a JSON Patch test. The API server returns 422 both for a
    /// failed precondition and for invalid content. To distinguish the two, `read` reads the object once: the
    /// precondition has failed if the object `is_stale` or cannot be read.
    ///
    /// # Errors
    ///
    /// See [`Requests::write`]. The error is [`RequestError::Stale`] if the precondition failed.
    pub async fn write_guarded(
        &self,
        request: Result<Request<Vec<u8>>, request::Error>,
        read: Result<Request<Vec<u8>>, request::Error>,
        is_stale: impl FnOnce(&Metadata) -> bool,
    ) -> Result<Metadata, RequestError> {
        match self.write(request).await {
            Err(RequestError::Rejected(status)) if status.code == UNPROCESSABLE => {
                let current = self.write(read).await;
                Err(match current {
                    Ok(found) if !is_stale(&found) => RequestError::Rejected(status),
                    _ => RequestError::Stale(status),
                })
            }
            written => written,
        }
    }

    /// Lists one page of objects. Returns the continue token if there is another page.
    ///
    /// # Errors
    ///
    /// If the objects cannot be listed.
    pub async fn list(
        &self,
        request: Result<Request<Vec<u8>>, request::Error>,
        projection: Projection,
    ) -> Result<(Vec<HubObject>, Option<String>), RequestError> {
        let accept = if projection == Projection::Metadata { METADATA_LIST } else { FULL_OBJECT };
        let listed: ObjectList<HubObject> = self.send(request, accept).await?;
        Ok((listed.items, listed.metadata.continue_.filter(|token| !token.is_empty())))
    }

    /// Returns the API server's time from the `Date` header of a response (RFC 9110, section 6.6.1); `None` without
    /// that header.
    ///
    /// # Errors
    ///
    /// If there is no response.
    pub async fn server_time(&self) -> Result<Option<Moment>, RequestError> {
        let request = Request::get("/version").body(Body::empty()).map_err(request::Error::BuildRequest);
        let request = request.map_err(RequestError::Build)?;
        let _slot = self.slots.acquire().await;
        let response = tokio::time::timeout(TIMEOUT, self.client.send(request)).await;
        // Error responses have the header too.
        let response = response.map_err(|_| RequestError::Timeout)?.map_err(RequestError::Connection)?;
        let date = response.headers().get(header::DATE).and_then(|date| date.to_str().ok());
        Ok(date.and_then(http_date))
    }

    async fn send<T: DeserializeOwned>(
        &self,
        request: Result<Request<Vec<u8>>, request::Error>,
        accept: &'static str,
    ) -> Result<T, RequestError> {
        let mut request = request.map_err(RequestError::Build)?;
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static(accept));
        let method = request.method().clone();
        let _slot = self.slots.acquire().await;
        // Leadership is checked as late as possible, after the wait for a slot.
        let term = match method {
            Method::GET => None,
            _ => Some(self.leadership.until().ok_or(RequestError::NotLeader)?),
        };
        let limit = Instant::now() + TIMEOUT;
        tokio::select! {
            // The timer is polled before the request. So a process that was suspended beyond its term sends nothing.
            biased;
            () = tokio::time::sleep_until(term.unwrap_or(limit).min(limit)) => match term {
                Some(term) if term < limit => Err(RequestError::NotLeader),
                _ => Err(RequestError::Timeout),
            },
            response = self.client.request(request) => response.map_err(|error| match error {
                kube::Error::Api(status) => RequestError::Rejected(status),
                error => RequestError::Connection(error),
            }),
        }
    }
}

/// Parses an HTTP date: `Sun, 06 Nov 1994 08:49:37 GMT`.
fn http_date(text: &str) -> Option<Moment> {
    let moment = rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    Some(Moment(moment.as_millisecond()))
}

/// A request builder for the objects of `gvr` in `namespace`. An empty namespace means all namespaces, or a
/// cluster-scoped kind.
pub fn of_kind(gvr: &GroupVersionResource, namespace: &str) -> request::Request {
    request::Request::new(gvr.path(namespace))
}

#[cfg(test)]
mod tests;
