//! What becomes of what is shown, while it is watched.

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

/// Something that happens while a hub is watched.
#[derive(Debug)]
pub enum Event {
    /// These may be shown otherwise, and so; `None` is one that is gone.
    Changed(Vec<(ItemKey, Option<Item>)>),
    /// The hub cannot be watched for a while, for this reason.
    Away(String),
    /// It can again.
    Back,
}

/// Why a watch ends.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// A kind may not be watched.
    #[error("{0}")]
    Forbidden(String),
    /// There is no way to count what fails.
    #[error("cannot set metrics up")]
    Metrics(#[from] prometheus::Error),
    /// It cannot go on: a task of it has panicked, or the hub was restored from a backup.
    #[error("the watch has ended, begin it again: {0}")]
    Ended(#[from] Ended),
}

/// What has happened, and was not told yet.
#[derive(Debug, Default)]
struct Pending {
    changed: BTreeSet<ItemKey>,
    /// Sources of which the hub did not answer, or does again.
    failing: BTreeSet<Source>,
}

#[derive(Debug, Default)]
struct Inbox {
    pending: Mutex<Pending>,
    arrived: Notify,
}

/// A watch of a hub.
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
    /// Goes on from what was `seen`. `client` waits for as long as a watch may be silent; `hub` is for the words.
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
    /// Where it cannot go on.
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

    /// What there is to tell of `source`, which could not be watched a moment ago, or can again.
    fn failed(&mut self, source: &Source) -> Result<Option<Event>, WatchError> {
        let guard = self.seen.read();
        match guard.tables().failure(source) {
            None => Ok(self.outage.ends(source).then_some(Event::Back)),
            Some(failing) => {
                let text = self.text(source, failing);
                // A hub that starts may refuse for a while what it allowed.
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

/// What cannot be watched at present, and what was said about that.
#[derive(Debug, Default)]
struct Outage {
    sources: BTreeSet<Source>,
    told: BTreeSet<String>,
}

impl Outage {
    fn is_on(&self) -> bool {
        !self.sources.is_empty()
    }

    /// Notes a failure of `source`, and returns whether it has yet to be said.
    fn is_new(&mut self, source: Source, text: &str) -> bool {
        self.sources.insert(source);
        self.told.insert(text.to_owned())
    }

    /// Notes that `source` is watched, and returns whether that ends it all.
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
