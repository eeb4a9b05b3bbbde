//! Lists and watches one kind.
//!
//! kube's own watcher does not fit. A list that is older than a version already seen must be rejected, which requires
//! the resource version of the list. Also, one page must be pruned while the next page is requested.

use std::time::Duration;

use futures::{AsyncBufRead, TryStreamExt};
use kube::Client;
use kube::api::WatchParams;
use kube::core::{Request, WatchEvent};
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::DefaultBackoff;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use tracing::{debug, error, warn};

use super::feed::Feed;
use super::page::{ListHeader, PageError, StreamedPage};
use crate::pages::Pages;
use crate::request_timeout::with_response_timeout;
use crate::tasks::{RestartReason, Tasks};
use policy_sync_api::names::GroupVersionResource;
use policy_sync_api::object::{HubObject, WithText};
use policy_sync_api::text::with_causes;
use policy_sync_mirror::{Projection, Source};
use policy_sync_mirror::{SourceEvent, WatchFailure, WatchFailureKind};

/// The maximum number of objects per page: enough for fast lists, and few enough for little memory.
pub(super) const PAGE_SIZE: u32 = 100;
/// The duration after which the API server ends a watch.
const WATCH_SECONDS: u32 = 290;
/// How long a watch may be silent. The API server sends a bookmark each minute.
const WATCH_IDLE_TIMEOUT: Duration = Duration::from_secs(180);
/// A watch that ends within this time without an event counts as a failure.
const MIN_WATCH_DURATION: Duration = Duration::from_secs(1);

/// If, for this time, all lists of a kind have been older than a version seen before, the hub was restored from a
/// backup. Its resource versions will not catch up soon, and until then the mirror is not updated.
const RESTORE_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// One source to list and watch.
#[derive(Debug)]
pub struct SourceWatcher {
    /// The source of the rows.
    pub source: Source,
    /// The resource to list and watch.
    pub gvr: GroupVersionResource,
    tasks: Tasks,
    /// The maximum number of objects per page.
    page: u32,
    /// The time since which the lists have been older than a version already seen.
    stale: Mutex<Option<Instant>>,
}

