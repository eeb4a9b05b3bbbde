//! B10: tenants whose policies are as large as the API takes them, with another copy for each cluster, and who touch them
//! every second; what that costs somebody else.

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

/// Their namespaces.
const TENANTS: [&str; 5] = ["tenant-0", "tenant-1", "tenant-2", "tenant-3", "tenant-4"];
/// Their clusters, each with a label of its own.
const CLUSTERS: usize = 64;
const LABEL: &str = "name";
/// How many bytes their specs have, and their overrides.
const SPEC: usize = 371_000;
const OVERRIDES: usize = 250_000;
/// How often they touch their policies.
const EVERY: Duration = Duration::from_secs(1);
/// How much longer one work of somebody else may take than with a raw writer, in seconds: what the hub itself takes for five
/// policies of this size a second is not the controller's.
const GOAL: f64 = 1.0;
/// How many patches the raw writer has under way.
const RAW_AT_ONCE: usize = 32;
/// How much more memory the controller may take, in MiB.
const MEMORY_GOAL: f64 = 32.0;

/// How long the first work of a changed policy takes while tenants touch theirs, and how much memory the controller has.
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
    let (telling, mut told) = tell(hub).await?;
    let raw = beside(hub, async {
        let mut took = Vec::new();
        for index in 0..changes {
            took.push(change_raw(hub, &mut observer, &mut told, index).await?);
        }
        Ok(took)
    });
    let raw = Sample::seconds(&raw.await?);
    drop(telling);
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
    hub.unsettle();
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

/// Does `what` while the tenants touch their policies.
async fn beside<T>(hub: &MeasuredHub, what: impl Future<Output = Result<T>>) -> Result<T> {
    let touching = async {
        for turn in 0_usize.. {
            tokio::join!(touch(hub, turn), tokio::time::sleep(EVERY)).0?;
        }
        bail!("there are no more turns")
    };
    tokio::select! {
        touched = touching => touched,
        done = what => done,
    }
}

/// Watches whole policies of all namespaces, as whoever syncs them has to, and tells the names of those that change.
async fn tell(hub: &MeasuredHub) -> Result<(AbortOnDropHandle<()>, mpsc::UnboundedReceiver<String>)> {
    let requests = Requests::new("/apis/kuadrant.io/v1/ratelimitpolicies");
    let newest = requests.list_metadata(&ListParams::default().limit(1)).context("making a list")?;
    let newest: ObjectList<HubObject> = hub.client.request(newest).await.context("listing")?;
    let version = newest.metadata.resource_version.unwrap_or_default();
    let watch = requests.watch(&WatchParams::default().timeout(290), &version).context("making a watch")?;
    let mut events = Box::pin(hub.client.request_events::<HubObject>(watch).await.context("watching")?);
    let (sender, told) = mpsc::unbounded_channel();
    let telling = tokio::spawn(async move {
        while let Ok(Some(event)) = events.try_next().await {
            if let WatchEvent::Modified(policy) = event {
                // Nobody waits any more where it cannot be sent.
                let _ = sender.send(policy.metadata.name);
            }
        }
    });
    Ok((AbortOnDropHandle::new(telling), told))
}

/// The same change with a raw writer in the controller's place, which has its patches ready and sends them once a watch has
/// told of the change.
async fn change_raw(
    hub: &MeasuredHub,
    observer: &mut Observer,
    told: &mut mpsc::UnboundedReceiver<String>,
    index: usize,
) -> Result<Duration> {
    let policy = index % hub.policies;
    let work = hub.scene.work(&hub.controller(), policy);
    let patch =
        Patch::Merge(json!({ "metadata": { "annotations": { "example.com/raw": index.to_string() } } }));
    let patches = hub.clusters.iter().map(|cluster| {
        let patch = raw::works_of(cluster).patch(&work, &PatchParams::default(), &patch);
        patch.map(raw::answered_by_metadata).context("making a patch")
    });
    let patches: Vec<_> = patches.collect::<Result<_>>()?;
    hub.scene.change(policy, 1_000_000 + index).await?;
    let started = Instant::now();
    while told.recv().await.context("nothing is told any more")? == NAME {}
    let sent = raw::send(&hub.client, patches, RAW_AT_ONCE);
    let (sent, first) = tokio::join!(sent, observer.until(1, |seen| seen.name == work));
    sent?;
    observer.until(hub.clusters.len() - 1, |seen| seen.name == work).await?;
    Ok(first?.saturating_duration_since(started))
}

/// Makes their clusters.
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

/// A policy with a hundred overrides, of which each cluster lacks another.
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

/// Limits of about so many bytes.
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
        patch.map(raw::answered_by_metadata).context("making a patch")
    });
    raw::send(&hub.client, requests.into_iter().collect::<Result<_>>()?, AT_ONCE).await.map(drop)
}

/// One change of somebody else's policy, from the answer to its owner until its first work has it.
async fn change(hub: &MeasuredHub, observer: &mut Observer, index: usize) -> Result<Duration> {
    let policy = index % hub.policies;
    let work = hub.scene.work(&hub.controller(), policy);
    hub.scene.change(policy, 2_000_000 + index).await?;
    let started = Instant::now();
    let first = observer.until(1, |seen| seen.name == work).await?;
    observer.until(hub.clusters.len() - 1, |seen| seen.name == work).await?;
    Ok(first.saturating_duration_since(started))
}

/// Takes away what they would go on with in other rows. Each is alone in its namespace, and one that is deleted twice, as a busy hub
/// has its client do, is no fault.
async fn leave(hub: &MeasuredHub) -> Result<()> {
    let gateways = |tenant| format!("/apis/gateway.networking.k8s.io/v1/namespaces/{tenant}/gateways");
    let deletes = TENANTS.into_iter().flat_map(|tenant| [path(tenant), gateways(tenant)]).map(|path| {
        let all = ListParams::default();
        Requests::new(path).delete_collection(&DeleteParams::background(), &all).context("making a delete")
    });
    raw::send(&hub.client, deletes.collect::<Result<_>>()?, AT_ONCE).await.map(drop)
}
