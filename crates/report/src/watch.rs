//! Watches the objects of a report, and returns the items that change.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::Client;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

use super::index::{ReportIndex, ReportView};
use super::item::Item;
use super::key::ItemKey;
use super::report_mirror::{NOW, ReportMirror};
use policy_sync_hub::HubClient;
use policy_sync_hub::clock::Clock;
use policy_sync_hub::tasks::{RestartReason, Tasks};
use policy_sync_hub::telemetry::metrics::Metrics;
use policy_sync_hub::watch::{Feed, Supervisor};
use policy_sync_mirror::{Changes, MirrorChange, Source, SourceFailure, WatchFailureKind};

/// An event during a watch of a hub.
#[derive(Debug)]
pub enum WatchEvent {
    /// Items that may have changed, in their new state; `None` for a deleted item.
    Changed(Vec<(ItemKey, Option<Item>)>),
    /// The hub cannot be watched at present, for this reason.
    Disconnected(String),
    /// The hub can be watched again.
    Reconnected,
}

/// Why a watch ends.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The user may not watch a kind.
    #[error("{0}")]
    Forbidden(String),
    /// The metrics of the watch cannot be registered.
    #[error("cannot set up metrics")]
    Metrics(#[from] prometheus::Error),
    /// A task has panicked, or the hub was restored from a backup.
    #[error("the watch has ended and must be restarted: {0}")]
    RestartReason(#[from] RestartReason),
}

/// Changes that were not returned yet.
#[derive(Debug, Default)]
struct Pending {
    changed: BTreeSet<ItemKey>,
    /// Sources that failed or recovered since the last event.
    failing: BTreeSet<Source>,
}

#[derive(Debug, Default)]
struct ChangeQueue {
    pending: Mutex<Pending>,
    arrived: Notify,
}

/// A running watch of a hub. Dropping it ends the watch.
#[derive(Debug)]
pub struct ReportWatch {
    hub: HubClient,
    report_mirror: ReportMirror,
    inbox: Arc<ChangeQueue>,
    tasks: Tasks,
    outage: Outage,
    running: AbortHandle,
}

impl Drop for ReportWatch {
    fn drop(&mut self) {
        self.running.abort();
    }
}

impl ReportWatch {
    /// Continues from the listed objects in `report_mirror`. The timeout of `client` must be longer than the longest
    /// time between two events of a watch. `hub` provides the URL for messages.
    ///
    /// # Errors
    ///
    /// [`WatchError::Metrics`].
    pub fn start(hub: HubClient, client: Client, report_mirror: ReportMirror) -> Result<Self, WatchError> {
        let (tasks, inbox) = (Tasks::new(Metrics::new()?), Arc::new(ChangeQueue::default()));
        let (into, one_cluster) = (inbox.clone(), report_mirror.cluster.is_some());
        let feed = Feed::new(
            report_mirror.mirror.clone(),
            report_mirror.controller.clone(),
            Clock::start(),
            move |changes| {
                into.take(changes, one_cluster);
            },
        );
        let (wanted, sources) = watch::channel(report_mirror.sources());
        let supervisor = Supervisor::new(client, feed, tasks.clone());
        let running = tokio::spawn(tasks.clone().watch("watches", async move {
            supervisor.run(&[], sources).await;
            drop(wanted);
        }));
        let running = running.abort_handle();
        Ok(Self { hub, report_mirror, inbox, tasks, outage: Outage::default(), running })
    }

    /// Waits for the next event.
    ///
    /// # Errors
    ///
    /// If the watch cannot continue.
    pub async fn next(&mut self) -> Result<WatchEvent, WatchError> {
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

    fn pending(&mut self) -> Result<Option<WatchEvent>, WatchError> {
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
        let guard = self.report_mirror.read();
        let view = guard.view(NOW);
        let items = changed.into_iter().map(|key| {
            let item = self.report_mirror.item(view, &key);
            (key, item)
        });
        Ok(Some(WatchEvent::Changed(items.collect())))
    }

    /// The event for a `source` that failed or recovered, unless it was reported before.
    fn failed(&mut self, source: &Source) -> Result<Option<WatchEvent>, WatchError> {
        let guard = self.report_mirror.read();
        match guard.tables().failure(source) {
            None => Ok(self.outage.resolve(source).then_some(WatchEvent::Reconnected)),
            Some(failing) => {
                let text = self.text(source, failing);
                // A hub that is starting may temporarily deny requests that it allowed before.
                if failing.kind == WatchFailureKind::Forbidden && !self.outage.is_active() {
                    return Err(WatchError::Forbidden(text));
                }
                Ok(self.outage.is_new(source.clone(), &text).then_some(WatchEvent::Disconnected(text)))
            }
        }
    }

    fn text(&self, source: &Source, failing: &SourceFailure) -> String {
        let (url, text) = (self.hub.url(), &failing.text);
        match failing.kind {
            WatchFailureKind::NoResponse => format!("cannot reach the hub at {url}: {text}"),
            WatchFailureKind::Transient | WatchFailureKind::Unauthenticated | WatchFailureKind::Forbidden => {
                format!("cannot watch {} on the hub at {url}: {text}", self.report_mirror.kind_of(source))
            }
        }
    }
}

impl ChangeQueue {
    fn take(&self, changes: &Changes<'_, ReportIndex>, one_cluster: bool) {
        let view: ReportView<'_> = changes.view();
        let mut pending = self.pending.lock();
        for changed in changes.iter() {
            match changed {
                MirrorChange::FailureChanged { source, .. } => drop(pending.failing.insert(source.clone())),
                changed => pending.changed.extend(ReportMirror::affected(changed, view, one_cluster)),
            }
        }
        self.arrived.notify_one();
    }
}

/// The sources that cannot be watched at present, and the messages that were returned about them.
#[derive(Debug, Default)]
struct Outage {
    sources: BTreeSet<Source>,
    reported: BTreeSet<String>,
}

impl Outage {
    fn is_active(&self) -> bool {
        !self.sources.is_empty()
    }

    /// Records a failure of `source`. Returns whether its message is new.
    fn is_new(&mut self, source: Source, text: &str) -> bool {
        self.sources.insert(source);
        self.reported.insert(text.to_owned())
    }

    /// Records that `source` is watched again. Returns whether the outage is over.
    fn resolve(&mut self, source: &Source) -> bool {
        let is_over = self.sources.remove(source) && self.sources.is_empty();
        if is_over {
            self.reported.clear();
        }
        is_over
    }
}

#[cfg(test)]
mod tests;
