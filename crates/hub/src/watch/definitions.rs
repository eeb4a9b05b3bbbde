//! Notifies of created, deleted and changed CustomResourceDefinitions.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use kube::Client;
use kube::api::{ListParams, WatchParams};
use kube::core::{ObjectList, Request, WatchEvent};
use kube::runtime::watcher::DefaultBackoff;
use tokio::sync::broadcast;
use tokio::time::Instant;
use tracing::warn;

use super::follow::back_off;
use crate::request_timeout::with_response_timeout;
use policy_sync_api::object::HubObject;
use policy_sync_api::text::with_causes;

/// The longest pause before a failed watch restarts.
const MAX_BACKOFF: Duration = Duration::from_secs(30);
/// How many notifications a receiver may lag behind. A receiver that missed notifications treats its definition as
/// changed.
const CHANNEL_CAPACITY: usize = 64;

/// Notifies of created, deleted and changed definitions.
#[derive(Debug)]
pub struct CrdNotifications {
    sender: broadcast::Sender<Arc<str>>,
    receiver: broadcast::Receiver<Arc<str>>,
}

/// The clone receives the changes from now on.
impl Clone for CrdNotifications {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone(), receiver: self.sender.subscribe() }
    }
}

impl CrdNotifications {
    pub(super) fn new() -> Self {
        let (sender, receiver) = broadcast::channel(CHANNEL_CAPACITY);
        Self { sender, receiver }
    }

    /// Waits for a change of the definition `name`. It may also return after missed notifications.
    pub async fn changed(&mut self, name: &str) {
        loop {
            match self.receiver.recv().await {
                Ok(changed) if *changed == *name => return,
                Ok(_) => {}
                // The missed notifications may have been about this definition.
                Err(_) => return,
            }
        }
    }

    /// Waits for a change of any definition.
    pub async fn any_changed(&mut self) {
        // A missed notification is a change too.
        let _ = self.receiver.recv().await;
    }

    /// Discards pending notifications.
    pub fn discard_pending(&mut self) {
        self.receiver = self.sender.subscribe();
    }

    /// Watches CustomResourceDefinitions forever.
    pub(super) fn follow(&self, client: Client) -> impl Future<Output = ()> + Send + 'static {
        follow(client, self.sender.clone())
    }
}

/// Watches the metadata of CustomResourceDefinitions forever. Whole definitions are large.
async fn follow(client: Client, changed: broadcast::Sender<Arc<str>>) {
    let mut seen: HashMap<String, String> = HashMap::new();
    let mut backoff = DefaultBackoff::default();
    loop {
        if let Err(error) = list_and_watch(&client, &changed, &mut seen, &mut backoff).await {
            warn!(error = with_causes(&error), "cannot watch CustomResourceDefinitions");
            tokio::time::sleep(backoff.next().unwrap_or(MAX_BACKOFF)).await;
        }
    }
}

async fn list_and_watch(
    client: &Client,
    changed: &broadcast::Sender<Arc<str>>,
    seen: &mut HashMap<String, String>,
    backoff: &mut DefaultBackoff,
) -> Result<(), kube::Error> {
    let request = Request::new("/apis/apiextensions.k8s.io/v1/customresourcedefinitions");
    let list = request.list_metadata(&ListParams::default()).map_err(kube::Error::BuildRequest)?;
    let list: ObjectList<HubObject> = with_response_timeout(client.request(list)).await?;
    // `CrdNotifications` has a receiver, so sending does not fail.
    let notify = |name: &str| drop(changed.send(name.into()));
    let mut deleted = std::mem::take(seen);
    for item in &list.items {
        let (name, version) = (&item.metadata.name, &item.metadata.resource_version);
        if deleted.remove(name).as_ref() != Some(version) {
            notify(name);
        }
        seen.insert(name.clone(), version.clone());
    }
    deleted.keys().for_each(|name| notify(name));
    let version = list.metadata.resource_version.unwrap_or_default();
    let watch =
        request.watch_metadata(&WatchParams::default(), &version).map_err(kube::Error::BuildRequest)?;
    let (started, mut received) = (Instant::now(), false);
    let mut events = std::pin::pin!(with_response_timeout(client.request_events::<HubObject>(watch)).await?);
    while let Some(event) = events.try_next().await? {
        received |= !matches!(event, WatchEvent::Error(_));
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                notify(&object.metadata.name);
                seen.insert(object.metadata.name, object.metadata.resource_version);
            }
            WatchEvent::Deleted(object) => {
                notify(&object.metadata.name);
                seen.remove(&object.metadata.name);
            }
            WatchEvent::Bookmark(_) => {}
            WatchEvent::Error(_) => break,
        }
    }
    back_off(backoff, started, received).await;
    Ok(())
}
