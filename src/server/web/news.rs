//! What changes, told to every tab at most once a second.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive};
use futures::{Stream, stream};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::report::WatchError;
use crate::report::fleet::{Live, Place};
use crate::web;

/// How often a tab is told at most.
const EVERY: Duration = Duration::from_secs(1);
/// How long a first change waits for others.
const MOMENT: Duration = Duration::from_millis(50);
/// How often pages of clusters are told at most: each is made of lists.
const CLUSTERS_EVERY: Duration = Duration::from_secs(5);
/// How often a silent connection shows that it lives.
const ALIVE: Duration = Duration::from_secs(15);

/// The last line, and how many there were.
#[derive(Clone, Debug, Default)]
pub struct Line {
    number: u64,
    text: Arc<str>,
}

/// What has changed. Clones tell the same.
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
    /// Tells what changes in `live`, for as long as that goes on.
    ///
    /// # Errors
    ///
    /// Why it does not.
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
            // What comes within the moment is one line with it.
            tokio::time::sleep(MOMENT).await;
            places.extend(live.taken());
            let has_changed = !places.is_empty();
            held.extend(places.extract_if(.., |place| matches!(place, Place::Cluster(_))));
            if clusters_told.is_none_or(|told| told.elapsed() >= CLUSTERS_EVERY) && !held.is_empty() {
                places.append(&mut held);
                clusters_told = Some(Instant::now());
            }
            // Of a cluster whose page is told later, the matrix is told at once.
            if places.is_empty() && !has_changed {
                continue;
            }
            let text = web::line(live.look().roster(), &places).into();
            self.line.send_modify(|line| *line = Line { number: line.number + 1, text });
            tokio::time::sleep(EVERY).await;
        }
    }

    /// A number that is another one once something has changed.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.line.borrow().number
    }

    /// What is told that something has changed.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Line> {
        self.line.subscribe()
    }

    /// The lines from now on, as a browser listens to them. Who is slow misses lines, and is told of everything then.
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
