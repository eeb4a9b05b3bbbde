//! The status of a Gateway and of a policy in a fleet of 1,000 clusters, which is more than their status can
//! list.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use kube::ResourceExt;
use policy_sync_api::work::ManifestWork;
use policy_sync_sync::status::policy::OWN_ANNOTATIONS_LIMIT;
use policy_sync_testenv::apply::apply;
use policy_sync_testenv::audit::Request;
use policy_sync_testenv::fixtures::{managed_cluster, namespace, rate_limit_policy};
use policy_sync_testenv::tenant::{LIMIT, Tenant, WorkReport};
use policy_sync_testenv::{Fleet, FleetOptions, wait};

use super::{condition, programmed, until_programmed};

/// Checks that `writes` has at most one write per window to `resource`, and that no write was rejected.
fn check_writes(writes: &[Request], resource: &str, windows: usize) -> Result<()> {
    let of_resource: Vec<&Request> =
        writes.iter().filter(|write| write.object().resource == resource).collect();
    ensure!(
        !of_resource.is_empty() && of_resource.len() <= windows,
        "{} writes in {windows} windows",
        of_resource.len()
    );
    ensure!(!of_resource.iter().any(|write| write.is_rejected()), "{of_resource:?}");
    Ok(())
}

/// All clusters report at once.
#[tokio::test]
async fn thousand_clusters_cause_one_status_write_per_window() -> Result<()> {
    let names: Vec<String> = (0..1_000).map(|n| format!("many-{n:04}")).collect();
    // The test has a separate hub, because its load would slow down other tests.
    let fleet = Fleet::start(FleetOptions::spokes([])).await?;
    let binary = Path::new(env!("CARGO_BIN_EXE_policy-sync"));
    let tenant = Tenant::new(fleet.hub(), binary, "many", &[]).await?;
    stream::iter(&names)
        .map(|name| async {
            let tier = [("kuadrant.io/tier".to_owned(), "edge".to_owned())].into();
            apply(tenant.client(), &namespace(name)).await?;
            apply(tenant.client(), &managed_cluster(name, &tier)).await.map(drop)
        })
        .buffer_unordered(32)
        .try_collect::<()>()
        .await?;
    for (slice, names) in names.chunks(100).enumerate() {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        tenant.decide("all", slice + 1, &names).await?;
    }
    tenant.select("all", names.len()).await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    let started = Instant::now();
    let controller = tenant.controller().await?;
    // There are 2,000 works: a Gateway and a policy for each cluster.
    let works = wait::until("all works exist", LIMIT * 3, || async {
        let mut works = tenant.works().await?;
        works.retain(|work| !work.name_any().starts_with("access-"));
        ensure!(works.len() == 2 * names.len(), "{} exist", works.len());
        Ok(works)
    })
    .await?;
    until_programmed(
        &tenant,
        "False Pending: not programmed on 1000 of 1000 clusters: many-0000 (pending); ",
    )
    .await?;
    let one = programmed("192.0.2.1");
    let enforced = WorkReport::applied().condition("Enforced", "True", "Enforced", &"m".repeat(64));
    let report = |work: &ManifestWork| if work.name_any().starts_with("gateway-") { &one } else { &enforced };
    stream::iter(&works)
        .map(|work| tenant.report(work, report(work)))
        .buffer_unordered(32)
        .try_collect::<()>()
        .await?;
    let found =
        until_programmed(&tenant, "True Programmed: programmed on all of its clusters: 1000;").await?;
    let (entries, summary) =
        tenant.until_folded(&limits, |_, summary| summary.clusters == 1_000 && summary.synced).await?;
    let windows = usize::try_from(started.elapsed().as_secs())? + 2;
    ensure!((summary.applied, summary.enforced, summary.pending) == (1_000, 1_000, 0), "{summary:?}");
    let annotations = tenant.annotations(&limits).await?;
    let ours = annotations.iter().filter(|(key, _)| key.starts_with("kuadrant.io/"));
    let size: usize = ours.map(|(key, value)| key.len() + value.len()).sum();
    ensure!(
        entries.len() == 1_000 && size <= OWN_ANNOTATIONS_LIMIT,
        "{} entries, {size} bytes",
        entries.len()
    );

    ensure!(found["status"]["addresses"].as_array().map(Vec::len) == Some(16), "{found}");
    ensure!(found["status"]["listeners"].as_array().map(Vec::len) == Some(64), "{found}");
    ensure!(condition(&found, "Programmed").ends_with("984 addresses, 936 listeners"), "{found}");
    let listed: Vec<String> = serde_json::from_str(
        found["metadata"]["annotations"]["kuadrant.io/gateway-clusters"].as_str().unwrap_or_default(),
    )?;
    ensure!(listed == names, "{} clusters are listed", listed.len());
    let labels = found["metadata"]["labels"].as_object().context("the Gateway has no labels")?;
    ensure!(labels["clusters.kuadrant.io/many-0999_tier"] == "edge" && labels.len() > 1_000, "{labels:?}");
    let writes = tenant.settled(&controller).await?;
    check_writes(&writes, "gateways", windows)?;
    check_writes(&writes, "ratelimitpolicies", windows)?;
    controller.terminate().await?;
    let controller = tenant.controller().await?;
    let writes = tenant.settled(&controller).await?;
    ensure!(writes.is_empty(), "the restarted controller wrote {} times", writes.len());
    Ok(())
}
