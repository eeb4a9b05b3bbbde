//! Starts all capabilities of the controller: sync, Rego policies, remediation, audit, topology and webhooks.
//!
//! The manager does not depend on the process that runs it. `policy-sync controller` starts it with a client of the
//! hub. Tests start it with a client of any server, and may pause tokio's time. All time comes from [`Clock`] and
//! tokio.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{OptionFuture, join, join_all};
use kube::Client;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::admission::auditing::Auditing;
use crate::placement_policy::remediation::{self, Remediation};
use crate::rego_loading::{RegoLoading, RegoMetrics};
use crate::server::ServerState;
use crate::stored_topology::{self, StoredTopology};
use crate::sync::definitions::{check_unwatched, follow_work_schema, watch_while_resolved};
use crate::sync::metrics::HubMetrics;
use crate::sync::write::{PolicySync, PolicySyncOptions};
use crate::webhook_config::{Sources, WebhookConfigMetrics, WebhookConfigWriter};
use policy_sync_api::names::ControllerName;
use policy_sync_hub::clock::Clock;
use policy_sync_hub::reconcile::{CapabilityContext, Elector, Leadership, Queue, Worker};
use policy_sync_hub::tasks::{RestartReason, Tasks};
use policy_sync_hub::telemetry::metrics::Metrics;
use policy_sync_hub::watch::{Feed, Supervisor};
use policy_sync_sync::kinds::{NEEDED, POLICIES, RESOURCES};
use policy_sync_sync::{Mirror, Settings, triggers};

/// The inputs of the controller.
pub struct Manager {
    /// The client of the hub.
    pub client: Client,
    /// The in-memory copy of the watched objects; empty at the start.
    pub mirror: Arc<Mirror>,
    /// Selects the GatewayClasses and works of this controller.
    pub controller: ControllerName,
    /// The source of the current time.
    pub clock: Clock,
    /// Metrics of the queues and writes.
    pub metrics: Metrics,
    /// Metrics of the hub's state.
    pub hub_metrics: HubMetrics,
    /// Settings of the plans.
    pub settings: Settings,
    /// The time over which status changes from spokes are batched.
    pub status_window: Duration,
    /// Whether this process may write.
    pub leadership: Leadership,
    /// Leader election; `None` without leader election.
    pub elector: Option<Elector>,
    /// Supervises the controller's tasks; a panic ends the process.
    pub tasks: Tasks,
    /// The loader of Rego policies and its metrics; `None` if disabled.
    pub rego: Option<(RegoLoading, RegoMetrics)>,
    /// Remediation of existing objects; `None` without Rego policies.
    pub remediation: Option<Remediation>,
    /// The periodic audit; `None` without Rego policies.
    pub auditing: Option<Auditing>,
    /// The stored topology; `None` if disabled.
    pub topology: Option<StoredTopology>,
    /// The writer of webhook configurations and its metrics; `None` if disabled.
    pub webhook_config: Option<(WebhookConfigWriter, WebhookConfigMetrics)>,
}

impl Manager {
    /// The parts needed by the HTTP server of probes and metrics.
    #[must_use]
    pub fn server_state(&self) -> ServerState {
        ServerState {
            mirror: self.mirror.clone(),
            metrics: self.metrics.clone(),
            hub_metrics: self.hub_metrics.clone(),
            leadership: self.leadership.clone(),
            clock: self.clock,
            rego: self.rego.as_ref().map(|(loading, metrics)| (loading.loaded(), metrics.clone())),
            webhook_config_status: self
                .webhook_config
                .as_ref()
                .map(|(webhook_config, metrics)| (webhook_config.status(), metrics.clone())),
            remediation_status: self.remediation.as_ref().map(Remediation::remediation_status),
            topology: self.topology.clone(),
        }
    }

