//! Starts the writer of webhook configurations.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::Client;
use kube::api::{Api, PostParams};
use kube::runtime::watcher::DefaultBackoff;
use parking_lot::Mutex;
use tokio::sync::watch;
use tracing::warn;

use super::facts::Facts;
use super::key::{Key, affected};
use super::kinds::wanted;
use super::registrar::Registrar;
use super::settings::{Authority, Settings};
use super::shared::{Registered, Shared};
use crate::rego_loading::{Loaded, Unregistered};
use policy_sync_api::names::ControllerName;
use policy_sync_api::text::with_causes;
use policy_sync_hub::certificates::Certificates;
use policy_sync_hub::clock::Clock;
use policy_sync_hub::reconcile::{Expectations, Parts, Queue, Repeats, Requests, Worker};
use policy_sync_hub::watch::{Feed, Supervisor, answered};
use policy_sync_rego::asked::{ADMISSION, PLACEMENT};
use policy_sync_sync::desired::covered::Covered;

/// The interval between checks whether the watch has delivered an own write.
const WINDOW: Duration = Duration::from_millis(50);

/// The writer of webhook configurations, before its start.
#[derive(Debug)]
pub struct Registration {
    registered: Registered,
    controller: ControllerName,
}

/// The inputs from other parts of the controller.
pub(crate) struct Sources {
    /// The loaded Rego policies.
    pub loaded: Loaded,
    /// The kinds synced to the spokes.
    pub covered: watch::Receiver<Option<Covered>>,
}

impl Registration {
    /// Creates the writer for `controller`. `certificates` serves the certificate, if this controller issues
    /// it.
    #[must_use]
    pub fn new(
        controller: ControllerName,
        settings: Settings,
        clock: Clock,
        certificates: Arc<Certificates>,
    ) -> Self {
        let registered = Registered::new(controller.clone(), settings, clock, certificates);
        Self { registered, controller }
    }

    /// A handle to the state of the webhook configurations.
    #[must_use]
    pub fn registered(&self) -> Registered {
        self.registered.clone()
    }

    /// Starts the writer. The returned future runs until `stop`, then finishes the current work.
    pub(crate) fn start(self, sources: Sources, parts: Parts) -> BoxFuture<'static, ()> {
        let Parts { client, leadership, metrics, tasks, stop } = parts;
        let shared = self.registered.0;
        let queue: Arc<Queue<Key>> = Arc::new(Queue::new(WINDOW, metrics.clone()));
        let affects = queue.clone();
        let feed = Feed::new(shared.mirror.clone(), self.controller, shared.clock, move |changes| {
            affects.affect(affected(changes));
        });
        let (watching, watched) = watch::channel(wanted(&shared.settings));
        let mut supervisor = Supervisor::new(client.clone(), feed, tasks.clone());
        let loaded = sources.loaded.clone();
        for package in [PLACEMENT, ADMISSION] {
            loaded.registered(package, Some(Unregistered::yet()));
        }
        supervisor.spawn(gather(shared.clone(), client.clone(), sources, queue.clone()));
        tokio::spawn(tasks.clone().watch("watches", supervisor.run(&[], watched)));
        let registrar = Registrar {
            shared,
            loaded,
            requests: Requests::new(client, leadership.clone()),
            queue: queue.clone(),
            written: Expectations::default(),
            repeats: Repeats::default(),
            planned: Mutex::default(),
        };
        queue.affect(Key::all());
        let working = Worker::new(registrar, queue, leadership, metrics, tasks).run(stop);
        async move {
            working.await;
            // Dropping the sender ends the watches.
            drop(watching);
        }
        .boxed()
    }
}

/// Updates the inputs of the plan when one changes; never returns.
async fn gather(shared: Arc<Shared>, client: Client, sources: Sources, queue: Arc<Queue<Key>>) {
    let Sources { loaded, mut covered } = sources;
    let mut in_use = loaded.in_use();
    let (_none, mut authority) = watch::channel(None);
    if let Authority::File(file) = &shared.settings.authority {
        authority = file.clone();
    }
    let mut asking = std::pin::pin!(who_we_are(client).fuse());
    let mut facts = Facts::default();
    loop {
        facts.in_use = in_use.borrow_and_update().clone();
        facts.covered = covered.borrow_and_update().clone();
        shared.facts.send_replace(facts.clone());
        queue.affect(Key::all());
        tokio::select! {
            () = changed(&mut in_use) => {}
            () = changed(&mut covered) => {}
            () = changed(&mut authority) => {}
            user = &mut asking => facts.user = Some(user),
        }
    }
}

/// Returns at the next change; never, if the sender is gone.
async fn changed<T>(receiver: &mut watch::Receiver<T>) {
    if receiver.changed().await.is_err() {
        std::future::pending().await
    }
}

/// Queries the user name of this process until the hub returns it.
async fn who_we_are(client: Client) -> String {
    let (api, mut backoff) = (Api::<SelfSubjectReview>::all(client), DefaultBackoff::default());
    loop {
        let review = SelfSubjectReview::default();
        match answered(api.create(&PostParams::default(), &review)).await {
            Ok(SelfSubjectReview { status: Some(status), .. }) => {
                return status.user_info.and_then(|user| user.username).unwrap_or_default();
            }
            Ok(_) => {}
            Err(error) => {
                warn!(error = with_causes(&error), "cannot discover the user name of this controller")
            }
        }
        if let Some(wait) = backoff.next() {
            tokio::time::sleep(wait).await;
        }
    }
}
