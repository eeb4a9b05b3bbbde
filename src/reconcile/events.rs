//! Events on users' objects: what keeps an object from being planned, or what is planned from being written, and how it
//! fares on its clusters.
//!
//! They are told once for each change of what is wrong, through a bounded channel: where the hub is slow to take
//! them, they are dropped rather than waited for. The annotation, the metric and the log say the same.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tokio::sync::mpsc;
use tracing::debug;

use crate::api::text::{capped, with_causes};
use crate::tasks::Tasks;
use crate::telemetry::metrics::Metrics;

/// How many events may wait.
const WAITING: usize = 128;

/// The most bytes of a note, which is what an Event takes.
pub(crate) const NOTE_LIMIT: usize = 1024;

/// How many events are remembered at most, to count one that is told again instead of making another. The recorder
/// remembers each for six minutes, however many there are.
const REMEMBERED: usize = 64;

/// What is told of an object.
#[derive(Debug)]
struct Queued {
    object: ObjectReference,
    severity: EventType,
    reason: &'static str,
    note: String,
}

/// Tells events.
#[derive(Clone, Debug)]
pub(crate) struct Events {
    queue: mpsc::Sender<Queued>,
    metrics: Metrics,
}

impl Events {
    /// Starts telling events of one action, such as `Sync`, until the last clone of this is gone.
    pub(crate) fn start(client: Client, tasks: &Tasks, metrics: Metrics, action: &'static str) -> Self {
        let (queue, mut events) = mpsc::channel::<Queued>(WAITING);
        let dropped = metrics.clone();
        tokio::spawn(tasks.clone().watch("events", async move {
            let reporter = Reporter { controller: "policy-sync".into(), instance: None };
            let mut recorder = Recorder::new(client.clone(), reporter.clone());
            let mut count = 0;
            while let Some(Queued { object, severity, reason, note }) = events.recv().await {
                count += 1;
                if count % REMEMBERED == 0 {
                    recorder = Recorder::new(client.clone(), reporter.clone());
                }
                let event = Event {
                    type_: severity,
                    reason: reason.into(),
                    note: Some(note),
                    action: action.into(),
                    secondary: None,
                };
                if let Err(error) = recorder.publish(&event, &object).await {
                    dropped.dropped_event();
                    debug!(error = with_causes(&error), "an event was not taken");
                }
            }
        }));
        Self { queue, metrics }
    }

    /// Warns of `object`: a word for programs, and for people a note, of which the first KiB is told.
    pub(crate) fn warn(&self, object: ObjectReference, reason: &'static str, note: String) {
        self.tell(object, EventType::Warning, reason, note);
    }

    /// Tells of `object` as [`Events::warn`] does.
    pub(crate) fn tell(
        &self,
        object: ObjectReference,
        severity: EventType,
        reason: &'static str,
        note: String,
    ) {
        let note = capped(&note, NOTE_LIMIT).into_owned();
        // A full channel drops it: see above.
        if self.queue.try_send(Queued { object, severity, reason, note }).is_err() {
            self.metrics.dropped_event();
        }
    }
}
