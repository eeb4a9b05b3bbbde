//! Watch requests: streams the changes of a kind's objects as lines of JSON.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use http_body::Frame;
use policy_sync_hub::IDLE_TIMEOUT;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tower::BoxError;

use super::kinds::Kind;
use super::outcome::{EventOutcome, Interposer};
use super::read::shown;
use super::request::Request;
use super::selector::Selector;
use super::status_error::StatusError;
use super::store::{Change, KindKey, Store};
use super::{Disturbance, LATENCY, MemoryServer};

/// Interval between bookmarks.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// The last bookmark is sent this long before the end.
const LAST_BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// Default duration of a watch, in seconds.
const WATCH_SECONDS: u64 = 1800;

type FrameResult = Result<Frame<Bytes>, BoxError>;

enum Mode {
    Flowing,
    /// Sends only bookmarks.
    BookmarksOnly,
    Silent,
    /// Reports an expired version at this time.
    ExpiresAt(Instant),
    /// Breaks the connection next.
    Breaks,
    Over,
}

/// An open watch.
pub(super) struct WatchStream {
    server: MemoryServer,
    interposer: Arc<dyn Interposer>,
    kind: Arc<Kind>,
    request: Request,
    selector: Selector,
    changed: watch::Receiver<u64>,
    /// Initial events, if the watch starts without a version.
    first: VecDeque<(String, String)>,
    /// The watch has processed all changes up to this version.
    position: u64,
    bookmark: Option<Instant>,
    ends: Instant,
    mode: Mode,
    disturbance: Option<Disturbance>,
}

impl WatchStream {
    /// Starts the watch that `request` describes.
    pub(super) fn new(
        server: &MemoryServer,
        store: &Store,
        kind: Arc<Kind>,
        request: Request,
        interposer: Arc<dyn Interposer>,
    ) -> Result<Self, StatusError> {
        let selector =
            Selector::parse(request.parameter("labelSelector"), request.parameter("fieldSelector"))?;
        let lasts = request.parameter("timeoutSeconds").parse().unwrap_or(WATCH_SECONDS);
        let from: u64 = match request.parameter("resourceVersion") {
            "" => 0,
            text => text.parse().map_err(|_| StatusError::bad_request("invalid resource version"))?,
        };
        let mut watching = Self {
            server: server.clone(),
            interposer,
            selector,
            changed: server.changed(),
            first: VecDeque::new(),
            position: from,
            bookmark: None,
            ends: Instant::now() + Duration::from_secs(lasts),
            mode: Mode::Flowing,
            disturbance: None,
            kind,
            request,
        };
        if watching.request.parameter("allowWatchBookmarks") == "true" {
            watching.bookmark = watching.next_bookmark();
        }
        if from == 0 {
            watching.position = store.version;
            let objects = store.at(&watching.kind_key(), store.version);
            let selected = objects.iter().filter(|(_, object)| watching.selects(object));
            watching.first = selected
                .map(|((namespace, name), object)| {
                    (format!("{namespace}/{name}"), watching.line("ADDED", object))
                })
                .collect();
        }
        Ok(watching)
    }

    /// The stream of the response's body.
    pub(super) fn stream(self) -> impl Stream<Item = FrameResult> + Send {
        futures::stream::unfold(self, |mut watching| async move {
            let piece = watching.next().await?;
            Some((piece, watching))
        })
    }

    fn kind_key(&self) -> KindKey {
        (self.kind.group.clone(), self.kind.resource.clone())
    }

    fn selects(&self, object: &Value) -> bool {
        let namespace = &self.request.info.namespace;
        (namespace.is_empty() || object["metadata"]["namespace"] == **namespace)
            && self.selector.selects(object)
    }

    /// Formats an event with `type` before `object`, as real servers do: clients may parse in one pass.
    fn line(&self, event: &str, object: &Value) -> String {
        format!("{{\"type\":\"{event}\",\"object\":{}}}\n", shown(&self.kind, &self.request, object))
    }

    fn expired(&mut self) -> FrameResult {
        self.mode = Mode::Over;
        let version = self.server.version();
        let message = format!("too old resource version: {} ({version})", self.position);
        text(format!("{{\"type\":\"ERROR\",\"object\":{}}}\n", StatusError::expired(message).status()))
    }

    /// Reports an expired version, and expires the kind's history, so that watches from the same version fail
    /// too.
    fn forgotten(&mut self) -> FrameResult {
        self.server.forget(&self.kind_key());
        self.expired()
    }

    /// Time of the next bookmark: after a minute, or shortly before the end.
    fn next_bookmark(&self) -> Option<Instant> {
        let (now, last) = (Instant::now(), self.ends.checked_sub(LAST_BOOKMARK_BEFORE_END)?);
        Some((now + BOOKMARK_EVERY).min(last)).filter(|next| *next > now)
    }

