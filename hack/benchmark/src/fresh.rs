//! R5: a document changes while other documents change constantly. Measures the delay until decisions use the
//! change, and the processor time for all updates.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use kube::Client;
use kube::api::{Patch, PatchParams};
use kube::core::request::Request as Requests;
use policy_sync_testenv::apply::apply;
use serde::de::IgnoredAny;
use serde_json::json;

use super::documents::{self, PODS, Variety};
use super::hub::{LIMIT, MeasuredHub};
use super::pace::at_rate;
use super::rego_policies::{self, Reviewer};
use super::report::{Measure, progress};
use super::sample::Sample;
use super::usage::processor_time;
use super::{Options, apps, raw};

/// The namespace whose apps are placed.
const NAMESPACE: &str = "fresh";
/// Goal for the delay until decisions use a change, in milliseconds.
const KNOWN_GOAL: f64 = 200.0;
/// Goal for the processor time, in percent of a core.
const SHARE_GOAL: f64 = 15.0;

/// Measures the delay of documents and the processor time of updates.
pub(super) async fn measure(hub: &MeasuredHub, options: &Options) -> Result<Vec<Measure>> {
    rego_policies::set(hub).await?;
    documents::fill(&hub.client, options.documents, Variety::Different).await?;
    let reviewer = Reviewer::start(hub, NAMESPACE, options.documents, &[rego_policies::exempt()]).await?;
    progress(&format!("{} changes a second for {} s", options.rate, options.load));
    let share = processor_share(hub, reviewer.controller.pid(), options).await?;
    progress(&format!("{} documents are measured during the changes", options.changes));
    let known = tokio::select! {
        known = known(hub, options.changes) => known?,
        ended = change(&hub.client, options, usize::MAX) => bail!("the changes ended: {ended:?}"),
    };
    reviewer.stop(hub).await?;
    documents::clear(&hub.client, PODS, documents::namespaces()).await?;
    let known = Sample::new(known.iter().map(|took| 1e3 * took.as_secs_f64()));
    let what = format!("{} changes a second", options.rate);
    Ok(vec![
        Measure::at_most(
            "R5",
            format!("until a document is known, {what}, p99"),
            known.quantile(0.99),
            "ms",
            KNOWN_GOAL,
        )
        .detail(format!("p50 {:.1} ms, at most {:.1} ms", known.median(), known.max())),
        Measure::at_most("R5", format!("{what}, of a core"), share, "%", SHARE_GOAL),
    ])
}

/// Processor time of the process `pid` while documents change and no reviews run, in percent of a core.
async fn processor_share(hub: &MeasuredHub, pid: u32, options: &Options) -> Result<f64> {
    let (before, began) = (processor_time(pid)?, Instant::now());
    change(&hub.client, options, options.rate * options.load).await?;
    Ok(100.0 * (processor_time(pid)? - before).as_secs_f64() / began.elapsed().as_secs_f64())
}

/// Changes pods at the given rate.
async fn change(hub: &Client, options: &Options, count: usize) -> Result<()> {
    let documents = options.documents;
    let changed = at_rate(options.rate, count, |number| {
        let (hub, index) = (hub.clone(), number % documents);
        async move {
            let pod = documents::pod(index, Variety::Different);
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            let patch = Patch::Merge(json!({"metadata": {"labels": {"turn": number.to_string()}}}));
            let pods = Requests::new(PODS.within(&documents::namespace(index)));
            let patch =
                pods.patch(name, &PatchParams::default(), &patch).context("building a patch request")?;
            let patch = raw::with_metadata_response(patch);
            hub.request::<IgnoredAny>(patch).await.map(drop).context("patching a pod")
        }
    });
    changed.await.map(drop)
}

/// Changes the label of a cluster several times, and returns the delays until placements change.
async fn known(hub: &MeasuredHub, changes: usize) -> Result<Vec<Duration>> {
    let mut known = Vec::with_capacity(changes);
    for number in 0..changes {
        let is_certified = number % 2 == 1;
        let cluster = documents::cluster_of(0, is_certified);
        let name = cluster["metadata"]["name"].as_str().unwrap_or_default();
        apply(&hub.client, &cluster).await?;
        let written = Instant::now();
        while apps::place(&hub.client, NAMESPACE, number).await?.contains(name) != is_certified {
            ensure!(written.elapsed() < LIMIT, "the placement does not reflect the change of {name}");
        }
        known.push(written.elapsed());
    }
    Ok(known)
}
