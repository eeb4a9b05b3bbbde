//! B10: five tenants change their policies every second. These policies have the maximum size, and differ on each
//! cluster. Measures the effect on another tenant, the *measured tenant*.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::TryStreamExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, WatchParams};
use kube::core::request::Request as Requests;
use kube::core::{ObjectList, WatchEvent};
use policy_sync_api::annotations::CLUSTER_OVERRIDES;
use policy_sync_api::object::HubObject;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::hub::{CLASS, MeasuredHub};
use super::observer::Observer;
use super::raw;
use super::report::{Measure, progress};
use super::sample::Sample;
use super::scene::{AT_ONCE, Scene, create_all};
use super::usage::Memory;
use policy_sync_testenv::fixtures;

/// Namespaces of the large tenants.
const TENANTS: [&str; 5] = ["tenant-0", "tenant-1", "tenant-2", "tenant-3", "tenant-4"];
/// Number of the large tenants' clusters. Each cluster has a different value of [`LABEL`].
const CLUSTERS: usize = 64;
const LABEL: &str = "name";
/// Sizes of the large tenants' specs and overrides, in bytes.
const SPEC: usize = 371_000;
const OVERRIDES: usize = 250_000;
/// Interval at which each large tenant changes its policy.
const EVERY: Duration = Duration::from_secs(1);
/// Goal for the time until the first work of the measured tenant changes, in seconds above the time of a raw writer.
/// The raw writer accounts for the load on the hub itself.
const GOAL: f64 = 1.0;
/// Number of concurrent patches of the raw writer.
const RAW_AT_ONCE: usize = 32;
/// Goal for the controller's additional memory, in MiB.
const MEMORY_GOAL: f64 = 32.0;

/// Measures the time until the first work of a changed policy changes, while the large tenants change their policies.
/// Also measures the controller's memory.
pub(super) async fn measure(hub: &mut MeasuredHub, changes: usize) -> Result<Vec<Measure>> {
    hub.settle().await?;
    let (_, without) = hub.start_controller().await?;
    hub.quiet().await?;
    let before = Memory::of_process(without.pid())?.resident;
    without.terminate().await?;
    let clusters = clusters(hub).await?;
    for tenant in TENANTS {
        Scene::set(&hub.client, tenant, CLASS, &clusters).await?;
        create_all(&hub.client, [(path(tenant), policy(tenant, &clusters))]).await?;
    }
    let mut observer = hub.observe().await?;
    progress(&format!("{changes} changes by a raw writer beside {} tenants", TENANTS.len()));
    let (watcher, mut changed_names) = watch_changes(hub).await?;
    let raw = beside(hub, async {
        let mut took = Vec::new();
        for index in 0..changes {
            took.push(change_raw(hub, &mut observer, &mut changed_names, index).await?);
        }
        Ok(took)
    });
    let raw = Sample::seconds(&raw.await?);
    drop(watcher);
    let (_, controller) = hub.start_controller().await?;
    hub.quiet().await?;
    progress(&format!("{changes} changes beside {} tenants", TENANTS.len()));
    let changed = beside(hub, async {
        let (mut took, mut resident) = (Vec::new(), Vec::new());
        for index in 0..changes {
            took.push(change(hub, &mut observer, index).await?);
            resident.push(Memory::of_process(controller.pid())?.resident);
        }
        Ok((took, resident))
    });
    let (took, resident) = changed.await?;
    let peak = Memory::of_process(controller.pid())?.peak;
    controller.terminate().await?;
    hub.mark_unsettled();
    leave(hub).await?;
    let (took, resident) = (Sample::seconds(&took), Sample::new(resident));
    let what = format!(
        "beside {} tenants with {CLUSTERS} copies of {} KB",
        TENANTS.len(),
        (SPEC + OVERRIDES) / 1000
    );
    let spread = |sample: &Sample| {
        format!("p50 {:.3} s, p95 {:.3} s, max {:.3} s", sample.median(), sample.quantile(0.95), sample.max())
    };
    let longer = took.quantile(0.95) - raw.quantile(0.95);
    Ok(vec![
        Measure::at_most(
            "B10",
            format!("the first work of a change over a raw writer's, {what}, p95"),
            longer,
            "s",
            GOAL,
        )
        .detail(format!("{changes} changes, {}; raw {}", spread(&took), spread(&raw))),
        Measure::at_most("B10", format!("memory, {what}"), resident.max() - before, "MiB", MEMORY_GOAL)
            .detail(format!(
                "the most after a change (p50 {:.1} MiB), over {before:.1} MiB; {peak:.1} MiB for a moment",
                resident.median() - before
            )),
    ])
}

