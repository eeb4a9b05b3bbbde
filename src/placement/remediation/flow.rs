//! Starts all that remediates.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kube::Client;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use super::causes::Causes;
use super::key::{Key, Object};
use super::metrics::RemediationMetrics;
use super::passes::Passes;
use super::recent::Recent;
use super::remediator::{PATCHES, Remediator};
use super::settings::Settings;
use super::violations::{Violations, Why};
use crate::api::names::{ControllerName, GroupResource, ObjectKey};
use crate::clock::Clock;
use crate::placement::placed_kinds::KEEPER;
use crate::reconcile::{Events, Expectations, Leadership, Queue, Requests, Worker};
use crate::rego::loading::{Loaded, Moved, RegoMetrics};
use crate::sync::desired::covered::Covered;
use crate::tasks::Tasks;
use crate::telemetry::metrics::Metrics;

/// How soon it is looked again whether the watch has brought what was written.
const WINDOW: Duration = Duration::from_millis(50);

/// What remediates, not started yet.
#[derive(Debug)]
pub struct Remediation {
    settings: Settings,
    controller: ControllerName,
    clock: Clock,
    metrics: RemediationMetrics,
    violations: Arc<Violations>,
    causes: Arc<Mutex<Causes>>,
}

/// What is known of objects that are not as policies say. Clones are the same.
#[derive(Clone, Debug)]
pub struct Remediated {
    metrics: RemediationMetrics,
    violations: Arc<Violations>,
    causes: Arc<Mutex<Causes>>,
    clock: Clock,
}

impl Remediated {
    /// Has metrics say it.
    pub fn measure(&self) {
        let flapping = self.causes.lock().flapping(self.clock.now()).len();
        self.metrics.measure(&self.violations, flapping);
    }

    /// The objects that are not as policies say, as far as this process knows: only the one that leads does.
    #[must_use]
    pub fn misplaced(&self) -> Vec<Misplaced> {
        let of = |(Object { kind, key }, why, text)| {
            let is_by_hand = matches!(why, Why::Manual | Why::Unsettled);
            Misplaced { kind, key, why: text, is_by_hand }
        };
        self.violations.all().into_iter().map(of).collect()
    }
}

/// An object that is not as policies say.
#[derive(Clone, Debug)]
pub struct Misplaced {
    /// Its kind.
    pub kind: GroupResource,
    /// Which it is.
    pub key: ObjectKey,
    /// What policies say.
    pub why: Arc<str>,
    /// Whether that is somebody's to do, and not refused.
    pub is_by_hand: bool,
}

/// What it listens to.
pub(crate) struct Sources {
    /// What policies there are, and the objects that they place.
    pub loaded: Loaded,
    /// Where it counts how they are asked.
    pub rego_metrics: RegoMetrics,
    /// What is taken to the spokes.
    pub covered: watch::Receiver<Option<Covered>>,
}

impl Remediation {
    /// What remediates for `controller` as `settings` say.
    #[must_use]
    pub fn new(
        controller: ControllerName,
        settings: Settings,
        clock: Clock,
        metrics: RemediationMetrics,
    ) -> Self {
        Self { settings, controller, clock, metrics, violations: Arc::default(), causes: Arc::default() }
    }

    /// What is known of objects that are not as policies say, for whoever asks.
    #[must_use]
    pub fn remediated(&self) -> Remediated {
        Remediated {
            metrics: self.metrics.clone(),
            violations: self.violations.clone(),
            causes: self.causes.clone(),
            clock: self.clock,
        }
    }

    /// Starts it. What is returned works until `stop`, and then ends what is in hand.
    pub(crate) fn start(
        self,
        client: Client,
        sources: Sources,
        leadership: Leadership,
        metrics: &Metrics,
        tasks: &Tasks,
        stop: CancellationToken,
    ) -> BoxFuture<'static, ()> {
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
            events: Events::start(client, tasks, metrics.clone(), "Place"),
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
        Worker::new(remediator, queue, leadership, metrics.clone(), tasks.clone()).run(stop).boxed()
    }
}

fn affects(moved: Moved) -> Key {
    match moved {
        Moved::Placement(_) => Key::Moved,
        // What is left alone is known now.
        Moved::Listed(kind) if kind == GroupResource::namespaces() => Key::All,
        Moved::Listed(kind) => Key::Kind(kind),
        Moved::Object(kind, key) if kind == GroupResource::namespaces() => Key::Namespace(key.name),
        Moved::Object(kind, key) => Key::Object(Object { kind, key }),
    }
}

/// Has the kinds that are kept follow what is covered, and whether there are policies.
async fn look_again(loaded: Loaded, mut covered: watch::Receiver<Option<Covered>>, queue: Arc<Queue<Key>>) {
    let mut in_use = loaded.in_use();
    loop {
        queue.affect([Key::Kinds]);
        let changed = tokio::select! {
            changed = in_use.changed() => changed,
            changed = covered.changed() => changed,
        };
        if changed.is_err() {
            // Nothing more can come: the process ends.
            return;
        }
    }
}
