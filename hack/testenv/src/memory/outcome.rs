//! Outcomes of requests and watch events. Tests inject faults with these outcomes.

use std::time::Duration;

use super::request::RequestInfo;

/// Outcome of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum RequestOutcome {
    /// The request is processed, and the response arrives.
    Served,
    /// The request is lost without notice: the connection stays silent until the client's transport gives up.
    Lost,
    /// The request is not processed, and the connection is reset.
    Reset,
    /// The request is processed, then the connection is reset.
    ResponseLost,
    /// The request is processed at once, and the response is delayed.
    ResponseLate(Duration),
    /// The request is rejected with this status code.
    Refused {
        /// The status code.
        code: u16,
        /// The header `Retry-After`, in seconds.
        retry_after: Option<u32>,
    },
    /// The request is processed after a delay, even if the client no longer waits.
    Late(Duration),
}

/// Outcome of a watch event.
#[derive(Clone, Debug, PartialEq)]
pub enum EventOutcome {
    /// The event is sent.
    Sent,
    /// The event is sent twice.
    Twice,
    /// The stream ends before the event.
    Cut,
    /// The stream breaks within the event.
    CutWithin,
    /// The stream reports an expired version instead of the event, and ends.
    Expired,
    /// The stream contains a line of invalid JSON instead of the event.
    Garbled,
    /// From this event on, the stream is silent, like a dead connection, until the client's transport gives up.
    Stalled,
    /// Instead of this event and all later events, the stream sends only bookmarks for earlier events, until the watch
    /// times out.
    BookmarksOnly,
    /// This event and all later events are delayed.
    Late(Duration),
    /// Events during this time are not sent. Then the stream reports an expired version.
    Dropped(Duration),
}

/// Decides the outcomes of a client's requests and of the events of its watches.
pub trait Interposer: Send + Sync + 'static {
    /// The outcome of a request, including a watch request.
    fn request(&self, request: &RequestInfo) -> RequestOutcome {
        let _ = request;
        RequestOutcome::Served
    }

    /// The outcome of an event about `object` (`<namespace>/<name>`) on `watch`.
    fn event(&self, watch: &RequestInfo, object: &str) -> EventOutcome {
        let _ = (watch, object);
        EventOutcome::Sent
    }
}

/// Injects no faults.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faultless;

impl Interposer for Faultless {}
