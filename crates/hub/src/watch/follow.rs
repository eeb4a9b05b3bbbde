//! Lists and watches one kind.
//!
//! kube's own watcher does not fit: a list older than a version already seen must be rejected, which needs the list's
//! own resource version. Also, one page is pruned while the next one is requested.

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

use super::answer::answered;
use super::feed::Feed;
use super::page::{Coming, Head, PageError};
use crate::pages::Pages;
use crate::tasks::{Ended, Tasks};
use policy_sync_api::names::GroupVersionResource;
use policy_sync_api::object::{HubObject, WithText};
use policy_sync_api::text::with_causes;
use policy_sync_mirror::{Change, Failure, FailureKind};
use policy_sync_mirror::{Extent, Source};

/// The maximum number of objects per page: enough for fast lists, and few enough for little memory.
pub(super) const PAGE: u32 = 100;
/// The duration after which the API server ends a watch.
const WATCH_SECONDS: u32 = 290;
/// How long a watch may be silent. The API server sends a bookmark each minute.
const SILENCE: Duration = Duration::from_secs(180);
/// A watch that ends within this time without an event counts as a failure.
const BRIEF: Duration = Duration::from_secs(1);

/// If all lists of a kind are older than a version already seen for this long, the hub was restored from a backup. Its
/// resource versions will not catch up soon, and until then the mirror is not updated.
const RESTORED: Duration = Duration::from_secs(5 * 60);

/// One source to list and watch.
#[derive(Debug)]
pub struct Followed {
    /// The source whose rows it provides.
    pub source: Source,
    /// The resource to list and watch.
    pub gvr: GroupVersionResource,
    tasks: Tasks,
    /// The maximum number of objects per page.
    page: u32,
    /// Since when its lists have been older than a version already seen.
    stale: Mutex<Option<Instant>>,
}

/// Why listing or watching failed.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// The API server sent an error or no response.
    #[error("request rejected")]
    Request(#[source] kube::Error),
    /// An item of a list is not a valid object.
    #[error("object {number} of a page cannot be read")]
    Object {
        /// Its position in the page, from 1.
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
        /// The latest resource version seen.
        seen: u64,
    },
}

enum WatchEnd {
    /// It can resume at the last version.
    Resume,
    /// The API server no longer has the version to resume from: a new list is necessary.
    Expired,
}

impl Followed {
    /// Watches `gvr` as the resource of `source`. If it detects a restored hub, it ends `tasks`.
    pub(super) fn new(source: Source, gvr: GroupVersionResource, tasks: Tasks) -> Self {
        Self { source, gvr, tasks, page: PAGE, stale: Mutex::default() }
    }

    /// Sets the maximum number of objects per page.
    pub(super) fn in_pages_of(mut self, objects: u32) -> Self {
        self.page = objects;
        self
    }

    /// Lists and watches forever, with a backoff between failures.
    pub async fn forever(self, client: Client, feed: Feed) {
        let mut backoff = DefaultBackoff::default();
        loop {
            let error = self.until_failure(&client, &feed, &mut backoff).await;
            tokio::time::sleep(self.failed(&feed, &error, &mut backoff)).await;
        }
    }

    /// Records a failure. Returns the delay before the next attempt.
    pub fn failed(&self, feed: &Feed, error: &FollowError, backoff: &mut DefaultBackoff) -> Duration {
        let message = describe(error);
        warn!(kind = %self.gvr, error = message, "cannot list or watch");
        if matches!(error, FollowError::Stale { .. }) {
            let since = *self.stale.lock().get_or_insert_with(Instant::now);
            if since.elapsed() >= RESTORED {
                error!(kind = %self.gvr, error = message, "the hub was restored from a backup: the process exits, to be restarted");
                self.tasks.end(Ended::HubRestored);
            }
        }
        let failure = Failure { text: message, kind: kind_of(error) };
        feed.change(Change::Failing(self.source.clone(), Some(failure)));
        backoff.next().unwrap_or(SILENCE)
    }

    /// Lists and watches until a request fails.
    pub async fn until_failure(
        &self,
        client: &Client,
        feed: &Feed,
        backoff: &mut DefaultBackoff,
    ) -> FollowError {
        loop {
            let mut version = match self.list(client, feed).await {
                Ok(version) => version,
                Err(error) => return error,
            };
            *self.stale.lock() = None;
            feed.change(Change::Failing(self.source.clone(), None));
            loop {
                let (began, from) = (Instant::now(), version.clone());
                let end = match self.watch(client, feed, &mut version).await {
                    Ok(end) => end,
                    Err(error) => return error,
                };
                back_off(backoff, began, version != from).await;
                if matches!(end, WatchEnd::Expired) {
                    break;
                }
            }
        }
    }

