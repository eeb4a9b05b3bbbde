//! Sees objects come, change and go, by a watch of the harness's own.
//!
//! Both arms of a comparison are observed alike, and so pay the same for it. Only metadata is asked for.

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

/// How long nothing may happen while something is waited for.
const SILENCE: Duration = Duration::from_secs(60);

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Came,
    Changed,
    Gone,
}

/// Something that happened, when it was seen.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) at: Instant,
    pub(super) what: What,
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Seen {
    pub(super) fn came(&self) -> bool {
        self.what == What::Came
    }

    pub(super) fn gone(&self) -> bool {
        self.what == What::Gone
    }
}

/// A watch of one kind, from the moment at which it was started.
#[derive(Debug)]
pub(super) struct Observer {
    seen: mpsc::UnboundedReceiver<Result<Seen>>,
    _task: AbortOnDropHandle<()>,
}

impl Observer {
    /// Watches the objects at `path` (`/apis/<group>/<version>/<resource>`) that have `labels`.
    pub(super) async fn start(client: &Client, path: &str, labels: &str) -> Result<Self> {
        let request = Request::new(path);
        let newest = request.list_metadata(&ListParams::default().limit(1)).context("making a list")?;
        let newest: ObjectList<HubObject> = client.request(newest).await.context("listing")?;
        let mut version = newest.metadata.resource_version.unwrap_or_default();
        let (sender, seen) = mpsc::unbounded_channel();
        let (client, params) = (client.clone(), WatchParams::default().labels(labels));
        let task = tokio::spawn(async move {
            loop {
                if let Err(error) = watch(&client, &request, &params, &mut version, &sender).await {
                    // Nobody waits any more where it cannot be sent.
                    let _ = sender.send(Err(error));
                    return;
                }
            }
        });
        Ok(Self { seen, _task: AbortOnDropHandle::new(task) })
    }

    /// The next that happens.
    pub(super) async fn next(&mut self) -> Result<Seen> {
        let seen = tokio::time::timeout(SILENCE, self.seen.recv()).await;
        seen.context("nothing happened any more")?.context("the watch ended")?
    }

    /// What has happened and was not asked for yet.
    pub(super) fn so_far(&mut self) -> Result<Vec<Seen>> {
        std::iter::from_fn(|| self.seen.try_recv().ok()).collect()
    }

    /// Waits until `fits` was true of something that happened to `count` different objects, and tells when it was
    /// for the last of them.
    pub(super) async fn until(&mut self, count: usize, fits: impl Fn(&Seen) -> bool) -> Result<Instant> {
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
struct Watched {
    metadata: Named,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    name: String,
    #[serde(default)]
    namespace: String,
    resource_version: String,
}

/// Watches until the server ends it, as it does after some minutes.
async fn watch(
    client: &Client,
    request: &Request,
    params: &WatchParams,
    version: &mut String,
    sender: &mpsc::UnboundedSender<Result<Seen>>,
) -> Result<()> {
    let watch = request.watch_metadata(params, version).context("making a watch")?;
    let mut events = std::pin::pin!(client.request_events::<Watched>(watch).await.context("watching")?);
    while let Some(event) = events.try_next().await.context("watching")? {
        let (what, object) = match event {
            WatchEvent::Added(object) => (What::Came, object),
            WatchEvent::Modified(object) => (What::Changed, object),
            WatchEvent::Deleted(object) => (What::Gone, object),
            WatchEvent::Bookmark(bookmark) => {
                *version = bookmark.metadata.resource_version;
                continue;
            }
            WatchEvent::Error(status) => bail!("the watch was refused: {}", status.message),
        };
        let Named { name, namespace, resource_version } = object.metadata;
        *version = resource_version;
        let _ = sender.send(Ok(Seen { at: Instant::now(), what, namespace, name }));
    }
    Ok(())
}
