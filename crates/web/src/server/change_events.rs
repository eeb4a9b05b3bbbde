//! Server-sent events about changes, for every open tab, at most once a second.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive};
use futures::{Stream, stream};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate as web;
use policy_sync_report::WatchError;
use policy_sync_report::fleet::{ChangedPart, Live};

/// The minimum time between two events.
const EVENT_INTERVAL: Duration = Duration::from_secs(1);
/// How long the first change waits for further changes.
const DEBOUNCE: Duration = Duration::from_millis(50);
/// The minimum time between two events about pages of clusters, which are expensive to render.
const CLUSTER_EVENT_INTERVAL: Duration = Duration::from_secs(5);
/// The interval of keep-alive messages.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// The last event, and the number of events so far.
#[derive(Clone, Debug, Default)]
pub struct ChangeEvent {
    number: u64,
    text: Arc<str>,
}

/// The stream of events. Clones share it.
#[derive(Clone, Debug)]
pub struct ChangeEvents {
    latest: watch::Sender<ChangeEvent>,
}

impl Default for ChangeEvents {
    fn default() -> Self {
        Self { latest: watch::Sender::new(ChangeEvent::default()) }
    }
}

impl ChangeEvents {
    /// Publishes changes of `live` as events. Returns only after an error.
    ///
    /// # Errors
    ///
    /// If `live` fails.
    pub async fn publish_changes(&self, live: &Live) -> Result<(), WatchError> {
        let (mut held, mut clusters_sent): (BTreeSet<ChangedPart>, Option<Instant>) = Default::default();
        loop {
            let mut changed_parts = BTreeSet::new();
            let due = clusters_sent.map(|sent| sent + CLUSTER_EVENT_INTERVAL).filter(|_| !held.is_empty());
            match due {
                None => changed_parts = live.changed().await?,
                Some(due) => {
                    if let Ok(changed) = timeout_at(due, live.changed()).await {
                        changed_parts = changed?;
                    }
                }
            }
            // Changes that follow shortly are part of the same event.
            tokio::time::sleep(DEBOUNCE).await;
            changed_parts.extend(live.take_changes());
            let has_changed = !changed_parts.is_empty();
            held.extend(changed_parts.extract_if(.., |part| matches!(part, ChangedPart::Cluster(_))));
            if clusters_sent.is_none_or(|sent| sent.elapsed() >= CLUSTER_EVENT_INTERVAL) && !held.is_empty() {
                changed_parts.append(&mut held);
                clusters_sent = Some(Instant::now());
            }
            // Pages of clusters are delayed, but the matrix is updated at once.
            if changed_parts.is_empty() && !has_changed {
                continue;
            }
            let text = web::event_paths(live.view().watched_kinds(), &changed_parts).into();
            self.latest.send_modify(|latest| *latest = ChangeEvent { number: latest.number + 1, text });
            tokio::time::sleep(EVENT_INTERVAL).await;
        }
    }

    /// A number that changes with every event.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.latest.borrow().number
    }

    /// A receiver for new events.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<ChangeEvent> {
        self.latest.subscribe()
    }

    /// The stream of events after this call. Slow readers miss events and get `*` (everything has changed) instead.
    pub(super) fn stream(&self) -> Sse<impl Stream<Item = Result<Event, Infallible>> + use<>> {
        let receiver = self.latest.subscribe();
        let sent = receiver.borrow().number;
        let lines = stream::unfold((receiver, sent), async |(mut receiver, sent)| {
            receiver.changed().await.ok()?;
            let latest = receiver.borrow_and_update().clone();
            let text = if latest.number == sent + 1 { &*latest.text } else { "*" };
            Some((Ok(Event::default().data(text)), (receiver, latest.number)))
        });
        Sse::new(lines).keep_alive(KeepAlive::new().interval(KEEP_ALIVE_INTERVAL))
    }
}
