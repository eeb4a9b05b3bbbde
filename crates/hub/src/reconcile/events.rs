//! Events on users' objects: why an object was not planned, why a write failed, and how clusters apply the object.
//!
//! Each change of a problem causes one Event. Events wait in a bounded queue. Each tenant has a share of the queue, and
//! tenants take turns. An Event that exceeds its tenant's share is dropped. Annotations, metrics and logs contain the
//! same information.

mod queue;
mod rate;

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::debug;

use self::queue::EventQueue;
use self::rate::EventRateLimiter;
use crate::tasks::Tasks;
use crate::telemetry::metrics::Metrics;
use policy_sync_api::tenant::Tenant;
use policy_sync_api::text::{truncate_bytes, with_causes};

/// The maximum size of an Event's note, in bytes: the API server accepts no more.
pub const NOTE_LIMIT: usize = 1024;

/// The maximum size of a name in a reference, in bytes. The name of a denied object can be any text.
const NAME_LIMIT: usize = 253;

/// The number of Events after which a new recorder replaces the old one. A recorder remembers each Event for six
/// minutes, to count repetitions, and does not limit their number.
const EVENTS_PER_RECORDER: usize = 64;

/// A reference to the Namespace `name`, for Events about it. The Events are created in that Namespace, where its users
/// can read them.
#[must_use]
pub fn namespace_reference(name: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Namespace".to_owned()),
        name: Some(name.to_owned()),
        namespace: Some(name.to_owned()),
        ..ObjectReference::default()
    }
}

/// An Event that is not sent yet.
#[derive(Debug)]
struct QueuedEvent {
    object: ObjectReference,
    related: Option<ObjectReference>,
    severity: EventType,
    reason: &'static str,
    note: String,
}

/// Queues and sends Events. Clones share the queue.
#[derive(Clone, Debug)]
pub struct Events {
    queue: Arc<Mutex<EventQueue<QueuedEvent>>>,
    /// The rate limit for Events about denied requests of users.
    rate: Arc<Mutex<EventRateLimiter>>,
    /// Wakes the sending task.
    wake: mpsc::Sender<()>,
    metrics: Metrics,
}

impl Events {
    /// Starts the sending task, for Events with one `action`, for example `Sync`. It ends once all clones are dropped
    /// and the queue is empty.
    pub fn start(client: Client, tasks: &Tasks, metrics: Metrics, action: &'static str) -> Self {
        let queue: Arc<Mutex<EventQueue<QueuedEvent>>> = Arc::default();
        let (wake, mut woken) = mpsc::channel(1);
        let (events, dropped) = (queue.clone(), metrics.clone());
        let next = move || events.lock().pop();
        tokio::spawn(tasks.clone().watch("events", async move {
            let reporter = Reporter { controller: "policy-sync".into(), instance: None };
            let mut recorder = Recorder::new(client.clone(), reporter.clone());
            let mut count = 0;
            loop {
                while let Some(QueuedEvent { object, related, severity, reason, note }) = next() {
                    count += 1;
                    if count % EVENTS_PER_RECORDER == 0 {
                        recorder = Recorder::new(client.clone(), reporter.clone());
                    }
                    let event = Event {
                        type_: severity,
                        reason: reason.into(),
                        note: Some(note),
                        action: action.into(),
                        secondary: related,
                    };
                    if let Err(error) = recorder.publish(&event, &object).await {
                        dropped.count_dropped_event();
                        debug!(error = with_causes(&error), "the hub did not accept an Event");
                    }
                }
                if woken.recv().await.is_none() {
                    return;
                }
            }
        }));
        Self { queue, rate: Arc::default(), wake, metrics }
    }

    /// Queues a warning about `object` with a machine-readable `reason`. The note is cut at [`NOTE_LIMIT`].
    pub fn warn(&self, object: ObjectReference, reason: &'static str, note: String) {
        self.publish(object, EventType::Warning, reason, note);
    }

    /// Queues a warning about `object` that a request of `tenant` caused, at a limited rate. Requests about different
    /// `related` objects cause separate Events. Repetitions of an Event are counted in that Event.
    pub fn warn_rate_limited(
        &self,
        tenant: Tenant,
        (object, related): (ObjectReference, Option<ObjectReference>),
        reason: &'static str,
        note: &str,
    ) {
        if !self.rate.lock().allows(&tenant, Instant::now()) {
            return self.metrics.count_dropped_event();
        }
        let severity = EventType::Warning;
        self.push(
            tenant,
            QueuedEvent {
                object,
                related,
                severity,
                reason,
                note: truncate_bytes(note, NOTE_LIMIT).into_owned(),
            },
        );
    }

    /// Queues an Event of any severity. The note is cut at [`NOTE_LIMIT`].
    pub fn publish(&self, object: ObjectReference, severity: EventType, reason: &'static str, note: String) {
        let note = truncate_bytes(&note, NOTE_LIMIT).into_owned();
        self.push(tenant(&object), QueuedEvent { object, related: None, severity, reason, note });
    }

    fn push(&self, tenant: Tenant, mut event: QueuedEvent) {
        for object in [Some(&mut event.object), event.related.as_mut()].into_iter().flatten() {
            for name in [&mut object.name, &mut object.uid].into_iter().flatten() {
                *name = truncate_bytes(name, NAME_LIMIT).into_owned();
            }
        }
        if self.queue.lock().push(tenant, event).is_some() {
            self.metrics.count_dropped_event();
        }
        // A full channel means that the task is about to wake.
        let _ = self.wake.try_send(());
    }
}

/// The tenant whose share an Event about `object` uses: the object's namespace, or a cluster-scoped object itself.
fn tenant(object: &ObjectReference) -> Tenant {
    match object.namespace.as_deref().unwrap_or_default() {
        "" => Tenant::object(
            object.kind.as_deref().unwrap_or_default(),
            object.name.as_deref().unwrap_or_default(),
        ),
        namespace => Tenant::namespace(namespace),
    }
}

#[cfg(test)]
mod tests;
