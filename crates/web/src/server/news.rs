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
use policy_sync_report::fleet::{Live, Place};

/// The minimum time between two events.
const EVERY: Duration = Duration::from_secs(1);
/// How long the first change waits for others.
const MOMENT: Duration = Duration::from_millis(50);
/// The minimum time between two events about pages of clusters, which are expensive to render.
const CLUSTERS_EVERY: Duration = Duration::from_secs(5);
/// The interval of keep-alive messages.
const ALIVE: Duration = Duration::from_secs(15);

/// The last event, and the number of events so far.
#[derive(Clone, Debug, Default)]
pub struct Line {
    number: u64,
    text: Arc<str>,
}

/// The stream of events. Clones share it.
#[derive(Clone, Debug)]
pub struct News {
    line: watch::Sender<Line>,
}

impl Default for News {
    fn default() -> Self {
        Self { line: watch::Sender::new(Line::default()) }
    }
}

impl News {
    /// Publishes changes of `live` as events until it ends.
    ///
    /// # Errors
    ///
    /// If `live` fails.
    pub async fn follow(&self, live: &Live) -> Result<(), WatchError> {
        let (mut held, mut clusters_told): (BTreeSet<Place>, Option<Instant>) = Default::default();
        loop {
            let mut places = BTreeSet::new();
            let due = clusters_told.map(|told| told + CLUSTERS_EVERY).filter(|_| !held.is_empty());
            match due {
                None => places = live.changed().await?,
                Some(due) => {
                    if let Ok(changed) = timeout_at(due, live.changed()).await {
                        places = changed?;
                    }
                }
            }
            // Changes that follow shortly are part of the same event.
            tokio::time::sleep(MOMENT).await;
            places.extend(live.taken());
            let has_changed = !places.is_empty();
            held.extend(places.extract_if(.., |place| matches!(place, Place::Cluster(_))));
            if clusters_told.is_none_or(|told| told.elapsed() >= CLUSTERS_EVERY) && !held.is_empty() {
                places.append(&mut held);
                clusters_told = Some(Instant::now());
            }
            // Pages of clusters are delayed, but the matrix is updated at once.
            if places.is_empty() && !has_changed {
                continue;
            }
            let text = web::line(live.look().roster(), &places).into();
            self.line.send_modify(|line| *line = Line { number: line.number + 1, text });
            tokio::time::sleep(EVERY).await;
        }
    }

    /// A number that changes with every event.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.line.borrow().number
    }

    /// A receiver for new events.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Line> {
        self.line.subscribe()
    }

    /// The events from now on. Slow readers miss events and get `*` (everything has changed) instead.
    pub(super) fn stream(&self) -> Sse<impl Stream<Item = Result<Event, Infallible>> + use<>> {
        let receiver = self.line.subscribe();
        let seen = receiver.borrow().number;
        let lines = stream::unfold((receiver, seen), async |(mut receiver, seen)| {
            receiver.changed().await.ok()?;
            let line = receiver.borrow_and_update().clone();
            let text = if line.number == seen + 1 { &*line.text } else { "*" };
            Some((Ok(Event::default().data(text)), (receiver, line.number)))
        });
        Sse::new(lines).keep_alive(KeepAlive::new().interval(ALIVE))
    }
}
