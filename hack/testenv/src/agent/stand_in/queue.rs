//! A delayed work queue: each name is queued once with its earliest due time, and never runs twice at the same
//! time.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Delay before the next run of a name if the last run panicked.
const AFTER_A_PANIC: Duration = Duration::from_secs(1);

/// Due times of queued names, and the names that are running.
#[derive(Debug, Default)]
struct Queue {
    due: HashMap<String, Instant>,
    running: HashSet<String>,
}

impl Queue {
    fn add(&mut self, name: String, at: Instant) {
        let due = self.due.entry(name).or_insert(at);
        *due = at.min(*due);
    }

    /// Takes the earliest name that is due and not running.
    fn take(&mut self, now: Instant) -> Option<String> {
        let waiting = self.due.iter().filter(|(name, at)| **at <= now && !self.running.contains(*name));
        let name = waiting.min_by_key(|(_, at)| **at).map(|(name, _)| name.clone())?;
        self.due.remove(&name);
        self.running.insert(name.clone());
        Some(name)
    }

    /// The due time of the next name that is not running.
    fn next(&self) -> Option<Instant> {
        self.due.iter().filter(|(name, _)| !self.running.contains(*name)).map(|(_, at)| *at).min()
    }

    fn done(&mut self, name: String, again: Option<Instant>) {
        self.running.remove(&name);
        if let Some(at) = again {
            self.add(name, at);
        }
    }
}

/// Runs `reconcile` for each received name until `stop` is cancelled, at most `workers` at a time. If `reconcile`
/// returns a delay, the name is queued again after this delay.
pub(super) async fn drive<F, R>(
    mut names: UnboundedReceiver<String>,
    workers: usize,
    stop: CancellationToken,
    reconcile: F,
) where
    F: Fn(String) -> R,
    R: Future<Output = Option<Duration>> + Send + 'static,
{
    let mut queue = Queue::default();
    let mut running = JoinSet::new();
    let mut names_of = HashMap::new();
    loop {
        let now = Instant::now();
        while running.len() < workers
            && let Some(name) = queue.take(now)
        {
            let task = running.spawn(reconcile(name.clone()));
            names_of.insert(task.id(), name);
        }
        let next = if running.len() < workers { queue.next() } else { None };
        tokio::select! {
            () = stop.cancelled() => break,
            name = names.recv() => match name {
                Some(name) => queue.add(name, Instant::now()),
                None => break,
            },
            () = tokio::time::sleep_until(next.unwrap_or(now)), if next.is_some() => {}
            Some(done) = running.join_next_with_id() => {
                let (id, again) = match done {
                    Ok((id, again)) => (id, again),
                    Err(error) => {
                        tracing::error!(%error, "a reconciliation panicked");
                        (error.id(), Some(AFTER_A_PANIC))
                    }
                };
                if let Some(name) = names_of.remove(&id) {
                    queue.done(name, again.map(|delay| Instant::now() + delay));
                }
            }
        }
    }
}

/// Exponential backoff for each name.
#[derive(Debug)]
pub(super) struct Backoff {
    first: Duration,
    longest: Duration,
    failures: HashMap<String, u32>,
}

impl Backoff {
    /// Delays start at `first` and double up to `longest`.
    pub(super) fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, failures: HashMap::new() }
    }

    /// Counts a failure and returns the delay before the next try.
    pub(super) fn failed(&mut self, name: &str) -> Duration {
        let count = self.failures.entry(name.to_owned()).or_default();
        let delay = self.first.saturating_mul(1 << (*count).min(30));
        *count = count.saturating_add(1);
        delay.min(self.longest)
    }

    /// Resets the failures of `name`.
    pub(super) fn forget(&mut self, name: &str) {
        self.failures.remove(name);
    }
}

#[cfg(test)]
mod tests;
