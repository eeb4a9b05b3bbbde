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

use super::entries::EntryInputs;
use super::key::{Key, affected};
use super::kinds::wanted;
use super::reconciler::WebhookConfigReconciler;
use super::settings::{Authority, Settings};
use super::shared::{Shared, WebhookConfigStatus};
use crate::rego_loading::{Loaded, WebhookProblem};
use policy_sync_api::names::ControllerName;
use policy_sync_api::text::with_causes;
use policy_sync_hub::certificates::CertificateResolver;
use policy_sync_hub::clock::Clock;
use policy_sync_hub::reconcile::{CapabilityContext, Expectations, Queue, Requests, Worker, WriteThrottle};
use policy_sync_hub::watch::{Feed, Supervisor, with_response_timeout};
use policy_sync_rego::queries::{ADMISSION, PLACEMENT};
use policy_sync_sync::desired::covered::ControllerScope;

/// The interval between checks whether the watch has delivered this process's last write.
const WINDOW: Duration = Duration::from_millis(50);

/// The writer of webhook configurations, before its start.
#[derive(Debug)]
pub struct WebhookConfigWriter {
    registered: WebhookConfigStatus,
    controller: ControllerName,
}

/// The inputs from other parts of the controller.
pub(crate) struct Sources {
    /// The loaded Rego policies.
    pub loaded: Loaded,
    /// The kinds synced to the spokes.
    pub covered: watch::Receiver<Option<ControllerScope>>,
}

impl WebhookConfigWriter {
    /// Creates the writer for `controller`. If this controller issues the certificate, `certificates` serves it.
    #[must_use]
    pub fn new(
        controller: ControllerName,
        settings: Settings,
        clock: Clock,
        certificates: Arc<CertificateResolver>,
    ) -> Self {
        let registered = WebhookConfigStatus::new(controller.clone(), settings, clock, certificates);
        Self { registered, controller }
    }

    /// A handle to the state of the webhook configurations.
    #[must_use]
    pub fn status(&self) -> WebhookConfigStatus {
        self.registered.clone()
    }

    /// Starts the writer. The returned future runs until `stop`, then finishes the current work.
    pub(crate) fn start(self, sources: Sources, parts: CapabilityContext) -> BoxFuture<'static, ()> {
        let CapabilityContext { client, leadership, metrics, tasks, stop } = parts;
        let shared = self.registered.0;
        let queue: Arc<Queue<Key>> = Arc::new(Queue::new(WINDOW, metrics.clone()));
        let affects = queue.clone();
        let feed = Feed::new(shared.mirror.clone(), self.controller, shared.clock, move |changes| {
            affects.enqueue(affected(changes));
        });
        let (watching, watched) = watch::channel(wanted(&shared.settings));
        let mut supervisor = Supervisor::new(client.clone(), feed, tasks.clone());
        let loaded = sources.loaded.clone();
        for package in [PLACEMENT, ADMISSION] {
            loaded.registered(package, Some(WebhookProblem::not_registered()));
        }
        supervisor.spawn(follow_inputs(shared.clone(), client.clone(), sources, queue.clone()));
        tokio::spawn(tasks.clone().watch("watches", supervisor.run(&[], watched)));
        let reconciler = WebhookConfigReconciler {
            shared,
            loaded,
            requests: Requests::new(client, leadership.clone()),
            queue: queue.clone(),
            written: Expectations::default(),
            repeats: WriteThrottle::default(),
            planned: Mutex::default(),
        };
        queue.enqueue(Key::all());
        let working = Worker::new(reconciler, queue, leadership, metrics, tasks).run(stop);
        async move {
            working.await;
            // Dropping the sender ends the watches.
            drop(watching);
        }
        .boxed()
    }
}

/// Updates the inputs of the plan when an input changes. Never returns.
async fn follow_inputs(shared: Arc<Shared>, client: Client, sources: Sources, queue: Arc<Queue<Key>>) {
    let Sources { loaded, mut covered } = sources;
    let mut rego_usage = loaded.rego_usage();
    let (_none, mut authority) = watch::channel(None);
    if let Authority::File(file) = &shared.settings.authority {
        authority = file.clone();
    }
    let mut user_query = std::pin::pin!(own_user_name(client).fuse());
    let mut inputs = EntryInputs::default();
    loop {
        inputs.rego_usage = rego_usage.borrow_and_update().clone();
        inputs.covered = covered.borrow_and_update().clone();
        shared.inputs.send_replace(inputs.clone());
        queue.enqueue(Key::all());
        tokio::select! {
            () = changed(&mut rego_usage) => {}
            () = changed(&mut covered) => {}
            () = changed(&mut authority) => {}
            user = &mut user_query => inputs.user = Some(user),
        }
    }
}

/// Returns at the next change. If the sender is dropped, never returns.
async fn changed<T>(receiver: &mut watch::Receiver<T>) {
    if receiver.changed().await.is_err() {
        std::future::pending().await
    }
}

/// Queries the hub for the user name of this process, until the hub returns it.
async fn own_user_name(client: Client) -> String {
    let (api, mut backoff) = (Api::<SelfSubjectReview>::all(client), DefaultBackoff::default());
    loop {
        let review = SelfSubjectReview::default();
        match with_response_timeout(api.create(&PostParams::default(), &review)).await {
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
