//! A policy controller for spokes: sets `Accepted` and `Enforced` on policies, as Kuadrant does, without
//! enforcing anything.
//!
//! The controller implements an annotation that no Kuadrant release supports yet: a synced policy yields to a local
//! policy of the same kind and target (RFC 0007, Policy Hierarchy). The controller also accepts and programs Gateways.
//! For the kind with ancestors in its status, the controller acts as two controllers.
//!
//! ```text
//! watches: policies of each kind, Gateways ──▶ tables ──▶ verdicts (pure) ──▶ status patches, where they differ
//! ```

mod gateways;
mod tables;
mod verdict;

use std::time::Duration;

use futures::stream::{self, BoxStream, SelectAll};
use futures::{FutureExt, StreamExt};
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::ApiResource;
use kube::runtime::utils::Backoff;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use policy_sync_api::names::GroupVersionResource;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use tables::{Source, StatusWrite, Tables};
use verdict::StatusForm;

/// Number of concurrent status writes.
const WRITERS: usize = 16;
/// Delay before failed writes are retried.
const RETRY: Duration = Duration::from_millis(250);

/// The policy kinds of the demo and the tests.
#[must_use]
pub fn default_kinds() -> Vec<GroupVersionResource> {
    vec![
        GroupVersionResource::new("kuadrant.io", "v1", "ratelimitpolicies"),
        GroupVersionResource::new("kuadrant.io", "v1", "authpolicies"),
        GroupVersionResource::new("policies.example.com", "v1alpha1", "timeoutpolicies"),
    ]
}

/// Runs a controller of these kinds on the cluster of `client` until `stop` is cancelled. Watches of kinds that
/// are not served are retried.
pub async fn run(client: Client, kinds: Vec<GroupVersionResource>, stop: CancellationToken) {
    stop.run_until_cancelled(async {
        futures::join!(gateways::control(client.clone()), control(client, kinds))
    })
    .await;
}

/// A running policy controller. Dropping the value stops the controller.
#[derive(Debug)]
pub struct PolicyController {
    stop: CancellationToken,
    task: AbortOnDropHandle<()>,
}

impl PolicyController {
    /// Starts a controller on the current runtime for the cluster of `client`.
    #[must_use]
    pub fn start(client: Client, kinds: Vec<GroupVersionResource>) -> Self {
        let stop = CancellationToken::new();
        let task = AbortOnDropHandle::new(tokio::spawn(run(client, kinds, stop.clone())));
        Self { stop, task }
    }

    /// Stops the controller and waits until its task has ended.
    pub async fn stop(self) {
        self.stop.cancel();
        // An error means that the task has panicked, which has ended the task, too.
        let _ = self.task.await;
    }
}

/// Starts a controller of the [`default_kinds`].
///
/// # Errors
/// At present, the start cannot fail.
pub async fn spawn(client: Client) -> anyhow::Result<PolicyController> {
    Ok(PolicyController::start(client, default_kinds()))
}

type Events = SelectAll<BoxStream<'static, (Source, watcher::Result<watcher::Event<DynamicObject>>)>>;

async fn control(client: Client, kinds: Vec<GroupVersionResource>) {
    let gateways = GroupVersionResource::new(policy_sync_api::gateway::GROUP, "v1", "gateways");
    let mut events: Events = SelectAll::new();
    events.push(watch(&client, &gateways, Source::Gateways));
    for (index, kind) in kinds.iter().enumerate() {
        events.push(watch(&client, kind, Source::Policies(index)));
    }
    let mut tables = Tables::new(kinds.iter().map(answers));
    let mut retry: Option<Instant> = None;
    loop {
        tokio::select! {
            Some((source, event)) = events.next() => take(&mut tables, source, event),
            () = tokio::time::sleep_until(retry.unwrap_or_else(Instant::now)), if retry.is_some() => {}
        }
        // Drains all pending events before the next evaluation.
        while let Some(Some((source, event))) = events.next().now_or_never() {
            take(&mut tables, source, event);
        }
        let writes = tables.due();
        let results: Vec<_> = stream::iter(writes)
            .map(|due| write(&client, &kinds, due))
            .buffer_unordered(WRITERS)
            .collect()
            .await;
        let mut failed = false;
        for (write, result) in results {
            match result {
                Ok(object) => tables.written(&write, &object),
                // The watch will deliver the newer object, or its deletion.
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                Err(error) => {
                    tracing::debug!(policy = %write.key, %error, "writing a policy's status failed");
                    failed = true;
                }
            }
        }
        retry = failed.then(|| Instant::now() + RETRY);
    }
}

/// The sample kind with `targetRefs` reports status for each target.
fn answers(kind: &GroupVersionResource) -> StatusForm {
    if *kind.kind.group == *"policies.example.com" { StatusForm::Ancestors } else { StatusForm::Whole }
}

fn take(tables: &mut Tables, source: Source, event: watcher::Result<watcher::Event<DynamicObject>>) {
    match event {
        Ok(event) => tables.take(source, event),
        Err(error) => {
            tracing::debug!(?source, %error, "watch of the policy controller failed");
            tables.failed(source);
        }
    }
}

async fn write(
    client: &Client,
    kinds: &[GroupVersionResource],
    write: StatusWrite,
) -> (StatusWrite, kube::Result<DynamicObject>) {
    let api: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), &write.key.namespace, &resource(&kinds[write.kind]));
    let patch = Patch::Merge(&write.patch);
    let result = api.patch_status(&write.key.name, &PatchParams::default(), &patch).await;
    (write, result)
}

fn resource(kind: &GroupVersionResource) -> ApiResource {
    ApiResource {
        group: kind.kind.group.to_string(),
        version: kind.version.to_string(),
        api_version: kind.api_version(),
        kind: String::new(),
        plural: kind.kind.resource.to_string(),
    }
}

fn watch(
    client: &Client,
    kind: &GroupVersionResource,
    source: Source,
) -> BoxStream<'static, (Source, watcher::Result<watcher::Event<DynamicObject>>)> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource(kind));
    let events = watcher(api, watcher::Config::default()).backoff(Retry::default());
    events.map(move |event| (source, event)).boxed()
}

/// Backoff from 100 ms to 2 s, doubling. The delays are short, because tests wait for kinds whose CRD is installed
/// late.
#[derive(Default)]
struct Retry(u32);

impl Iterator for Retry {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let delay = Duration::from_millis(100) * (1 << self.0.min(5));
        self.0 += 1;
        Some(delay.min(Duration::from_secs(2)))
    }
}

impl Backoff for Retry {
    fn reset(&mut self) {
        self.0 = 0;
    }
}