/// Why listing or watching failed.
#[derive(Debug, thiserror::Error)]
pub enum SourceWatchError {
    /// The API server sent an error or no response.
    #[error("request rejected")]
    Request(#[source] kube::Error),
    /// An item of a list is not a valid object.
    #[error("object {number} of a page cannot be read")]
    Object {
        /// The position of the item in the page, from 1.
        number: usize,
        /// The error of the parser.
        source: serde_json::Error,
    },
    /// The request cannot be built.
    #[error("cannot build the request")]
    Build(#[source] kube::core::request::Error),
    /// The API server returned an older state than before, for example after a restore.
    #[error("the hub returned version {shown}, but version {seen} was seen already")]
    Stale {
        /// The resource version of the response.
        shown: u64,
        /// The latest resource version that this process has seen.
        seen: u64,
    },
}

enum WatchEnd {
    /// The watch can resume at the last version.
    Resume,
    /// The API server no longer has the version to resume from: a new list is necessary.
    Expired,
}

impl SourceWatcher {
    /// Watches `gvr` as the resource of `source`. If it detects a restored hub, it ends `tasks`.
    pub(super) fn new(source: Source, gvr: GroupVersionResource, tasks: Tasks) -> Self {
        Self { source, gvr, tasks, page: PAGE_SIZE, stale: Mutex::default() }
    }

    /// Sets the maximum number of objects per page.
    pub(super) fn with_page_size(mut self, objects: u32) -> Self {
        self.page = objects;
        self
    }

    /// Lists and watches forever, with a backoff between failures.
    pub async fn run(self, client: Client, feed: Feed) {
        let mut backoff = DefaultBackoff::default();
        loop {
            let error = self.until_failure(&client, &feed, &mut backoff).await;
            tokio::time::sleep(self.failed(&feed, &error, &mut backoff)).await;
        }
    }

    /// Records a failure. Returns the delay before the next attempt.
    pub fn failed(&self, feed: &Feed, error: &SourceWatchError, backoff: &mut DefaultBackoff) -> Duration {
        let message = describe(error);
        warn!(kind = %self.gvr, error = message, "cannot list or watch");
        if matches!(error, SourceWatchError::Stale { .. }) {
            let since = *self.stale.lock().get_or_insert_with(Instant::now);
            if since.elapsed() >= RESTORE_TIMEOUT {
                error!(kind = %self.gvr, error = message, "the hub was restored from a backup: the process exits, to be restarted");
                self.tasks.end(RestartReason::HubRestored);
            }
        }
        let failure = WatchFailure { text: message, kind: kind_of(error) };
        feed.change(SourceEvent::FailureChanged(self.source.clone(), Some(failure)));
        backoff.next().unwrap_or(WATCH_IDLE_TIMEOUT)
    }

    /// Lists and watches until a request fails.
    pub async fn until_failure(
        &self,
        client: &Client,
        feed: &Feed,
        backoff: &mut DefaultBackoff,
    ) -> SourceWatchError {
        loop {
            let mut version = match self.list(client, feed).await {
                Ok(version) => version,
                Err(error) => return error,
            };
            *self.stale.lock() = None;
            feed.change(SourceEvent::FailureChanged(self.source.clone(), None));
            loop {
                let (started, from) = (Instant::now(), version.clone());
                let end = match self.watch(client, feed, &mut version).await {
                    Ok(end) => end,
                    Err(error) => return error,
                };
                back_off(backoff, started, version != from).await;
                if matches!(end, WatchEnd::Expired) {
                    break;
                }
            }
        }
    }

    async fn list(&self, client: &Client, feed: &Feed) -> Result<String, SourceWatchError> {
        let mut pages = Pages::of_source(&self.source, &self.gvr, feed.controller(), self.page);
        feed.begin_resync(&self.source);
        let mut page = self.request_page(client, &pages).await?;
        let (shown, seen) = (version_of(page.header()), feed.version(&self.source));
        if shown < seen {
            return Err(SourceWatchError::Stale { shown, seen });
        }
        loop {
            if !pages.advance(page.header().next().map(str::to_owned)) {
                let version = page.header().version().to_owned();
                let shown = version_of(page.header());
                self.apply_page(feed, page).await?;
                feed.end_resync(&self.source, shown);
                debug!(kind = %self.gvr, version, "listed");
                return Ok(version);
            }
            // The request for the next page is sent first, so that the hub prepares that page while this page is
            // processed.
            let take = async {
                tokio::task::yield_now().await;
                self.apply_page(feed, page).await
            };
            (page, ()) = futures::try_join!(self.request_page(client, &pages), take)?;
        }
    }

    /// Requests the next page and waits until its list metadata has arrived.
    async fn request_page(
        &self,
        client: &Client,
        pages: &Pages,
    ) -> Result<StreamedPage<impl AsyncBufRead + Unpin + use<>>, SourceWatchError> {
        let request = pages.request().map_err(SourceWatchError::Build)?;
        let page = async { StreamedPage::new(client.request_stream(request).await?).await };
        with_response_timeout(page).await.map_err(SourceWatchError::Request)
    }

    /// Passes the objects of `page` to the mirror.
    async fn apply_page(
        &self,
        feed: &Feed,
        page: StreamedPage<impl AsyncBufRead + Unpin>,
    ) -> Result<(), SourceWatchError> {
        let page = with_response_timeout(page.read_all()).await.map_err(SourceWatchError::Request)?;
        let take = |object| feed.applied(&self.source, &object);
        match self.source.projection() {
            Projection::FullWithText => page.for_each::<WithText>(take)?,
            Projection::Metadata | Projection::Full => page.for_each::<HubObject>(take)?,
        }
        Ok(())
    }

    async fn watch(
        &self,
        client: &Client,
        feed: &Feed,
        version: &mut String,
    ) -> Result<WatchEnd, SourceWatchError> {
        match self.source.projection() {
            Projection::FullWithText => self.watch_of::<WithText>(client, feed, version).await,
            Projection::Metadata | Projection::Full => {
                self.watch_of::<HubObject>(client, feed, version).await
            }
        }
    }

    async fn watch_of<O: Wire>(
        &self,
        client: &Client,
        feed: &Feed,
        version: &mut String,
    ) -> Result<WatchEnd, SourceWatchError> {
        let mut params = WatchParams::default().timeout(WATCH_SECONDS);
        params.label_selector = self.source.labels(feed.controller());
        params.field_selector = self.source.fields();
        let of = Request::new(self.gvr.path(self.source.namespace()));
        let request = match self.source.projection() {
            Projection::Metadata => of.watch_metadata(&params, version),
            Projection::Full | Projection::FullWithText => of.watch(&params, version),
        };
        let request = request.map_err(SourceWatchError::Build)?;
        let events = match with_response_timeout(client.request_events::<O>(request)).await {
            Ok(events) => events,
            Err(kube::Error::Api(status)) if status.code == 410 => return Ok(WatchEnd::Expired),
            Err(error) => return Err(SourceWatchError::Request(error)),
        };
        let mut events = std::pin::pin!(events);
        loop {
            let event = match tokio::time::timeout(WATCH_IDLE_TIMEOUT, events.try_next()).await {
                Err(_) | Ok(Ok(None)) => return Ok(WatchEnd::Resume),
                Ok(Ok(Some(event))) => event,
                Ok(Err(kube::Error::Api(status))) if status.code == 410 => return Ok(WatchEnd::Expired),
                Ok(Err(error)) => return Err(SourceWatchError::Request(error)),
            };
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    let object: HubObject = object.into();
                    version.clone_from(&object.metadata.resource_version);
                    feed.applied(&self.source, &object);
                }
                WatchEvent::Deleted(object) => {
                    let object: HubObject = object.into();
                    version.clone_from(&object.metadata.resource_version);
                    feed.deleted(&self.source, &object);
                }
                WatchEvent::Bookmark(bookmark) => {
                    *version = bookmark.metadata.resource_version;
                    let (shown, seen) = (version.parse().unwrap_or_default(), feed.version(&self.source));
                    if shown < seen {
                        return Err(SourceWatchError::Stale { shown, seen });
                    }
                    feed.bookmark(&self.source, shown);
                }
                WatchEvent::Error(status) if status.code == 410 => return Ok(WatchEnd::Expired),
                WatchEvent::Error(status) => return Err(SourceWatchError::Request(kube::Error::Api(status))),
            }
        }
    }
}

