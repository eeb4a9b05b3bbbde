//! Starts the loader of Rego policies and its helper tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::followers::ChangeCause;
use super::key::Key;
use super::loaded::Loaded;
use super::loader::Loader;
use super::opa_pusher::OpaPusher;
use super::settings::Settings;
use super::shared::{ComponentKinds, Shared};
use super::slow::report_slow_modules;
use super::triggers;
use policy_sync_api::names::ControllerName;
use policy_sync_hub::clock::Clock;
use policy_sync_hub::reconcile::{
    CapabilityContext, Events, Expectations, Queue, Requests, Worker, WriteThrottle,
};
use policy_sync_hub::watch::{Feed, Supervisor, resolve_plurals};
use policy_sync_mirror::WatchedSources;
use policy_sync_rego::confined::CheckFn;
use policy_sync_rego::external::External;
use policy_sync_rego::fault::Fault;

/// Changes within this time cause one load.
const WINDOW: Duration = Duration::from_millis(50);
/// How often the configuration of an external engine is checked for changes.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// The loader of Rego policies, before its start.
#[derive(Debug)]
pub struct RegoLoading {
    loaded: Loaded,
    controller: ControllerName,
}

impl RegoLoading {
    /// Creates a loader for `controller`, which checks modules with `check`.
    ///
    /// # Errors
    ///
    /// If no engine can be created.
    pub fn new(
        controller: ControllerName,
        settings: Settings,
        clock: Clock,
        check: CheckFn,
    ) -> Result<Self, Fault> {
        let loaded = Loaded::new(controller.clone(), settings, clock, check)?;
        Ok(Self { loaded, controller })
    }

    /// A handle to the loaded Rego policies.
    #[must_use]
    pub fn loaded(&self) -> Loaded {
        self.loaded.clone()
    }

    /// Starts the loader. The returned future runs until `stop`, then finishes the current work.
    pub fn start(self, parts: CapabilityContext) -> BoxFuture<'static, ()> {
        let CapabilityContext { client, leadership, metrics, tasks, stop } = parts;
        let shared = self.loaded.0;
        let queue: Arc<Queue<Key>> = Arc::new(Queue::new(WINDOW, metrics.clone()));
        let (affected, noting) = (queue.clone(), shared.clone());
        let feed = Feed::new(shared.mirror.clone(), self.controller, shared.clock, move |changes| {
            noting.note(changes);
            affected.enqueue(triggers::affected(changes));
        });
        let (wanted, watched) = watch::channel(WatchedSources::new());
        let (plurals, looked_up) = watch::channel(BTreeSet::new());
        let mut supervisor = Supervisor::new(client.clone(), feed.clone(), tasks.clone());
        let definitions = supervisor.definitions();
        let aliases = shared.settings.aliases.clone();
        supervisor.spawn(resolve_plurals(looked_up, aliases, client.clone(), feed, definitions));
        supervisor.spawn(update_statuses(shared.clone(), queue.clone()));
        supervisor.spawn(follow_kept_kinds(shared.kept.subscribe(), queue.clone()));
        tokio::spawn(tasks.clone().watch("watches", supervisor.run(&[], watched)));
        if let Some(external) = shared.settings.evaluator.external() {
            let resyncing = resync_external(shared.clone(), external.clone(), queue.clone());
            let stop = stop.clone();
            let resyncing = async move { stop.run_until_cancelled(resyncing).await };
            tokio::spawn(tasks.clone().watch("external", resyncing));
        }
        if let Some(opa) = shared.settings.evaluator.opa() {
            let pusher = OpaPusher::new(shared.clone(), opa.clone(), leadership.clone(), queue.clone());
            let stop = stop.clone();
            let opa_pusher = async move { stop.run_until_cancelled(pusher.run()).await };
            tokio::spawn(tasks.clone().watch("opa", opa_pusher));
        }
        let events = Events::start(client.clone(), &tasks, metrics.clone(), "Load");
        if let Some(exceeded) = shared.exceeded.1.lock().take() {
            let naming = report_slow_modules(shared.clone(), exceeded, events.clone());
            let stop = stop.clone();
            let naming = async move { stop.run_until_cancelled(naming).await };
            tokio::spawn(tasks.clone().watch("slow modules", naming));
        }
        let loader = Loader {
            shared,
            requests: Requests::new(client, leadership.clone()),
            leadership: leadership.clone(),
            events,
            queue: queue.clone(),
            written: Expectations::default(),
            repeats: WriteThrottle::default(),
            wanted,
            plurals,
        };
        queue.add(Key::Watches);
        Worker::new(loader, queue, leadership, metrics, tasks).run(stop).boxed()
    }
}

/// Updates the watches when the kinds kept for other components change.
async fn follow_kept_kinds(
    mut kept: watch::Receiver<BTreeMap<&'static str, ComponentKinds>>,
    queue: Arc<Queue<Key>>,
) {
    while kept.changed().await.is_ok() {
        queue.enqueue([Key::Watches]);
    }
}

/// Triggers remediation at intervals and when the configuration of the external engine changes, because an external
/// engine cannot notify the controller of changed Rego policies.
async fn resync_external(shared: Arc<Shared>, external: External, queue: Arc<Queue<Key>>) {
    let resync = external.options().resync;
    let mut until = Instant::now() + resync;
    loop {
        sleep_until(until.min(Instant::now() + CHECK_INTERVAL)).await;
        let is_other = external.reload();
        if is_other {
            queue.add(Key::Bundle);
        }
        if is_other || until <= Instant::now() {
            until = Instant::now() + resync;
            shared.notify_followers(&ChangeCause::Other);
        }
    }
}

/// Updates the status of carriers when their webhook registration changes.
async fn update_statuses(shared: Arc<Shared>, queue: Arc<Queue<Key>>) {
    let mut registered = shared.registered.subscribe();
    while registered.changed().await.is_ok() {
        let carriers: Vec<Key> = {
            let guard = shared.mirror.read();
            let view = guard.view(shared.clock.now());
            view.carriers(&shared.settings).map(|(key, _)| Key::Status(key)).collect()
        };
        queue.enqueue(carriers);
    }
}
