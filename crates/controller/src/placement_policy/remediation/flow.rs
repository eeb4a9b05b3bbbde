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
use super::recent::Recent;
use super::remediator::{PATCHES, Remediator};
use super::settings::Settings;
use super::violations::{Violations, Why};
use crate::placement_policy::placed_kinds::KEEPER;
use crate::rego_loading::{Loaded, Moved, RegoMetrics};
use policy_sync_api::names::{ControllerName, GroupResource, ObjectKey};
use policy_sync_hub::clock::Clock;
use policy_sync_hub::reconcile::{Events, Expectations, Parts, Queue, Requests, Worker};
use policy_sync_sync::desired::covered::Covered;

/// The interval between checks whether the watch has delivered an own write.
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

/// The objects that do not comply. Clones share them.
#[derive(Clone, Debug)]
pub struct Remediated {
    metrics: RemediationMetrics,
    violations: Arc<Violations>,
    causes: Arc<Mutex<Causes>>,
    clock: Clock,
}

impl Remediated {
    /// Updates the metrics.
    pub fn measure(&self) {
        let flapping = self.causes.lock().flapping(self.clock.now()).len();
        self.metrics.measure(&self.violations, flapping);
    }

    /// The objects that do not comply. Only the leader has any.
    #[must_use]
    pub fn misplaced(&self) -> Vec<Misplaced> {
        let of = |(Object { kind, key }, why, text)| {
            let is_by_hand = matches!(why, Why::Manual | Why::Unsettled);
            Misplaced { kind, key, why: text, is_by_hand }
        };
        self.violations.all().into_iter().map(of).collect()
    }
}

/// An object that does not comply.
#[derive(Clone, Debug)]
pub struct Misplaced {
    /// Its kind.
    pub kind: GroupResource,
    /// The name and namespace.
    pub key: ObjectKey,
    /// The message of the placement policies, or the difference.
    pub why: Arc<str>,
    /// Whether it waits for its owner or for the end of a pause; false for violations and failed patches.
    pub is_by_hand: bool,
}

/// The inputs of remediation.
pub(crate) struct Sources {
    /// The loaded placement policies and the objects that they place.
    pub loaded: Loaded,
    /// The metrics of evaluations.
    pub rego_metrics: RegoMetrics,
    /// The set of synced kinds.
    pub covered: watch::Receiver<Option<Covered>>,
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
    pub fn remediated(&self) -> Remediated {
        Remediated {
            metrics: self.metrics.clone(),
            violations: self.violations.clone(),
            causes: self.causes.clone(),
            clock: self.clock,
        }
    }

    /// Starts remediation. The returned future runs until `stop` and then completes the steps in progress.
    pub(crate) fn start(self, sources: Sources, parts: Parts) -> BoxFuture<'static, ()> {
        let Parts { client, leadership, metrics, tasks, stop } = parts;
        let Sources { loaded, rego_metrics, covered } = sources;
        let queue: Arc<Queue<Key>> = Arc::new(Queue::new(WINDOW, metrics.clone()));
        let (affected, causes) = (queue.clone(), self.causes.clone());
        loaded.follow(KEEPER, move |moved| {
            if let Moved::Placement(by) = &moved {
                causes.lock().changed(by);
            }
            affected.affect([affects(moved)]);
        });
        let looking = look_again(loaded.clone(), covered.clone(), queue.clone());
        tokio::spawn(tasks.clone().watch("placement", {
            let stop = stop.clone();
            async move { stop.run_until_cancelled(looking).await }
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
            recent: Recent::default(),
            refused: Recent::default(),
            causes: self.causes,
            violations: self.violations,
            metrics: self.metrics,
            rego_metrics,
            asking: Semaphore::new(1),
            patching: Semaphore::new(PATCHES),
            clock: self.clock,
            manager: self.controller.hub_field_manager(),
            stop: stop.clone(),
        };
        Worker::new(remediator, queue, leadership, metrics, tasks).run(stop).boxed()
    }
}

fn affects(moved: Moved) -> Key {
    match moved {
        Moved::Placement(_) => Key::Moved,
        // Exempt Namespaces are known from now on.
        Moved::Listed(kind) if kind == GroupResource::namespaces() => Key::All,
        Moved::Listed(kind) => Key::Kind(kind),
        Moved::Object(kind, key) if kind == GroupResource::namespaces() => Key::Namespace(key.name),
        Moved::Object(kind, key) => Key::Object(Object { kind, key }),
    }
}

/// Queues an update of the watched kinds when the synced kinds or the placement policies change.
async fn look_again(loaded: Loaded, mut covered: watch::Receiver<Option<Covered>>, queue: Arc<Queue<Key>>) {
    let mut in_use = loaded.in_use();
    loop {
        queue.affect([Key::Kinds]);
        let changed = tokio::select! {
            changed = in_use.changed() => changed,
            changed = covered.changed() => changed,
        };
        if changed.is_err() {
            // The sender is gone because the process ends.
            return;
        }
    }
}
