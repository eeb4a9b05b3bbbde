//! Events on users' objects: what keeps an object from being planned.
//!
//! They are told once for each change of what is wrong, through a bounded channel: where the hub is slow to take
//! them, they are dropped rather than waited for. The annotation, the metric and the log say the same.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tokio::sync::mpsc;
use tracing::debug;

use crate::plan::Problem;

/// How many events may wait.
const WAITING: usize = 128;

/// Tells events.
#[derive(Clone, Debug)]
pub(super) struct Events(mpsc::Sender<(ObjectReference, Problem)>);

impl Events {
    /// Starts telling events until the last clone of this is gone.
    pub(super) fn start(client: Client) -> Self {
        let (sender, mut events) = mpsc::channel::<(ObjectReference, Problem)>(WAITING);
        let recorder = Recorder::new(client, Reporter { controller: "policy-sync".into(), instance: None });
        tokio::spawn(async move {
            while let Some((object, problem)) = events.recv().await {
                let event = Event {
                    type_: EventType::Warning,
                    reason: problem.category().into(),
                    note: Some(problem.text()),
                    action: "Sync".into(),
                    secondary: None,
                };
                if let Err(error) = recorder.publish(&event, &object).await {
                    debug!(error = &error as &dyn std::error::Error, "an event was not taken");
                }
            }
        });
        Self(sender)
    }

    /// Tells of a problem of `object`.
    pub(super) fn tell(&self, object: ObjectReference, problem: Problem) {
        // A full channel drops it: see above.
        let _ = self.0.try_send((object, problem));
    }
}