/// Runs `what` while the large tenants change their policies.
async fn beside<T>(hub: &MeasuredHub, what: impl Future<Output = Result<T>>) -> Result<T> {
    let touching = async {
        for turn in 0_usize.. {
            tokio::join!(touch(hub, turn), tokio::time::sleep(EVERY)).0?;
        }
        bail!("no more turns")
    };
    tokio::select! {
        touched = touching => touched,
        done = what => done,
    }
}

/// Watches the policies of all namespaces, as a controller must, and sends the names of changed policies.
async fn watch_changes(
    hub: &MeasuredHub,
) -> Result<(AbortOnDropHandle<()>, mpsc::UnboundedReceiver<String>)> {
    let requests = Requests::new("/apis/kuadrant.io/v1/ratelimitpolicies");
    let newest =
        requests.list_metadata(&ListParams::default().limit(1)).context("building a list request")?;
    let newest: ObjectList<HubObject> = hub.client.request(newest).await.context("listing policies")?;
    let version = newest.metadata.resource_version.unwrap_or_default();
    let watch =
        requests.watch(&WatchParams::default().timeout(290), &version).context("building a watch request")?;
    let mut events = Box::pin(hub.client.request_events::<HubObject>(watch).await.context("watching")?);
    let (sender, changed_names) = mpsc::unbounded_channel();
    let watcher = tokio::spawn(async move {
        while let Ok(Some(event)) = events.try_next().await {
            if let WatchEvent::Modified(policy) = event {
                // If this fails, the receiver was dropped.
                let _ = sender.send(policy.metadata.name);
            }
        }
    });
    Ok((AbortOnDropHandle::new(watcher), changed_names))
}

/// A raw writer makes the same change as the controller: it sends prepared patches once the watch delivers the change.
async fn change_raw(
    hub: &MeasuredHub,
    observer: &mut Observer,
    changed_names: &mut mpsc::UnboundedReceiver<String>,
    index: usize,
) -> Result<Duration> {
    let policy = index % hub.policies;
    let work = hub.scene.work(&hub.controller(), policy);
    let patch =
        Patch::Merge(json!({ "metadata": { "annotations": { "example.com/raw": index.to_string() } } }));
    let patches = hub.clusters.iter().map(|cluster| {
        let patch = raw::works_of(cluster).patch(&work, &PatchParams::default(), &patch);
        patch.map(raw::with_metadata_response).context("building a patch request")
    });
    let patches: Vec<_> = patches.collect::<Result<_>>()?;
    hub.scene.change(policy, 1_000_000 + index).await?;
    let started = Instant::now();
    while changed_names.recv().await.context("the watch ended")? == NAME {}
    let sent = raw::send(&hub.client, patches, RAW_AT_ONCE);
    let (sent, first) = tokio::join!(sent, observer.until(1, |seen| seen.name == work));
    sent?;
    observer.until(hub.clusters.len() - 1, |seen| seen.name == work).await?;
    Ok(first?.saturating_duration_since(started))
}