    /// Starts all tasks. They end after `stop` is cancelled or a task has panicked. The handle finishes once the
    /// current work is done and the Lease is released.
    pub fn start(self, stop: CancellationToken) -> JoinHandle<Result<(), RestartReason>> {
        let (stop, tasks) = (stop.child_token(), self.tasks);
        let queue = Arc::new(Queue::new(self.status_window, self.metrics.clone()));
        let (affected, reported, leads) = (queue.clone(), self.hub_metrics.clone(), self.leadership.clone());
        let topology = self.topology.clone();
        let feed = Feed::new(self.mirror.clone(), self.controller, self.clock, move |changes| {
            affected.enqueue(triggers::affected(changes));
            if let Some(topology) = &topology {
                topology.affected(changes);
            }
            if leads.leads() {
                reported.reported(changes);
            }
        });
        let (wanted, watched) = watch::channel(Default::default());
        let (others, looked_up) = watch::channel(Default::default());
        let supervisor = Supervisor::new(self.client.clone(), feed.clone(), tasks.clone());
        let supervisor = supervisor.with_watch_fn(&POLICIES, watch_while_resolved);
        let mut supervisor = supervisor.with_watch_fn(&RESOURCES, watch_while_resolved);
        let definitions = supervisor.definitions();
        supervisor.spawn(follow_work_schema(self.client.clone(), feed.clone(), definitions.clone()));
        supervisor.spawn(check_unwatched(looked_up, self.client.clone(), feed, definitions, tasks.clone()));
        tokio::spawn(tasks.clone().watch("watches", supervisor.run(&NEEDED, watched)));
        let electing = self.elector.map(|elector| {
            let (mirror, clock) = (self.mirror.clone(), self.clock);
            let electing = elector.run(move || mirror.read().view(clock.now()).ready(), stop.clone());
            tokio::spawn(tasks.clone().watch("election", electing))
        });
        let parts = CapabilityContext {
            client: self.client.clone(),
            leadership: self.leadership.clone(),
            metrics: self.metrics.clone(),
            tasks: tasks.clone(),
            stop: stop.clone(),
        };
        let (covered, covering) = watch::channel(None);
        let loaded = self.rego.as_ref().map(|(loading, metrics)| (loading.loaded(), metrics.clone()));
        let remediating =
            self.remediation.zip(loaded.clone()).map(|(remediation, (loaded, rego_metrics))| {
                let sources = remediation::Sources { loaded, rego_metrics, covered: covering.clone() };
                remediation.start(sources, parts.clone())
            });
        let auditing = self.auditing.map(|auditing| auditing.start(parts.clone()));
        let storing = self.topology.map(|topology| {
            let sources = stored_topology::Sources { sync: self.mirror.clone(), sync_queue: queue.clone() };
            topology.start(sources, parts.clone())
        });
        let registering = self.webhook_config.zip(loaded).map(|((webhook_config, _), (loaded, _))| {
            webhook_config.start(Sources { loaded, covered: covering }, parts.clone())
        });
        let loading = self.rego.map(|(loading, _)| loading.start(parts));
        let capabilities = [
            ("placement queue", remediating),
            ("audit queue", auditing),
            ("topology queue", storing),
            ("webhook queue", registering),
            ("rego queue", loading),
        ];
        let options = PolicySyncOptions {
            settings: self.settings,
            leadership: self.leadership.clone(),
            wanted,
            others,
            covered,
            tasks: tasks.clone(),
            hub_metrics: self.hub_metrics,
        };
        let sync = PolicySync::new(
            self.client,
            self.mirror,
            queue.clone(),
            self.clock,
            self.metrics.clone(),
            options,
        );
        let worker = Worker::new(sync, queue, self.leadership, self.metrics, tasks.clone());
        tokio::spawn(async move {
            let syncing = tasks.clone().watch("queue", worker.run(stop.clone()));
            let others =
                capabilities.map(|(name, running)| tasks.clone().watch(name, OptionFuture::from(running)));
            let mut working = std::pin::pin!(join(syncing, join_all(others)));
            let ended = tokio::select! {
                _ = &mut working => true,
                () = tasks.ended() => false,
            };
            stop.cancel();
            if !ended {
                working.await;
            }
            if let Some(Ok(Some(elector))) = OptionFuture::from(electing).await {
                elector.release().await;
            }
            tasks.check()
        })
    }
}