impl From<PageError> for SourceWatchError {
    fn from(PageError { number, source }: PageError) -> Self {
        match number {
            Some(number) => Self::Object { number, source },
            None => Self::Request(kube::Error::SerdeError(source)),
        }
    }
}

/// The type in which an object is decoded.
trait Wire: DeserializeOwned + Clone + Into<HubObject> + 'static {}

impl<O: DeserializeOwned + Clone + Into<HubObject> + 'static> Wire for O {}

/// The resource version of the list; 0 if absent or not a number.
fn version_of(header: &ListHeader) -> u64 {
    header.version().parse().unwrap_or_default()
}

/// Backs off before a watch is restarted, unless it `received` events or lasted longer than [`MIN_WATCH_DURATION`]. A
/// server that ends each watch at once is thus contacted less and less often.
pub(super) async fn back_off(backoff: &mut DefaultBackoff, started: Instant, received: bool) {
    if received || started.elapsed() >= MIN_WATCH_DURATION {
        backoff.reset();
    } else {
        tokio::time::sleep(backoff.next().unwrap_or(WATCH_IDLE_TIMEOUT)).await;
    }
}

/// Classifies the failure. The statuses 401 and 403 recur until an administrator fixes the credentials or grants the
/// right. Other failures may be transient.
fn kind_of(error: &SourceWatchError) -> WatchFailureKind {
    match error {
        SourceWatchError::Request(kube::Error::Api(status)) if status.code == 401 => {
            WatchFailureKind::Unauthenticated
        }
        SourceWatchError::Request(kube::Error::Api(status)) if status.code == 403 => {
            WatchFailureKind::Forbidden
        }
        SourceWatchError::Request(kube::Error::Api(_))
        | SourceWatchError::Stale { .. }
        | SourceWatchError::Object { .. } => WatchFailureKind::Transient,
        SourceWatchError::Request(_) | SourceWatchError::Build(_) => WatchFailureKind::NoResponse,
    }
}

/// The error message. For an error status, the message of the API server.
pub(super) fn describe(error: &SourceWatchError) -> String {
    match error {
        SourceWatchError::Request(kube::Error::Api(status)) => {
            format!("{} ({})", status.message, status.code)
        }
        SourceWatchError::Request(error) => with_causes(error),
        other => with_causes(other),
    }
}

#[cfg(test)]
mod tests;
