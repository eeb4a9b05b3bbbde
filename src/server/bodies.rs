//! Bodies of requests: bounded in bytes, in time, and in how many bytes are held at once, in all and by address.

mod room;

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode, header};
use futures::StreamExt;
use tokio::time::{Instant, timeout_at};

use self::room::{Evicted, Room, Taken};
use super::connections::Caller;

/// How long a body may take to arrive.
const ARRIVES: Duration = Duration::from_secs(3);

/// How many KiB a small body has at most: nearly all have.
const SMALL: usize = 16;

/// More KiB than all connections can hold.
const UNBOUNDED: usize = usize::MAX >> 2;

/// Why a request is not read.
pub(super) type Refused = (StatusCode, String);

/// Reads bodies. Clones have the same room.
#[derive(Clone, Debug)]
pub(super) struct Bodies {
    /// The most MiB of one.
    most: usize,
    /// Room for bodies whose declared length is small. The number of connections is its only bound, so no body waits.
    small: Room,
    /// Room for all other bodies.
    large: Room,
}

impl Bodies {
    /// Bodies of `most` MiB each, and of `all` MiB of large ones that are held at once.
    pub(super) fn new(most: usize, all: usize) -> Self {
        Self { most, small: Room::new(UNBOUNDED), large: Room::new(all << 10) }
    }

    /// What `read` makes of the JSON of a request that began at this moment, and the room that its body takes.
    pub(super) async fn read<T>(
        &self,
        request: Request<Body>,
        began: Instant,
        read: impl FnOnce(Vec<u8>) -> Result<T, String>,
    ) -> Result<(T, Taken), Refused> {
        let refused = |code: StatusCode, text: &str| (code, format!("{text}\n"));
        let caller = Caller::of(&request);
        if !is_json(request.headers()) {
            return Err(refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, "expected application/json"));
        }
        let length = request.headers().get(header::CONTENT_LENGTH);
        let length: Option<usize> = length.and_then(|length| length.to_str().ok()?.parse().ok());
        if length.is_some_and(|length| length > self.most << 20) {
            return Err(refused(StatusCode::PAYLOAD_TOO_LARGE, &self.too_large()));
        }
        let is_small = length.is_some_and(|length| length <= SMALL << 10);
        let lane = if is_small { &self.small } else { &self.large };
        let room = lane.enter(caller.as_ref().map(Caller::address));
        let body = match timeout_at(began + ARRIVES, self.body(request.into_body(), &room)).await {
            Err(_) => return Err(refused(StatusCode::REQUEST_TIMEOUT, "the body took more than 3 s")),
            Ok(Err((code, text))) => return Err(refused(code, &text)),
            Ok(Ok(body)) => body,
        };
        if body.is_empty() {
            return Err(refused(StatusCode::BAD_REQUEST, "the body is empty"));
        }
        room.arrived();
        let read = read(body).map_err(|fault| refused(StatusCode::BAD_REQUEST, &fault))?;
        if let Some(caller) = caller {
            caller.prefer();
        }
        Ok((read, room))
    }

    /// A body that takes `room` as it arrives.
    async fn body(&self, body: Body, room: &Taken) -> Result<Vec<u8>, Refused> {
        let (mut chunks, mut read, mut taken) = (body.into_data_stream(), Vec::new(), 1);
        room.grow(taken).await.map_err(refused_for_others)?;
        loop {
            let chunk = tokio::select! {
                biased;
                evicted = room.evicted() => return Err(refused_for_others(evicted)),
                chunk = chunks.next() => chunk,
            };
            let Some(chunk) = chunk else { return Ok(read) };
            let chunk = chunk.map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
            let length = read.len() + chunk.len();
            if length > self.most << 20 {
                return Err((StatusCode::PAYLOAD_TOO_LARGE, self.too_large()));
            }
            let missing = length.div_ceil(1 << 10).saturating_sub(taken);
            if missing > 0 {
                room.grow(missing).await.map_err(refused_for_others)?;
                taken += missing;
            }
            read.extend_from_slice(&chunk);
        }
    }

    fn too_large(&self) -> String {
        format!("a review has at most {} MiB", self.most)
    }
}

fn refused_for_others(_: Evicted) -> Refused {
    (StatusCode::SERVICE_UNAVAILABLE, "the body made room for those of other addresses".to_owned())
}

fn is_json(headers: &HeaderMap) -> bool {
    let media = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    media.split(';').next().is_some_and(|media| media.trim().eq_ignore_ascii_case("application/json"))
}