    async fn list(&self, client: &Client, feed: &Feed) -> Result<String, FollowError> {
        let mut pages = Pages::of_source(&self.source, &self.gvr, feed.controller(), self.page);
        feed.begin_resync(&self.source);
        let mut page = self.ask(client, &pages).await?;
        let (shown, seen) = (version_of(page.head()), feed.version(&self.source));
        if shown < seen {
            return Err(FollowError::Stale { shown, seen });
        }
        loop {
            if !pages.turn(page.head().next().map(str::to_owned)) {
                let version = page.head().version().to_owned();
                let shown = version_of(page.head());
                self.take(feed, page).await?;
                feed.end_resync(&self.source, shown);
                debug!(kind = %self.gvr, version, "listed");
                return Ok(version);
            }
            // The request for the next page is sent first, so that the hub prepares it meanwhile.
            let take = async {
                tokio::task::yield_now().await;
                self.take(feed, page).await
            };
            (page, ()) = futures::try_join!(self.ask(client, &pages), take)?;
        }
    }

    /// Requests the next page and waits until its list metadata has arrived.
    async fn ask(
        &self,
        client: &Client,
        pages: &Pages,
    ) -> Result<Coming<impl AsyncBufRead + Unpin + use<>>, FollowError> {
        let request = pages.request().map_err(FollowError::Build)?;
        let page = async { Coming::new(client.request_stream(request).await?).await };
        answered(page).await.map_err(FollowError::Request)
    }

    /// Passes the objects of `page` to the mirror.
    async fn take(&self, feed: &Feed, page: Coming<impl AsyncBufRead + Unpin>) -> Result<(), FollowError> {
        let page = answered(page.whole()).await.map_err(FollowError::Request)?;
        let take = |object| feed.applied(&self.source, &object);
        match self.source.extent() {
            Extent::Text => page.each::<WithText>(take)?,
            Extent::Metadata | Extent::Whole => page.each::<HubObject>(take)?,
        }
        Ok(())
    }

    async fn watch(
        &self,
        client: &Client,
        feed: &Feed,
        version: &mut String,
    ) -> Result<WatchEnd, FollowError> {
        match self.source.extent() {
            Extent::Text => self.watch_of::<WithText>(client, feed, version).await,
            Extent::Metadata | Extent::Whole => self.watch_of::<HubObject>(client, feed, version).await,
        }
    }

    async fn watch_of<O: Wire>(
        &self,
        client: &Client,
        feed: &Feed,
        version: &mut String,
    ) -> Result<WatchEnd, FollowError> {
        let mut params = WatchParams::default().timeout(WATCH_SECONDS);
        params.label_selector = self.source.labels(feed.controller());
        params.field_selector = self.source.fields();
        let of = Request::new(self.gvr.path(self.source.namespace()));
        let request = match self.source.extent() {
            Extent::Metadata => of.watch_metadata(&params, version),
            Extent::Whole | Extent::Text => of.watch(&params, version),
        };
        let request = request.map_err(FollowError::Build)?;
        let events = match answered(client.request_events::<O>(request)).await {
            Ok(events) => events,
            Err(kube::Error::Api(status)) if status.code == 410 => return Ok(WatchEnd::Expired),
            Err(error) => return Err(FollowError::Request(error)),
        };
        let mut events = std::pin::pin!(events);
        loop {
            let event = match tokio::time::timeout(SILENCE, events.try_next()).await {
                Err(_) | Ok(Ok(None)) => return Ok(WatchEnd::Resume),
                Ok(Ok(Some(event))) => event,
                Ok(Err(kube::Error::Api(status))) if status.code == 410 => return Ok(WatchEnd::Expired),
                Ok(Err(error)) => return Err(FollowError::Request(error)),
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
                        return Err(FollowError::Stale { shown, seen });
                    }
                    feed.bookmark(&self.source, shown);
                }
                WatchEvent::Error(status) if status.code == 410 => return Ok(WatchEnd::Expired),
                WatchEvent::Error(status) => return Err(FollowError::Request(kube::Error::Api(status))),
            }
        }
    }
}

impl From<PageError> for FollowError {
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
fn version_of(head: &Head) -> u64 {
    head.version().parse().unwrap_or_default()
}

/// Backs off before a watch is restarted, unless it `brought` events or lasted longer than [`BRIEF`]. A server that
/// ends each watch at once is thus contacted less and less often.
pub(super) async fn back_off(backoff: &mut DefaultBackoff, began: Instant, brought: bool) {
    if brought || began.elapsed() >= BRIEF {
        backoff.reset();
    } else {
        tokio::time::sleep(backoff.next().unwrap_or(SILENCE)).await;
    }
}

/// Classifies the failure: a missing right remains until an administrator grants it, other failures may be transient.
fn kind_of(error: &FollowError) -> FailureKind {
    match error {
        FollowError::Request(kube::Error::Api(status)) if status.code == 401 => FailureKind::Unauthenticated,
        FollowError::Request(kube::Error::Api(status)) if status.code == 403 => FailureKind::Refused,
        FollowError::Request(kube::Error::Api(_))
        | FollowError::Stale { .. }
        | FollowError::Object { .. } => FailureKind::Passing,
        FollowError::Request(_) | FollowError::Build(_) => FailureKind::NoAnswer,
    }
}

/// The error message; for an error status, the API server's own.
pub(super) fn describe(error: &FollowError) -> String {
    match error {
        FollowError::Request(kube::Error::Api(status)) => format!("{} ({})", status.message, status.code),
        FollowError::Request(error) => with_causes(error),
        other => with_causes(other),
    }
}

#[cfg(test)]
mod tests;
