//! B10: tenants whose policies are as large as the API takes them, with another copy for each cluster, and who touch them
//! every second; what that costs somebody else.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::core::request::Request as Requests;
use policy_sync::api::annotations::CLUSTER_OVERRIDES;
use serde_json::{Map, Value, json};

use super::observer::Observer;
use super::raw;
use super::report::{Measure, progress};
use super::sample::Sample;
use super::scene::{AT_ONCE, Scene, create_all};
use super::stage::{CLASS, Stage};
use super::usage::Memory;
use crate::fixtures;

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
/// How long one work of somebody else may take, in seconds.
const GOAL: f64 = 1.0;
/// How much more memory the controller may take, in MiB.
const MEMORY_GOAL: f64 = 32.0;

/// How long the first work of a changed policy takes while tenants touch theirs, and how much memory the controller has.
pub(super) async fn measure(stage: &mut Stage, changes: usize) -> Result<Vec<Measure>> {
    stage.settle().await?;
    let (_, without) = stage.start_controller().await?;
    stage.quiet().await?;
    let before = Memory::of(without.pid())?.resident;
    without.terminate().await?;
    let clusters = clusters(stage).await?;
    for tenant in TENANTS {
        Scene::set(&stage.client, tenant, CLASS, &clusters).await?;
        create_all(&stage.client, [(path(tenant), policy(tenant, &clusters))]).await?;
    }
    let mut observer = stage.observe().await?;
    let (_, controller) = stage.start_controller().await?;
    stage.quiet().await?;
    progress(&format!("{changes} changes beside {} tenants", TENANTS.len()));
    let touching = async {
        for turn in 0_usize.. {
            tokio::join!(touch(stage, turn), tokio::time::sleep(EVERY)).0?;
        }
        Ok::<_, anyhow::Error>(())
    };
    let changing = async {
        let (mut took, mut resident) = (Vec::new(), 0.0_f64);
        for index in 0..changes {
            took.push(change(stage, &mut observer, index).await?);
            resident = resident.max(Memory::of(controller.pid())?.resident);
        }
        Ok::<_, anyhow::Error>((took, resident))
    };
    let (took, resident) = tokio::select! {
        touched = touching => touched.map(|()| (Vec::new(), 0.0))?,
        changed = changing => changed?,
    };
    let peak = Memory::of(controller.pid())?.peak;
    controller.terminate().await?;
    stage.unsettle();
    leave(stage).await?;
    let took = Sample::seconds(&took);
    let what = format!(
        "beside {} tenants with {CLUSTERS} copies of {} KB",
        TENANTS.len(),
        (SPEC + OVERRIDES) / 1000
    );
    Ok(vec![
        Measure::at_most("B10", format!("the first work of a change, {what}"), took.max(), "s", GOAL)
            .detail(format!("{changes} changes, p50 {:.3} s", took.median())),
        Measure::at_most("B10", format!("memory, {what}"), resident - before, "MiB", MEMORY_GOAL)
            .detail(format!("the most after a change, over {before:.1} MiB; {peak:.1} MiB for a moment")),
    ])
}

/// Makes their clusters.
async fn clusters(stage: &Stage) -> Result<Vec<String>> {
    let names: Vec<String> = (0..CLUSTERS).map(|index| format!("tenants-{index:02}")).collect();
    let objects = names.iter().flat_map(|name| {
        let labels = BTreeMap::from([(LABEL.to_owned(), name.clone())]);
        let path = "/apis/cluster.open-cluster-management.io/v1/managedclusters";
        [("/api/v1/namespaces", fixtures::namespace(name)), (path, fixtures::managed_cluster(name, &labels))]
    });
    create_all(&stage.client, objects.map(|(path, object)| (path.to_owned(), object))).await?;
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
async fn touch(stage: &Stage, turn: usize) -> Result<()> {
    let patch =
        Patch::Merge(json!({ "metadata": { "annotations": { "example.com/turn": turn.to_string() } } }));
    let requests = TENANTS.map(|tenant| {
        let patch = Requests::new(path(tenant)).patch(NAME, &PatchParams::default(), &patch);
        patch.map(raw::answered_by_metadata).context("making a patch")
    });
    raw::send(&stage.client, requests.into_iter().collect::<Result<_>>()?, AT_ONCE).await.map(drop)
}

/// One change of somebody else's policy, from the answer to its owner until its first work has it.
async fn change(stage: &Stage, observer: &mut Observer, index: usize) -> Result<Duration> {
    let policy = index % stage.policies;
    let work = stage.scene.work(&stage.controller(), policy);
    stage.scene.change(policy, 2_000_000 + index).await?;
    let started = Instant::now();
    let first = observer.until(1, |seen| seen.name == work).await?;
    observer.until(stage.clusters.len() - 1, |seen| seen.name == work).await?;
    Ok(first.saturating_duration_since(started))
}

/// Takes away what they would go on with in other rows.
async fn leave(stage: &Stage) -> Result<()> {
    let gateways = |tenant| format!("/apis/gateway.networking.k8s.io/v1/namespaces/{tenant}/gateways");
    let deletes = TENANTS.into_iter().flat_map(|tenant| [(path(tenant), NAME), (gateways(tenant), GATEWAY)]);
    let deletes = deletes.map(|(path, name)| {
        Requests::new(path).delete(name, &DeleteParams::background()).context("making a delete")
    });
    raw::send(&stage.client, deletes.collect::<Result<_>>()?, AT_ONCE).await.map(drop)
}
