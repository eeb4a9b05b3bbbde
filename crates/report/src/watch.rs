//! Watches the objects of a report, and returns the items that change.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::Client;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

use super::index::{Index, Look};
use super::item::Item;
use super::key::ItemKey;
use super::seen::{NOW, Seen};
use policy_sync_hub::HubClient;
use policy_sync_hub::clock::Clock;
use policy_sync_hub::tasks::{Ended, Tasks};
use policy_sync_hub::telemetry::metrics::Metrics;
use policy_sync_hub::watch::{Feed, Supervisor};
use policy_sync_mirror::{Changed, Changes, Failing, FailureKind, Source};

/// An event during a watch of a hub.
#[derive(Debug)]
pub enum Event {
    /// Items that may have changed, in their new state; `None` for a deleted item.
    Changed(Vec<(ItemKey, Option<Item>)>),
    /// The hub cannot be watched temporarily, for this reason.
    Away(String),
    /// The hub can be watched again.
    Back,
}

/// Why a watch ends.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// A kind may not be watched.
    #[error("{0}")]
    Forbidden(String),
    /// The metrics of the watch cannot be registered.
    #[error("cannot set up metrics")]
    Metrics(#[from] prometheus::Error),
    /// A task has panicked, or the hub was restored from a backup.
    #[error("the watch has ended and must be restarted: {0}")]
    Ended(#[from] Ended),
}

/// Changes that were not returned yet.
#[derive(Debug, Default)]
struct Pending {
    changed: BTreeSet<ItemKey>,
    /// Sources that failed or recovered.
    failing: BTreeSet<Source>,
}

#[derive(Debug, Default)]
struct Inbox {
    pending: Mutex<Pending>,
    arrived: Notify,
}

/// A running watch of a hub. Dropping it ends the watch.
#[derive(Debug)]
pub struct Watching {
    hub: HubClient,
    seen: Seen,
    inbox: Arc<Inbox>,
    tasks: Tasks,
    outage: Outage,
    running: AbortHandle,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.running.abort();
    }
}

impl Watching {
    /// Continues from the listed objects in `seen`. `client` needs a timeout longer than a watch may be
    /// silent; `hub` provides the URL for messages.
    ///
    /// # Errors
    ///
    /// [`WatchError::Metrics`].
    pub fn start(hub: HubClient, client: Client, seen: Seen) -> Result<Self, WatchError> {
        let (tasks, inbox) = (Tasks::new(Metrics::new()?), Arc::new(Inbox::default()));
        let (into, one_cluster) = (inbox.clone(), seen.cluster.is_some());
        let feed = Feed::new(seen.mirror.clone(), seen.controller.clone(), Clock::start(), move |changes| {
            into.take(changes, one_cluster);
        });
        let (wanted, sources) = watch::channel(seen.sources());
        let supervisor = Supervisor::new(client, feed, tasks.clone());
        let running = tokio::spawn(tasks.clone().watch("watches", async move {
            supervisor.run(&[], sources).await;
            drop(wanted);
        }));
        let running = running.abort_handle();
        Ok(Self { hub, seen, inbox, tasks, outage: Outage::default(), running })
    }

    /// Waits for the next event.
    ///
    /// # Errors
    ///
    /// If the watch cannot continue.
    pub async fn next(&mut self) -> Result<Event, WatchError> {
        loop {
            if let Some(event) = self.pending()? {
                return Ok(event);
            }
            tokio::select! {
                () = self.inbox.arrived.notified() => {}
                () = self.tasks.ended() => self.tasks.check()?,
            }
        }
    }

    fn pending(&mut self) -> Result<Option<Event>, WatchError> {
        loop {
            let Some(source) = self.inbox.pending.lock().failing.pop_first() else { break };
            if let Some(event) = self.failed(&source)? {
                return Ok(Some(event));
            }
        }
        let changed = std::mem::take(&mut self.inbox.pending.lock().changed);
        if changed.is_empty() {
            return Ok(None);
        }
        let guard = self.seen.read();
        let look = guard.view(NOW);
        let items = changed.into_iter().map(|key| {
            let item = self.seen.item(look, &key);
            (key, item)
        });
        Ok(Some(Event::Changed(items.collect())))
    }

    /// The event for a `source` that failed or recovered, unless it was reported before.
    fn failed(&mut self, source: &Source) -> Result<Option<Event>, WatchError> {
        let guard = self.seen.read();
        match guard.tables().failure(source) {
            None => Ok(self.outage.ends(source).then_some(Event::Back)),
            Some(failing) => {
                let text = self.text(source, failing);
                // A hub that is starting may temporarily deny requests that it allowed before.
                if failing.kind == FailureKind::Refused && !self.outage.is_on() {
                    return Err(WatchError::Forbidden(text));
                }
                Ok(self.outage.is_new(source.clone(), &text).then_some(Event::Away(text)))
            }
        }
    }

    fn text(&self, source: &Source, failing: &Failing) -> String {
        let (url, text) = (self.hub.url(), &failing.text);
        match failing.kind {
            FailureKind::NoAnswer => format!("cannot reach the hub at {url}: {text}"),
            FailureKind::Passing | FailureKind::Unauthenticated | FailureKind::Refused => {
                format!("cannot watch {} on the hub at {url}: {text}", self.seen.kind_of(source))
            }
        }
    }
}

impl Inbox {
    fn take(&self, changes: &Changes<'_, Index>, one_cluster: bool) {
        let look: Look<'_> = changes.view();
        let mut pending = self.pending.lock();
        for changed in changes.iter() {
            match changed {
                Changed::Failing { source, .. } => drop(pending.failing.insert(source.clone())),
                changed => pending.changed.extend(Seen::affected(changed, look, one_cluster)),
            }
        }
        self.arrived.notify_one();
    }
}

/// The sources that cannot be watched at present, and the messages that were returned about them.
#[derive(Debug, Default)]
struct Outage {
    sources: BTreeSet<Source>,
    told: BTreeSet<String>,
}

impl Outage {
    fn is_on(&self) -> bool {
        !self.sources.is_empty()
    }

    /// Records a failure of `source`. Returns whether its message is new.
    fn is_new(&mut self, source: Source, text: &str) -> bool {
        self.sources.insert(source);
        self.told.insert(text.to_owned())
    }

    /// Records that `source` is watched again. Returns whether the outage is over.
    fn ends(&mut self, source: &Source) -> bool {
        let ends = self.sources.remove(source) && self.sources.is_empty();
        if ends {
            self.told.clear();
        }
        ends
    }
}

#[cfg(test)]
mod tests;