/// Creates the clusters of the large tenants.
async fn clusters(hub: &MeasuredHub) -> Result<Vec<String>> {
    let names: Vec<String> = (0..CLUSTERS).map(|index| format!("tenants-{index:02}")).collect();
    let objects = names.iter().flat_map(|name| {
        let labels = BTreeMap::from([(LABEL.to_owned(), name.clone())]);
        let path = "/apis/cluster.open-cluster-management.io/v1/managedclusters";
        [("/api/v1/namespaces", fixtures::namespace(name)), (path, fixtures::managed_cluster(name, &labels))]
    });
    create_all(&hub.client, objects.map(|(path, object)| (path.to_owned(), object))).await?;
    Ok(names)
}

/// A policy with 100 overrides. Each override excludes at most one cluster, so that all copies differ.
fn policy(namespace: &str, clusters: &[String]) -> Value {
    let each = OVERRIDES / 100 - 70;
    let overrides: Vec<Value> = (0..100)
        .map(|index| {
            let selector = clusters.get(index).map(|name| format!("{LABEL}!={name}")).unwrap_or_default();
            json!({ "clusterSelector": selector, "patch": { "limits": limits(&format!("o{index}"), each) } })
        })
        .collect();
    let mut policy = fixtures::rate_limit_policy(namespace, NAME, GATEWAY);
    policy["spec"]["limits"] = limits("own", SPEC);
    policy["metadata"]["annotations"] = json!({ CLUSTER_OVERRIDES: Value::Array(overrides).to_string() });
    policy
}

const NAME: &str = "large";
const GATEWAY: &str = "web";

/// Limits of about this many bytes.
fn limits(prefix: &str, bytes: usize) -> Value {
    let limit = |index: usize| {
        let limit = json!({ "rates": [{ "limit": index % 10, "window": "10s" }] });
        (format!("{prefix}-{index:05}"), limit)
    };
    let each = json!(limit(0)).to_string().len() - 1;
    Value::Object((0..bytes / each).map(limit).collect::<Map<_, _>>())
}

fn path(namespace: &str) -> String {
    format!("/apis/kuadrant.io/v1/namespaces/{namespace}/ratelimitpolicies")
}

/// Annotates the policy of each tenant.
async fn touch(hub: &MeasuredHub, turn: usize) -> Result<()> {
    let patch =
        Patch::Merge(json!({ "metadata": { "annotations": { "example.com/turn": turn.to_string() } } }));
    let requests = TENANTS.map(|tenant| {
        let patch = Requests::new(path(tenant)).patch(NAME, &PatchParams::default(), &patch);
        patch.map(raw::with_metadata_response).context("building a patch request")
    });
    raw::send(&hub.client, requests.into_iter().collect::<Result<_>>()?, AT_ONCE).await.map(drop)
}

/// Changes the policy of the measured tenant. Returns the time from the response until the first work changes.
async fn change(hub: &MeasuredHub, observer: &mut Observer, index: usize) -> Result<Duration> {
    let policy = index % hub.policies;
    let work = hub.scene.work(&hub.controller(), policy);
    hub.scene.change(policy, 2_000_000 + index).await?;
    let started = Instant::now();
    let first = observer.until(1, |seen| seen.name == work).await?;
    observer.until(hub.clusters.len() - 1, |seen| seen.name == work).await?;
    Ok(first.saturating_duration_since(started))
}

/// Deletes the large tenants' policies and Gateways. Deletes whole collections, because a busy client repeats
/// requests, and the repeated delete of an object would fail.
async fn leave(hub: &MeasuredHub) -> Result<()> {
    let gateways = |tenant| format!("/apis/gateway.networking.k8s.io/v1/namespaces/{tenant}/gateways");
    let deletes = TENANTS.into_iter().flat_map(|tenant| [path(tenant), gateways(tenant)]).map(|path| {
        let all = ListParams::default();
        Requests::new(path)
            .delete_collection(&DeleteParams::background(), &all)
            .context("building a delete request")
    });
    raw::send(&hub.client, deletes.collect::<Result<_>>()?, AT_ONCE).await.map(drop)
}
