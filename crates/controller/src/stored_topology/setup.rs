//! The settings and the start of the stored topology.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::watch;

use super::index::Index;
use super::key::{Key, StatusWriteKey};
use super::kinds::plurals;
use super::metrics::TopologyMetrics;
use super::pending::is_affected;
use super::reconciler::TopologyReconciler;
use super::status_writer::{Logged, PER_SECOND, StatusWriter};
use super::statuses::Statuses;
use super::throttle::Throttle;
use super::watches;
use policy_sync_api::names::{ControllerName, ObjectKey};
use policy_sync_hub::clock::Clock;
use policy_sync_hub::reconcile::{CapabilityContext, Expectations, Queue, Requests, Worker, WriteThrottle};
use policy_sync_hub::telemetry::metrics::Metrics;
use policy_sync_hub::watch::{Feed, Supervisor, resolve_plurals};
use policy_sync_mirror::Mirror;
use policy_sync_sync::topology::affects_topology;
use policy_sync_sync::{self as sync, Changes};
use policy_sync_topology::Needs;

/// The name of the topology ConfigMap.
const NAME: &str = "topology";
/// Changes within this time are handled together.
const WINDOW: Duration = Duration::from_secs(1);

/// Settings of the stored topology.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The namespace and name of the ConfigMap.
    pub(super) config_map: ObjectKey,
    /// Whether to write entries to the status of routes. If false, existing entries of this controller are removed.
    pub(super) route_status: bool,
}

impl Settings {
    /// Settings for the ConfigMap `topology` in `namespace`. `route_status`: whether to write the status of routes,
    /// too.
    #[must_use]
    pub fn new(namespace: &str, route_status: bool) -> Self {
        Self { config_map: ObjectKey::new(namespace, NAME), route_status }
    }
}

/// The inputs from the sync.
pub(crate) struct Sources {
    /// The mirror with classes, Gateways and policies.
    pub(crate) sync: Arc<sync::Mirror>,
    /// The queue of the sync, which has precedence.
    pub(crate) sync_queue: Arc<Queue<sync::Key>>,
}

/// The stored topology, before its start. Clones share one state.
#[derive(Clone)]
pub struct StoredTopology {
    settings: Settings,
    controller: ControllerName,
    clock: Clock,
    mirror: Arc<Mirror<Index>>,
    queue: Arc<Queue<Key>>,
    statuses: Arc<Statuses>,
    turns: Arc<Queue<StatusWriteKey>>,
    metrics: TopologyMetrics,
}

impl std::fmt::Debug for StoredTopology {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredTopology").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl StoredTopology {
    /// Creates the stored topology of `controller`.
    #[must_use]
    pub fn new(
        controller: ControllerName,
        settings: Settings,
        clock: Clock,
        metrics: &Metrics,
        own: TopologyMetrics,
    ) -> Self {
        let turns = Arc::new(Queue::new(Duration::ZERO, metrics.clone()));
        Self {
            settings,
            statuses: Arc::new(Statuses::new(turns.clone(), own.clone())),
            turns,
            mirror: Arc::new(Mirror::new(controller.clone())),
            controller,
            clock,
            queue: Arc::new(Queue::new(WINDOW, metrics.clone())),
            metrics: own,
        }
    }

    /// Queues a rebuild if `changes` of the sync's mirror affect the topology.
    pub(crate) fn affected(&self, changes: &Changes<'_>) {
        if changes.iter().any(|changed| affects_topology(changes.view(), changed)) {
            self.queue.enqueue([Key]);
        }
    }

    /// Whether each watch is listed and not failing, by resource.
    #[must_use]
    pub fn watches(&self) -> BTreeMap<String, bool> {
        let guard = self.mirror.read();
        let view = guard.view(self.clock.now());
        // Sources that are watched only on demand are reported once they are listed.
        let all = Needs { backends: [true; 3], namespaces: true, grants: true };
        let sources = watches::plan(view, all, &self.settings.config_map).into_keys();
        let of_always = watches::plan(view, Needs::default(), &self.settings.config_map);
        let sources = sources.filter(|source| of_always.contains_key(source) || view.is_settled(source));
        sources.map(|source| (source.label(), view.is_up(&source))).collect()
    }

    /// Starts the stored topology. The returned future runs until `stop`, then finishes the current work.
    pub(crate) fn start(
        self,
        Sources { sync, sync_queue }: Sources,
        parts: CapabilityContext,
    ) -> BoxFuture<'static, ()> {
        let CapabilityContext { client, leadership, metrics, tasks, stop } = parts;
        let Self { settings, controller, clock, mirror, queue, statuses, turns, metrics: own } = self;
        let (affects, shown) = (queue.clone(), statuses.clone());
        let config_map = settings.config_map.clone();
        let feed = Feed::new(mirror.clone(), controller.clone(), clock, move |changes| {
            if shown.deliver(|pending| is_affected(changes, pending, &config_map)) {
                affects.enqueue([Key]);
            }
        });
        let (wanted, watched) = watch::channel(Default::default());
        let (plurals, looked_up) = watch::channel(plurals().collect());
        let mut supervisor = Supervisor::new(client.clone(), feed.clone(), tasks.clone());
        let definitions = supervisor.definitions();
        let looking = resolve_plurals(looked_up, BTreeMap::new(), client.clone(), feed, definitions);
        supervisor.spawn(async move {
            // The task owns the sender, so that discovery continues.
            let _plurals = plurals;
            looking.await;
        });
        tokio::spawn(tasks.clone().watch("watches", supervisor.run(&[], watched)));
        let requests = Requests::new(client.clone(), leadership.clone());
        let writer = StatusWriter {
            controller: controller.clone(),
            mirror: mirror.clone(),
            clock,
            requests,
            queue: turns.clone(),
            statuses: statuses.clone(),
            throttle: Throttle::new(PER_SECOND),
            sync_queue: sync_queue.clone(),
            repeats: WriteThrottle::default(),
            logged: Logged::default(),
        };
        let reconciler = TopologyReconciler {
            settings,
            controller,
            sync,
            sync_queue,
            mirror,
            clock,
            wanted: wanted.clone(),
            requests: Requests::new(client, leadership.clone()),
            leadership: leadership.clone(),
            queue: queue.clone(),
            written: Expectations::default(),
            last: Default::default(),
            metrics: own,
            statuses,
        };
        queue.enqueue([Key]);
        let writing =
            Worker::new(writer, turns, leadership.clone(), metrics.clone(), tasks.clone()).run(stop.clone());
        let working = Worker::new(reconciler, queue, leadership, metrics, tasks).run(stop);
        async move {
            futures::future::join(working, writing).await;
            // Dropping the sender ends the watches.
            drop(wanted);
        }
        .boxed()
    }
}
