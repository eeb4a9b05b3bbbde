//! Starts the loader of Rego policies and its helper tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::following::MovedBy;
use super::key::Key;
use super::loaded::Loaded;
use super::loader::Loader;
use super::pushing::Pusher;
use super::settings::Settings;
use super::shared::{Kept, Shared};
use super::slow::name_slow;
use super::triggers;
use policy_sync_api::names::ControllerName;
use policy_sync_hub::clock::Clock;
use policy_sync_hub::reconcile::{Events, Expectations, Parts, Queue, Repeats, Requests, Worker};
use policy_sync_hub::watch::{Feed, Supervisor, look_up_plurals};
use policy_sync_mirror::Wanted;
use policy_sync_rego::confined::Check;
use policy_sync_rego::external::External;
use policy_sync_rego::fault::Fault;

/// Changes within this time are loaded together.
const WINDOW: Duration = Duration::from_millis(50);
/// How often the configuration of an external engine is checked for changes.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The loader of Rego policies, before its start.
#[derive(Debug)]
pub struct Loading {
    loaded: Loaded,
    controller: ControllerName,
}

impl Loading {
    /// Creates a loader for `controller`, which checks modules with `check`.
    ///
    /// # Errors
    ///
    /// If no engine can be created.
    pub fn new(
        controller: ControllerName,
        settings: Settings,
        clock: Clock,
        check: Check,
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
    pub fn start(self, parts: Parts) -> BoxFuture<'static, ()> {
        let Parts { client, leadership, metrics, tasks, stop } = parts;
        let shared = self.loaded.0;
        let queue: Arc<Queue<Key>> = Arc::new(Queue::new(WINDOW, metrics.clone()));
        let (affected, noting) = (queue.clone(), shared.clone());
        let feed = Feed::new(shared.mirror.clone(), self.controller, shared.clock, move |changes| {
            noting.note(changes);
            affected.affect(triggers::affected(changes));
        });
        let (wanted, watched) = watch::channel(Wanted::new());
        let (plurals, looked_up) = watch::channel(BTreeSet::new());
        let mut supervisor = Supervisor::new(client.clone(), feed.clone(), tasks.clone());
        let definitions = supervisor.definitions();
        let aliases = shared.settings.aliases.clone();
        supervisor.spawn(look_up_plurals(looked_up, aliases, client.clone(), feed, definitions));
        supervisor.spawn(tell_again(shared.clone(), queue.clone()));
        supervisor.spawn(watch_again(shared.kept.subscribe(), queue.clone()));
        tokio::spawn(tasks.clone().watch("watches", supervisor.run(&[], watched)));
        if let Some(external) = shared.settings.evaluator.external() {
            let asking = ask_again(shared.clone(), external.clone(), queue.clone());
            let stop = stop.clone();
            let asking = async move { stop.run_until_cancelled(asking).await };
            tokio::spawn(tasks.clone().watch("external", asking));
        }
        if let Some(opa) = shared.settings.evaluator.opa() {
            let pusher = Pusher::new(shared.clone(), opa.clone(), leadership.clone(), queue.clone());
            let stop = stop.clone();
            let pushing = async move { stop.run_until_cancelled(pusher.run()).await };
            tokio::spawn(tasks.clone().watch("opa", pushing));
        }
        let events = Events::start(client.clone(), &tasks, metrics.clone(), "Load");
        if let Some(exceeded) = shared.exceeded.1.lock().take() {
            let naming = name_slow(shared.clone(), exceeded, events.clone());
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
            repeats: Repeats::default(),
            wanted,
            plurals,
        };
        queue.add(Key::Watches);
        Worker::new(loader, queue, leadership, metrics, tasks).run(stop).boxed()
    }
}

/// Updates the watches when the kinds kept for other components change.
async fn watch_again(mut kept: watch::Receiver<BTreeMap<&'static str, Kept>>, queue: Arc<Queue<Key>>) {
    while kept.changed().await.is_ok() {
        queue.affect([Key::Watches]);
    }
}

/// Triggers remediation from time to time, and when the configuration of the external engine changes. An
/// external engine cannot notify the controller of changed Rego policies.
async fn ask_again(shared: Arc<Shared>, external: External, queue: Arc<Queue<Key>>) {
    let resync = external.options().resync;
    let mut until = Instant::now() + resync;
    loop {
        sleep_until(until.min(Instant::now() + LOOK_EVERY)).await;
        let is_other = external.look();
        if is_other {
            queue.add(Key::Bundle);
        }
        if is_other || until <= Instant::now() {
            until = Instant::now() + resync;
            shared.tell_moved(&MovedBy::Other);
        }
    }
}

/// Updates the status of carriers when their webhook registration changes.
async fn tell_again(shared: Arc<Shared>, queue: Arc<Queue<Key>>) {
    let mut registered = shared.registered.subscribe();
    while registered.changed().await.is_ok() {
        let carriers: Vec<Key> = {
            let guard = shared.mirror.read();
            let view = guard.view(shared.clock.now());
            view.carriers(&shared.settings).map(|(key, _)| Key::Status(key)).collect()
        };
        queue.affect(carriers);
    }
}
