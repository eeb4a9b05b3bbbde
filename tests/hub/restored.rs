//! A hub that is restored from a backup: etcd's directory is copied, further writes follow, and the copy is
//! put back.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams, PostParams};
use policy_sync_hub::clock::Clock;
use policy_sync_hub::tasks::RestartReason;
use policy_sync_hub::telemetry::metrics::Metrics;
use policy_sync_hub::{RequestTimeout, watch_client};
use policy_sync_testenv::fixtures::{managed_cluster, namespace, rate_limit_policy};
use policy_sync_testenv::flow::flow;
use policy_sync_testenv::tenant::LIMIT;
use policy_sync_testenv::{ControlPlane, Controller, Fleet, FleetOptions, Tenant, wait};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::ON_BOTH;

/// The process ends once the hub has been older than the process's last known state for this time.
const RESTORED: Duration = Duration::from_secs(5 * 60);
/// The number of writes that the backup lacks.
const LOST: usize = 2_000;
/// Time between two jumps of the clock. The clock runs meanwhile, so that requests can complete.
const BETWEEN_JUMPS: Duration = Duration::from_secs(5);
/// An API server sends a bookmark about every minute; the limit leaves room for a busy machine.
const BOOKMARK: Duration = Duration::from_secs(180);

/// Copies a directory recursively.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let copied = Command::new("cp").arg("-a").args([from, to]).status().context("starting cp")?;
    ensure!(copied.success(), "cp failed to copy {} to {}", from.display(), to.display());
    Ok(())
}

fn backup(etcd: &Path) -> PathBuf {
    etcd.with_extension("backup")
}

/// Writes more than the hub's own components write at startup. Otherwise the resource versions of the restored
/// hub would soon exceed the last version that clients have seen, and no client could detect the restore.
async fn write_many(tenant: &Tenant<'_>) -> Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(tenant.client().clone(), tenant.name());
    let map = json!({ "metadata": { "name": "touched" } });
    maps.create(&PostParams::default(), &serde_json::from_value(map)?)
        .await
        .context("creating a ConfigMap")?;
    let touched = futures::stream::iter(0..LOST).map(|turn| {
        let patch = Patch::Merge(json!({ "data": { "turn": turn.to_string() } }));
        let maps = maps.clone();
        async move { maps.patch("touched", &PatchParams::default(), &patch).await.map(drop) }
    });
    touched.buffer_unordered(16).try_collect::<()>().await.context("patching a ConfigMap")
}

async fn tenant<'h>(hub: &'h ControlPlane, name: &str) -> Result<Tenant<'h>> {
    let binary = Path::new(env!("CARGO_BIN_EXE_policy-sync"));
    let tenant = Tenant::new(hub, binary, name, &["eu-1", "us-1"]).await?;
    tenant.apply(&rate_limit_policy(name, "limits", "web")).await?;
    Ok(tenant)
}

async fn stale(controller: &Controller) -> Result<()> {
    let (_, text) = controller.readiness().await?;
    let metrics = controller.metrics().await?;
    for kind in ["manifestworks", "ratelimitpolicies"] {
        ensure!(text.contains(kind) && text.contains("was seen already"), "/readyz returned: {text}");
        let mut resources = metrics.labels("policy_sync_watch_up", "resource").into_iter();
        let resource = resources.find(|resource| resource.starts_with(kind)).unwrap_or(kind);
        ensure!(metrics.value("policy_sync_watch_up", &[("resource", resource)])? == 0.0, "{metrics}");
    }
    Ok(())
}

#[tokio::test]
async fn restored_hub_is_reported_and_ends_the_process_after_five_minutes() -> Result<()> {
    let fleet = Fleet::start(FleetOptions::spokes([])).await?;
    let hub = fleet.hub();
    for cluster in ["eu-1", "us-1"] {
        let objects = [managed_cluster(cluster, &Default::default()), namespace(cluster)];
        policy_sync_testenv::apply::apply_all(&hub.client()?, &objects).await?;
    }
    let (tenant, within) = (tenant(hub, "restored").await?, tenant(hub, "within").await?);
    let controller = tenant.controller().await?;
    // The controller of this tenant runs in the test process, so that the test can advance its clock.
    let client = watch_client(hub.client_config(), &Metrics::new()?, RequestTimeout::Unset)?;
    let flow = flow(client, &within.controller_name(), Clock::start())?;
    let (mirror, clock) = (flow.mirror.clone(), flow.clock);
    let ends = flow.start(CancellationToken::new());
    for tenant in [&tenant, &within] {
        tenant.until_works(&ON_BOTH).await?;
    }
    tenant.settled(&controller).await?;
    let uids =
        |works: Vec<_>| works.into_iter().map(|work: policy_sync_api::work::ManifestWork| work.metadata.uid);
    let before: Vec<_> = uids(tenant.works().await?).collect();

    hub.with_etcd_stopped(|etcd| copy(etcd, &backup(etcd))).await?;
    write_many(&tenant).await?;
    for tenant in [&tenant, &within] {
        tenant.apply(&rate_limit_policy(tenant.name(), "later", "web")).await?;
        tenant.until_work("us-1", "ratelimitpolicy-later", |_| true).await?;
    }
    hub.with_etcd_stopped(|etcd| {
        std::fs::remove_dir_all(etcd)?;
        std::fs::rename(backup(etcd), etcd).context("restoring the backup")
    })
    .await?;

    // Bookmarks show both controllers that the server is older than the state they have seen.
    wait::until("the controller detects the restore", BOOKMARK, || stale(&controller)).await?;
    wait::until("the in-process controller detects the restore", BOOKMARK, || async {
        let guard = mirror.read();
        let failing = guard.view(clock.now()).failing();
        ensure!(failing.values().any(|text| text.contains("was seen already")), "failing is {failing:?}");
        Ok(())
    })
    .await?;
    // The controller in this process tolerates an older server for five minutes of its own clock, which has not
    // advanced.
    ensure!(!ends.is_finished(), "the controller ended too soon");
    // A clock jump aborts requests in flight. These requests are retried after a backoff, which the next jump ends.
    wait::until_seen("the controller ends", LIMIT, BETWEEN_JUMPS, || async {
        tokio::time::pause();
        tokio::time::advance(RESTORED).await;
        tokio::time::resume();
        ensure!(ends.is_finished(), "the controller still runs");
        Ok(())
    })
    .await?;
    let ended = ends.await?;
    ensure!(ended == Err(RestartReason::HubRestored), "the controller ended with {ended:?}");

    // A new process has seen no later state, and finds the objects of the backup.
    controller.kill();
    let fresh = tenant.controller().await?;
    tenant.until_works(&ON_BOTH).await?;
    let writes = tenant.settled(&fresh).await?;
    ensure!(writes.is_empty(), "the new process wrote {writes:?}");
    ensure!(uids(tenant.works().await?).eq(before), "works were created again");
    Ok(())
}
