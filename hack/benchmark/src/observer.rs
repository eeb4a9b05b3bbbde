//! Observes creates, changes and deletes of objects with the harness's own watch.
//!
//! The baseline and the controller are observed in the same way, at the same cost. The watch requests only metadata.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::TryStreamExt;
use kube::Client;
use kube::api::{ListParams, WatchParams};
use kube::core::{ObjectList, Request, WatchEvent};
use policy_sync_api::object::HubObject;
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

/// Maximum time between events.
const EVENT_TIMEOUT: Duration = Duration::from_secs(60);

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventType {
    Added,
    Modified,
    Deleted,
}

/// An event with the time of its arrival.
#[derive(Clone, Debug)]
pub(super) struct ObservedEvent {
    pub(super) at: Instant,
    pub(super) what: EventType,
    pub(super) namespace: String,
    pub(super) name: String,
}

impl ObservedEvent {
    pub(super) fn added(&self) -> bool {
        self.what == EventType::Added
    }

    pub(super) fn deleted(&self) -> bool {
        self.what == EventType::Deleted
    }
}

/// A watch of one kind.
#[derive(Debug)]
pub(super) struct Observer {
    seen: mpsc::UnboundedReceiver<Result<ObservedEvent>>,
    _task: AbortOnDropHandle<()>,
}

impl Observer {
    /// Watches the objects at `path` (`/apis/<group>/<version>/<resource>`) that have `labels`.
    pub(super) async fn start(client: &Client, path: &str, labels: &str) -> Result<Self> {
        let request = Request::new(path);
        let newest =
            request.list_metadata(&ListParams::default().limit(1)).context("building a list request")?;
        let newest: ObjectList<HubObject> = client.request(newest).await.context("listing objects")?;
        let mut version = newest.metadata.resource_version.unwrap_or_default();
        let (sender, seen) = mpsc::unbounded_channel();
        let (client, params) = (client.clone(), WatchParams::default().labels(labels));
        let task = tokio::spawn(async move {
            loop {
                if let Err(error) = watch(&client, &request, &params, &mut version, &sender).await {
                    // If this fails, the observer was dropped.
                    let _ = sender.send(Err(error));
                    return;
                }
            }
        });
        Ok(Self { seen, _task: AbortOnDropHandle::new(task) })
    }

    /// Waits for the next event.
    pub(super) async fn next(&mut self) -> Result<ObservedEvent> {
        let seen = tokio::time::timeout(EVENT_TIMEOUT, self.seen.recv()).await;
        seen.context("no event within the limit")?.context("the watch ended")?
    }

    /// All pending events, without waiting.
    pub(super) fn so_far(&mut self) -> Result<Vec<ObservedEvent>> {
        std::iter::from_fn(|| self.seen.try_recv().ok()).collect()
    }

    /// Waits until `fits` has accepted events of `count` different objects. Returns the time of the last event.
    pub(super) async fn until(
        &mut self,
        count: usize,
        fits: impl Fn(&ObservedEvent) -> bool,
    ) -> Result<Instant> {
        let mut found = HashSet::new();
        loop {
            let seen = match self.next().await {
                Ok(seen) => seen,
                Err(error) => bail!("{} of {count} objects: {error:#}", found.len()),
            };
            if fits(&seen) {
                found.insert((seen.namespace, seen.name));
            }
            if found.len() >= count {
                return Ok(seen.at);
            }
        }
    }
}

#[derive(Clone, Deserialize)]
struct WatchedObject {
    metadata: WatchedMetadata,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WatchedMetadata {
    name: String,
    #[serde(default)]
    namespace: String,
    resource_version: String,
}

/// Watches until the server ends the watch, as it does after some minutes.
async fn watch(
    client: &Client,
    request: &Request,
    params: &WatchParams,
    version: &mut String,
    sender: &mpsc::UnboundedSender<Result<ObservedEvent>>,
) -> Result<()> {
    let watch = request.watch_metadata(params, version).context("building a watch request")?;
    let mut events = std::pin::pin!(client.request_events::<WatchedObject>(watch).await.context("watching")?);
    while let Some(event) = events.try_next().await.context("watching")? {
        let (what, object) = match event {
            WatchEvent::Added(object) => (EventType::Added, object),
            WatchEvent::Modified(object) => (EventType::Modified, object),
            WatchEvent::Deleted(object) => (EventType::Deleted, object),
            WatchEvent::Bookmark(bookmark) => {
                *version = bookmark.metadata.resource_version;
                continue;
            }
            WatchEvent::Error(status) => bail!("the watch was rejected: {}", status.message),
        };
        let WatchedMetadata { name, namespace, resource_version } = object.metadata;
        *version = resource_version;
        let _ = sender.send(Ok(ObservedEvent { at: Instant::now(), what, namespace, name }));
    }
    Ok(())
}
