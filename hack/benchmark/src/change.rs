//! B2 and B3: the spec of one policy changes. Measures the time until the last work of the policy has changed, and the
//! number of requests.
//!
//! Raw bursts send the same patches to the same works. No controller runs during the bursts, because a controller would
//! revert the patches. After each burst, a second burst restores the works, and is measured as well. The measurements
//! of the controller and of the raw bursts end when the harness's watch delivers the last changed work.

use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt};
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use policy_sync_api::work::ManifestWork;
use serde_json::{Value, json};

use super::counts::Counts;
use super::hub::MeasuredHub;
use super::observer::Observer;
use super::raw::{self, PreparedRequest};
use super::report::{Measure, progress};
use super::sample::{self, Sample};
use super::scene::AT_ONCE;

/// Number of pairs of bursts for each concurrency that the raw writer tries.
const TRIALS: usize = 3;
/// JSON Pointer to the limit in the copy of a policy.
const LIMIT: &str = "/spec/limits/all/rates/0/limit";

/// Measures this number of changes and raw bursts, in `turns` turns.
pub(super) async fn measure(hub: &mut MeasuredHub, turns: usize, changes: usize) -> Result<Vec<Measure>> {
    hub.settle().await?;
    let mut observer = hub.observe().await?;
    let at_once = raw::best(async |at_once| {
        let trials = raw_bursts(hub, &mut observer, at_once, 0..TRIALS).await?;
        Ok(Duration::from_secs_f64(Sample::seconds(&trials).median()))
    })
    .await?;
    let (mut raw, mut controller, mut requests) = (Vec::new(), Vec::new(), Counts::default());
    for turn in 0..turns {
        let share = changes * turn / turns..changes * (turn + 1) / turns;
        // Each pair has two bursts.
        raw.extend(raw_bursts(hub, &mut observer, at_once, share.start / 2..share.end.div_ceil(2)).await?);
        let (_, running) = hub.start_controller().await?;
        hub.quiet().await?;
        let before = Counts::now(&hub.client).await?;
        for index in share.clone() {
            controller.push(change(hub, &mut observer, index).await?);
        }
        hub.quiet().await?;
        requests.add(&Counts::now(&hub.client).await?.since(&before));
        running.terminate().await?;
        progress(&format!("changes {} to {} of {changes}", share.start + 1, share.end));
    }
    // The works have newer specs than their statuses.
    hub.mark_unsettled();
    let (raw, controller) = (Sample::seconds(&raw), Sample::seconds(&controller));
    let ratio = |part: f64| controller.quantile(part) / raw.quantile(part);
    let detail = |part: f64| {
        let ms = |sample: &Sample| sample.quantile(part) * 1000.0;
        format!("{:.1} ms against {:.1} ms, {at_once} raw patches at once", ms(&controller), ms(&raw))
    };
    let what = format!("{changes} changes of a policy on {} clusters", hub.clusters.len());
    let changed = sample::count(changes * hub.clusters.len());
    Ok(vec![
        Measure::at_most("B2", format!("{what}, p50"), ratio(0.5), "×", 1.3).detail(detail(0.5)),
        Measure::at_most("B2", format!("{what}, p95"), ratio(0.95), "×", 1.3).detail(detail(0.95)),
        Measure::at_most(
            "B3",
            "writes a changed work",
            requests.writes_of("manifestworks") / changed,
            "",
            1.0,
        )
        .detail(requests.describe_writes()),
        Measure::at_most("B3", "reads a changed work", requests.reads() / changed, "", 0.02)
            .detail(requests.describe_reads()),
    ])
}

/// Changes a policy. Returns the time from the response to the policy's patch until the controller has changed the last
/// work.
async fn change(hub: &MeasuredHub, observer: &mut Observer, index: usize) -> Result<Duration> {
    let policy = index % hub.policies;
    let work = hub.scene.work(&hub.controller(), policy);
    hub.scene.change(policy, 1_000 + index).await?;
    let started = Instant::now();
    let last = observer.until(hub.clusters.len(), |seen| seen.name == work).await?;
    Ok(last.saturating_duration_since(started))
}

/// Measures a pair of raw bursts for each policy. The second burst of a pair reverts the first burst.
async fn raw_bursts(
    hub: &MeasuredHub,
    observer: &mut Observer,
    at_once: usize,
    pairs: Range<usize>,
) -> Result<Vec<Duration>> {
    let mut took = Vec::new();
    for pair in pairs {
        let name = hub.scene.work(&hub.controller(), pair % hub.policies);
        let planned = works(hub, &name).await?;
        let limit = planned[0].spec.workload.manifests[1].0.pointer(LIMIT).cloned().unwrap_or_default();
        took.push(raw_burst(hub, observer, at_once, planned, json!(1_000_000 + pair)).await?);
        let changed = works(hub, &name).await?;
        took.push(raw_burst(hub, observer, at_once, changed, limit).await?);
    }
    Ok(took)
}

async fn raw_burst(
    hub: &MeasuredHub,
    observer: &mut Observer,
    at_once: usize,
    works: Vec<ManifestWork>,
    limit: Value,
) -> Result<Duration> {
    let (count, name) = (works.len(), works[0].name_any());
    let patches = works.into_iter().map(|work| patch(work, &limit)).collect::<Result<Vec<_>>>()?;
    let started = Instant::now();
    let (_, last) = tokio::try_join!(
        raw::send(&hub.client, patches, at_once),
        observer.until(count, |seen| seen.name == name)
    )?;
    Ok(last - started)
}

/// The works of this name in all clusters, read one by one: a list would include the works of all policies.
async fn works(hub: &MeasuredHub, name: &str) -> Result<Vec<ManifestWork>> {
    let works = hub.clusters.iter().map(|cluster| work(hub, cluster, name));
    futures::stream::iter(works).buffered(AT_ONCE).try_collect().await
}

async fn work(hub: &MeasuredHub, cluster: &str, name: &str) -> Result<ManifestWork> {
    let works: Api<ManifestWork> = Api::namespaced(hub.client.clone(), cluster);
    works.get(name).await.with_context(|| format!("reading the work {name} in {cluster}"))
}

/// The patch that the controller would send for `work` with this limit.
fn patch(mut work: ManifestWork, limit: &Value) -> Result<PreparedRequest> {
    let place = work.spec.workload.manifests.last_mut().and_then(|copy| copy.0.pointer_mut(LIMIT));
    *place.context("no limit in the work")? = limit.clone();
    let metadata = &work.metadata;
    let mut patch = vec![
        json!({ "op": "test", "path": "/metadata/uid", "value": metadata.uid }),
        json!({ "op": "test", "path": "/metadata/generation", "value": metadata.generation }),
        json!({ "op": "add", "path": "/spec", "value": work.spec }),
    ];
    for (field, values) in [("labels", &metadata.labels), ("annotations", &metadata.annotations)] {
        patch.extend(values.iter().flatten().map(|(key, value)| {
            let path = format!("/metadata/{field}/{}", key.replace('/', "~1"));
            json!({ "op": "add", "path": path, "value": value })
        }));
    }
    let patch = serde_json::from_value(Value::Array(patch)).context("building a patch request")?;
    let request = raw::works_of(&work.namespace().unwrap_or_default())
        .patch(&work.name_any(), &PatchParams::default(), &Patch::<()>::Json(patch))
        .context("building a patch request")?;
    Ok(raw::with_metadata_response(request))
}
