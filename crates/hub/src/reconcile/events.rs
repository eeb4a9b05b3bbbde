//! Events on users' objects: what keeps an object from being planned, or what is planned from being written, and how it
//! fares on its clusters.
//!
//! An Event is sent once for each change of a problem. A bounded queue holds them: each tenant has a share, tenants take turns, and an Event
//! past its share is dropped. The annotation, the metric and the log have the same information.

mod rate;
mod waiting;

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::debug;

use self::rate::Rate;
use self::waiting::Waiting;
use crate::tasks::Tasks;
use crate::telemetry::metrics::Metrics;
use policy_sync_api::tenant::Tenant;
use policy_sync_api::text::{capped, with_causes};

/// The most bytes of a note, which is what an Event takes.
pub const NOTE_LIMIT: usize = 1024;

/// The most bytes of a name in a reference: of an object that is denied it may be any text.
const NAME_LIMIT: usize = 253;

/// How many events are remembered at most, to count one that is told again instead of making another. The recorder
/// remembers each for six minutes, however many there are.
const REMEMBERED: usize = 64;

/// What is told of an object.
#[derive(Debug)]
struct Queued {
    object: ObjectReference,
    related: Option<ObjectReference>,
    severity: EventType,
    reason: &'static str,
    note: String,
}

/// Tells events.
#[derive(Clone, Debug)]
pub struct Events {
    waiting: Arc<Mutex<Waiting<Queued>>>,
    /// Of Events that requests cause.
    rate: Arc<Mutex<Rate>>,
    /// Wakes the task that sends them.
    wake: mpsc::Sender<()>,
    metrics: Metrics,
}

impl Events {
    /// Starts telling events of one action, such as `Sync`, until the last clone of this is gone.
    pub fn start(client: Client, tasks: &Tasks, metrics: Metrics, action: &'static str) -> Self {
        let waiting: Arc<Mutex<Waiting<Queued>>> = Arc::default();
        let (wake, mut woken) = mpsc::channel(1);
        let (events, dropped) = (waiting.clone(), metrics.clone());
        let next = move || events.lock().pop();
        tokio::spawn(tasks.clone().watch("events", async move {
            let reporter = Reporter { controller: "policy-sync".into(), instance: None };
            let mut recorder = Recorder::new(client.clone(), reporter.clone());
            let mut count = 0;
            loop {
                while let Some(Queued { object, related, severity, reason, note }) = next() {
                    count += 1;
                    if count % REMEMBERED == 0 {
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
                        dropped.dropped_event();
                        debug!(error = with_causes(&error), "an event was not taken");
                    }
                }
                if woken.recv().await.is_none() {
                    return;
                }
            }
        }));
        Self { waiting, rate: Arc::default(), wake, metrics }
    }

    /// Emits a warning Event about `object` with a machine-readable `reason` and a `note`. The first KiB of the note is sent.
    pub fn warn(&self, object: ObjectReference, reason: &'static str, note: String) {
        self.tell(object, EventType::Warning, reason, note);
    }

    /// Warns of `object` because of a request of `tenant`, at a limited rate. Requests about different `related` objects have different
    /// Events; repeated ones are counted in one.
    pub fn warn_for(
        &self,
        tenant: Tenant,
        (object, related): (ObjectReference, Option<ObjectReference>),
        reason: &'static str,
        note: &str,
    ) {
        if !self.rate.lock().allows(&tenant, Instant::now()) {
            return self.metrics.dropped_event();
        }
        let severity = EventType::Warning;
        self.push(
            tenant,
            Queued { object, related, severity, reason, note: capped(note, NOTE_LIMIT).into_owned() },
        );
    }

    /// Tells of `object` as [`Events::warn`] does.
    pub fn tell(&self, object: ObjectReference, severity: EventType, reason: &'static str, note: String) {
        let note = capped(&note, NOTE_LIMIT).into_owned();
        self.push(tenant(&object), Queued { object, related: None, severity, reason, note });
    }

    fn push(&self, tenant: Tenant, mut event: Queued) {
        for object in [Some(&mut event.object), event.related.as_mut()].into_iter().flatten() {
            for name in [&mut object.name, &mut object.uid].into_iter().flatten() {
                *name = capped(name, NAME_LIMIT).into_owned();
            }
        }
        if self.waiting.lock().push(tenant, event).is_some() {
            self.metrics.dropped_event();
        }
        // If it is full, the task is about to wake.
        let _ = self.wake.try_send(());
    }
}

/// The tenant in whose share an Event about `object` is.
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
