//! Starts remediation.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};

use super::causes::Causes;
use super::key::{Key, Object};
use super::metrics::RemediationMetrics;
use super::passes::Passes;
use super::recent_patches::RecentPatches;
use super::remediator::{MAX_CONCURRENT_PATCHES, Remediator};
use super::settings::Settings;
use super::violations::{ViolationReason, Violations};
use crate::placement_policy::placed_kinds::COMPONENT;
use crate::rego_loading::{DocumentEvent, Loaded, RegoMetrics};
use policy_sync_api::names::{ControllerName, GroupResource, ObjectKey};
use policy_sync_hub::clock::Clock;
use policy_sync_hub::reconcile::{CapabilityContext, Events, Expectations, Queue, Requests, Worker};
use policy_sync_sync::desired::covered::ControllerScope;

/// The interval between checks whether the watch has delivered this process's last write.
const WINDOW: Duration = Duration::from_millis(50);

/// Remediation that is not started yet.
#[derive(Debug)]
pub struct Remediation {
    settings: Settings,
    controller: ControllerName,
    clock: Clock,
    metrics: RemediationMetrics,
    violations: Arc<Violations>,
    causes: Arc<Mutex<Causes>>,
}

/// The objects that do not comply. Clones share one state.
#[derive(Clone, Debug)]
pub struct RemediationStatus {
    metrics: RemediationMetrics,
    violations: Arc<Violations>,
    causes: Arc<Mutex<Causes>>,
    clock: Clock,
}

impl RemediationStatus {
    /// Updates the metrics.
    pub fn measure(&self) {
        let flapping = self.causes.lock().flapping(self.clock.now()).len();
        self.metrics.measure(&self.violations, flapping);
    }

    /// The objects that do not comply. Empty if this process is not the leader.
    #[must_use]
    pub fn placement_violations(&self) -> Vec<ObjectViolation> {
        let of = |(Object { kind, key }, why, text)| {
            let is_deferred = matches!(why, ViolationReason::Manual | ViolationReason::Unsettled);
            ObjectViolation { kind, key, why: text, is_deferred }
        };
        self.violations.all().into_iter().map(of).collect()
    }
}

/// An object that does not comply.
#[derive(Clone, Debug)]
pub struct ObjectViolation {
    /// The object's kind.
    pub kind: GroupResource,
    /// The name and namespace.
    pub key: ObjectKey,
    /// The message of the placement policies, or the difference.
    pub why: Arc<str>,
    /// Whether remediation waits: for a user who applies the change, or because the object was patched too often or a
    /// document is flapping. False for violations and failed patches.
    pub is_deferred: bool,
}

/// The inputs of remediation.
pub(crate) struct Sources {
    /// The loaded placement policies and the objects to which they apply.
    pub loaded: Loaded,
    /// The metrics of evaluations.
    pub rego_metrics: RegoMetrics,
    /// The set of synced kinds.
    pub covered: watch::Receiver<Option<ControllerScope>>,
}

impl Remediation {
    /// Creates remediation for `controller`.
    #[must_use]
    pub fn new(
        controller: ControllerName,
        settings: Settings,
        clock: Clock,
        metrics: RemediationMetrics,
    ) -> Self {
        Self { settings, controller, clock, metrics, violations: Arc::default(), causes: Arc::default() }
    }

    /// A handle to the objects that do not comply.
    #[must_use]
    pub fn remediation_status(&self) -> RemediationStatus {
        RemediationStatus {
            metrics: self.metrics.clone(),
            violations: self.violations.clone(),
            causes: self.causes.clone(),
            clock: self.clock,
        }
    }

    /// Starts remediation. The returned future runs until `stop` and then completes the steps in progress.
    pub(crate) fn start(self, sources: Sources, parts: CapabilityContext) -> BoxFuture<'static, ()> {
        let CapabilityContext { client, leadership, metrics, tasks, stop } = parts;
        let Sources { loaded, rego_metrics, covered } = sources;
        let queue: Arc<Queue<Key>> = Arc::new(Queue::new(WINDOW, metrics.clone()));
        let (affected, causes) = (queue.clone(), self.causes.clone());
        loaded.follow(COMPONENT, move |event| {
            if let DocumentEvent::Placement(by) = &event {
                causes.lock().changed(by);
            }
            affected.enqueue([key_of(event)]);
        });
        let following_inputs = follow_inputs(loaded.clone(), covered.clone(), queue.clone());
        tokio::spawn(tasks.clone().watch("placement", {
            let stop = stop.clone();
            async move { stop.run_until_cancelled(following_inputs).await }
        }));
        let remediator = Remediator {
            loaded,
            settings: self.settings,
            covered,
            requests: Requests::new(client.clone(), leadership.clone()),
            leadership: leadership.clone(),
            events: Events::start(client, &tasks, metrics.clone(), "Place"),
            queue: queue.clone(),
            written: Expectations::default(),
            passes: Mutex::new(Passes::new(self.clock.now())),
            recent_patches: RecentPatches::default(),
            rejected_patches: RecentPatches::default(),
            causes: self.causes,
            violations: self.violations,
            metrics: self.metrics,
            rego_metrics,
            evaluation_slot: Semaphore::new(1),
            patch_slots: Semaphore::new(MAX_CONCURRENT_PATCHES),
            clock: self.clock,
            manager: self.controller.hub_field_manager(),
            stop: stop.clone(),
        };
        Worker::new(remediator, queue, leadership, metrics, tasks).run(stop).boxed()
    }
}

fn key_of(event: DocumentEvent) -> Key {
    match event {
        DocumentEvent::Placement(_) => Key::InputsChanged,
        // Once Namespaces are listed, it is known which of them are exempt, so all objects are evaluated.
        DocumentEvent::Listed(kind) if kind == GroupResource::namespaces() => Key::All,
        DocumentEvent::Listed(kind) => Key::Kind(kind),
        DocumentEvent::Object(kind, key) if kind == GroupResource::namespaces() => Key::Namespace(key.name),
        DocumentEvent::Object(kind, key) => Key::Object(Object { kind, key }),
    }
}

/// Queues an update of the watched kinds when the synced kinds or the placement policies change.
async fn follow_inputs(
    loaded: Loaded,
    mut covered: watch::Receiver<Option<ControllerScope>>,
    queue: Arc<Queue<Key>>,
) {
    let mut rego_usage = loaded.rego_usage();
    loop {
        queue.enqueue([Key::Kinds]);
        let changed = tokio::select! {
            changed = rego_usage.changed() => changed,
            changed = covered.changed() => changed,
        };
        if changed.is_err() {
            // The sender is dropped only when the process ends.
            return;
        }
    }
}
