//! Reads request bodies with limits on size, time and memory. Memory is limited for all bodies together and for each
//! client address.

mod memory;

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode, header};
use futures::StreamExt;
use tokio::time::{Instant, timeout_at};

use self::memory::{BodyMemory, Reservation};
use policy_sync_connections::ClientConnection;

/// How long a body may take to arrive, and also how long it may wait for memory. Both times count from the start of the
/// request.
const READ_TIMEOUT: Duration = Duration::from_secs(3);
const MEMORY_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum size of a small body, in KiB. Nearly all bodies are small.
const MAX_SMALL_KIB: usize = 16;

/// A limit in KiB that the bodies of all connections together cannot reach.
const UNBOUNDED: usize = usize::MAX >> 2;

/// The response for a rejected request.
pub(super) type Rejection = (StatusCode, String);

/// The verdict that metrics record for a rejected request.
pub(super) fn verdict((code, _): &Rejection) -> &'static str {
    if *code == StatusCode::SERVICE_UNAVAILABLE { "too_many" } else { "invalid" }
}

/// Reads bodies. Clones share the memory limits.
#[derive(Clone, Debug)]
pub(super) struct Bodies {
    /// Maximum size of a body, in MiB.
    max_mib: usize,
    /// Memory for bodies whose declared length is small. These bodies never wait, because the limit on connections also
    /// limits their number.
    small: BodyMemory,
    /// Memory for all other bodies.
    large: BodyMemory,
}

impl Bodies {
    /// Allows bodies of up to `max_mib` MiB each. All large bodies together may take `all` MiB of memory.
    pub(super) fn new(max_mib: usize, all: usize) -> Self {
        Self { max_mib, small: BodyMemory::new(UNBOUNDED), large: BodyMemory::new(all << 10) }
    }

    /// Reads the JSON body of a request that began at `began`, and parses it with `read`. Also returns the body's
    /// memory reservation.
    pub(super) async fn read<T>(
        &self,
        request: Request<Body>,
        began: Instant,
        read: impl FnOnce(Vec<u8>) -> Result<T, String>,
    ) -> Result<(T, Reservation), Rejection> {
        let refused = |code: StatusCode, text: &str| (code, format!("{text}\n"));
        let caller = ClientConnection::of(&request);
        if !is_json(request.headers()) {
            return Err(refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, "expected application/json"));
        }
        let length = request.headers().get(header::CONTENT_LENGTH);
        let length: Option<usize> = length.and_then(|length| length.to_str().ok()?.parse().ok());
        if length.is_some_and(|length| length > self.max_mib << 20) {
            return Err(refused(StatusCode::PAYLOAD_TOO_LARGE, &self.too_large()));
        }
        let is_small = length.is_some_and(|length| length <= MAX_SMALL_KIB << 10);
        let lane = if is_small { &self.small } else { &self.large };
        let memory = lane.enter(caller.as_ref().map(ClientConnection::address));
        let size = length.map_or(self.max_mib << 10, |length| length.div_ceil(1 << 10));
        if timeout_at(began + MEMORY_TIMEOUT, memory.reserve(size)).await.is_err() {
            return Err(refused(
                StatusCode::SERVICE_UNAVAILABLE,
                "no memory for the request body within 2 s",
            ));
        }
        let body = match timeout_at(began + READ_TIMEOUT, self.body(request.into_body(), &memory)).await {
            Err(_) => return Err(refused(StatusCode::REQUEST_TIMEOUT, "the body took more than 3 s")),
            Ok(Err((code, text))) => return Err(refused(code, &text)),
            Ok(Ok(body)) => body,
        };
        if body.is_empty() {
            return Err(refused(StatusCode::BAD_REQUEST, "the body is empty"));
        }
        memory.arrived();
        let read = read(body).map_err(|fault| refused(StatusCode::BAD_REQUEST, &fault))?;
        if let Some(caller) = caller {
            caller.prefer();
        }
        Ok((read, memory))
    }

    /// Reads a body whose memory is reserved by `memory`.
    async fn body(&self, body: Body, memory: &Reservation) -> Result<Vec<u8>, Rejection> {
        let (mut chunks, mut read) = (body.into_data_stream(), Vec::new());
        loop {
            let chunk = tokio::select! {
                biased;
                () = memory.evicted() => {
                    let why = "the request body was dropped in favor of other addresses";
                    return Err((StatusCode::SERVICE_UNAVAILABLE, why.to_owned()));
                }
                chunk = chunks.next() => chunk,
            };
            let Some(chunk) = chunk else { return Ok(read) };
            let chunk = chunk.map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
            // hyper already ends a body at its declared length. This check limits chunked bodies, which declare no
            // length.
            if read.len() + chunk.len() > self.max_mib << 20 {
                return Err((StatusCode::PAYLOAD_TOO_LARGE, self.too_large()));
            }
            read.extend_from_slice(&chunk);
        }
    }

    fn too_large(&self) -> String {
        format!("a review can have at most {} MiB", self.max_mib)
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let media = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    media.split(';').next().is_some_and(|media| media.trim().eq_ignore_ascii_case("application/json"))
}
