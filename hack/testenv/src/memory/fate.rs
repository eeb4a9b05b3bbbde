//! What becomes of requests and events on their way: where tests put faults.

use std::time::Duration;

use super::request::Asked;

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Fate {
    /// It arrives and is answered.
    Served,
    /// It does not arrive, and nobody says so: the connection is silent until the client's transport gives it up.
    Lost,
    /// It does not arrive: the connection is reset.
    Reset,
    /// It is carried out, and then the connection is reset.
    AnswerLost,
    /// It is carried out at once, and answered that much later.
    AnswerLate(Duration),
    /// It is answered by this status code, and not carried out.
    Refused {
        /// The status code.
        code: u16,
        /// The header `Retry-After`, in seconds.
        retry_after: Option<u32>,
    },
    /// It arrives and is carried out that much later, whether or not the client still waits.
    Late(Duration),
}

/// What becomes of an event of a watch.
#[derive(Clone, Debug, PartialEq)]
pub enum EventFate {
    /// It is sent.
    Sent,
    /// It is sent twice.
    Twice,
    /// The stream ends before it.
    Cut,
    /// The stream breaks within it.
    CutWithin,
    /// In its place the stream says that its version has expired, and ends.
    Expired,
    /// In its place there is a line that is no JSON.
    Garbled,
    /// From here on the stream is silent, as a connection that is dead, until the client's transport gives it up.
    Silence,
    /// From here on the stream brings bookmarks alone, for what was sent before, until its time is over.
    Withheld,
    /// It and what follows come that much later.
    Late(Duration),
    /// What happens in that time is not sent; then the stream says that its version has expired.
    Missed(Duration),
}

/// Says what becomes of the requests of one client and of the events of its watches.
pub trait Interposer: Send + Sync + 'static {
    /// What becomes of a request, that for a watch included.
    fn request(&self, request: &Asked) -> Fate {
        let _ = request;
        Fate::Served
    }

    /// What becomes of an event about `object` (`<namespace>/<name>`), which `watch` asked for.
    fn event(&self, watch: &Asked, object: &str) -> EventFate {
        let _ = (watch, object);
        EventFate::Sent
    }
}

/// Nothing goes wrong.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faultless;

impl Interposer for Faultless {}