    fn bookmark(&mut self) -> FrameResult {
        self.bookmark = self.next_bookmark();
        let object = json!({
            "apiVersion": self.kind.api_version(&self.request.info.version),
            "kind": self.kind.kind,
            "metadata": {"resourceVersion": self.position.to_string(), "creationTimestamp": null},
        });
        text(self.line("BOOKMARK", &object))
    }

    async fn next(&mut self) -> Option<FrameResult> {
        loop {
            match self.mode {
                Mode::Flowing | Mode::BookmarksOnly => {}
                Mode::Silent => {
                    sleep(IDLE_TIMEOUT).await;
                    self.mode = Mode::Over;
                    return Some(Err(io::Error::from(io::ErrorKind::TimedOut).into()));
                }
                Mode::ExpiresAt(moment) => {
                    sleep_until(moment).await;
                    return Some(self.forgotten());
                }
                Mode::Breaks => {
                    self.mode = Mode::Over;
                    return Some(Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()));
                }
                Mode::Over => return None,
            }
            if matches!(self.mode, Mode::Flowing) {
                if self.position < self.server.compacted(&self.kind_key()) {
                    return Some(self.expired());
                }
                self.changed.mark_unchanged();
                if let Some((object, line)) = self.take() {
                    sleep(LATENCY).await;
                    if let Some(piece) = self.send(&object, line).await {
                        return Some(piece);
                    }
                    continue;
                }
                if !self.server.serves(&self.kind_key()) {
                    return None;
                }
            }
            let now = Instant::now();
            if now >= self.ends {
                return None;
            }
            if self.bookmark.is_some_and(|due| due <= now) {
                return Some(self.bookmark());
            }
            let wake = self.bookmark.map_or(self.ends, |due| due.min(self.ends));
            tokio::select! {
                biased;
                changed = self.changed.changed() => changed.ok()?,
                () = sleep_until(wake) => {}
            }
        }
    }

    /// The next event and the name of its object.
    fn take(&mut self) -> Option<(String, String)> {
        if let Some(first) = self.first.pop_front() {
            return Some(first);
        }
        loop {
            let Some(change) = self.server.next_change(&self.kind_key(), self.position) else {
                self.position = self.server.version();
                return None;
            };
            self.position = change.version;
            if let Some(line) = self.event(&change) {
                return Some((format!("{}/{}", change.key.0, change.key.1), line));
            }
        }
    }

    fn event(&self, change: &Change) -> Option<String> {
        let selected = |object: &Option<Arc<Value>>| object.clone().filter(|object| self.selects(object));
        match (selected(&change.before), selected(&change.after)) {
            (None, None) => None,
            (None, Some(after)) => Some(self.line("ADDED", &after)),
            (Some(_), Some(after)) => Some(self.line("MODIFIED", &after)),
            (Some(before), None) => {
                let mut object = before.as_ref().clone();
                object["metadata"]["resourceVersion"] = json!(change.version.to_string());
                Some(self.line("DELETED", &object))
            }
        }
    }

    /// Sends an event with the outcome that the interposer decides.
    async fn send(&mut self, object: &str, line: String) -> Option<FrameResult> {
        let before = self.position;
        match self.interposer.event(&self.request.info, object) {
            EventOutcome::Sent => return Some(text(line)),
            EventOutcome::Twice => return Some(text(line.repeat(2))),
            EventOutcome::Cut => self.mode = Mode::Over,
            EventOutcome::CutWithin => {
                self.mode = Mode::Breaks;
                return Some(text(line[..line.len() / 2].to_owned()));
            }
            EventOutcome::Expired => return Some(self.forgotten()),
            EventOutcome::Garbled => return Some(text("{\"type\":\"ADDED\",\"object\":{{\n".to_owned())),
            EventOutcome::Stalled => {
                self.disturb();
                self.mode = Mode::Silent;
            }
            EventOutcome::BookmarksOnly => {
                self.disturb();
                // Bookmarks must not have the version of the event that was not sent.
                self.position = before - 1;
                self.mode = Mode::BookmarksOnly;
            }
            EventOutcome::Late(duration) => {
                self.disturb();
                sleep(duration).await;
                self.disturbance = None;
                return Some(text(line));
            }
            EventOutcome::Dropped(duration) => {
                self.disturb();
                self.mode = Mode::ExpiresAt(Instant::now() + duration);
            }
        }
        None
    }

    fn disturb(&mut self) {
        self.disturbance = Some(self.server.disturb());
    }
}

fn text(line: String) -> FrameResult {
    Ok(Frame::data(Bytes::from(line)))
}
