//! W4: the time from the start until a page with many policies is complete.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kube::Client;
use kube::api::ListParams;
use kube::core::ObjectList;
use kube::core::request::Request as Requests;
use policy_sync_api::object::HubObject;

use super::world::{annotate_all, pages};
use crate::Options;
use crate::hub::MeasuredHub;
use crate::report::{Measure, progress};
use crate::sample::Sample;

const GOAL: f64 = 1.3;
/// Page size of the raw list with which a start is compared. The lists of `policy-sync web` have the same page size.
const PAGE: u32 = 500;
/// Number of clusters in the annotations of each policy.
const CLUSTERS: usize = 3;
/// Poll interval for the page.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Measures starts of the web server and raw lists in turns.
pub(crate) async fn measure(hub: &mut MeasuredHub, options: &Options) -> Result<Vec<Measure>> {
    let policies = hub.policies;
    progress(&format!("{} policies", options.objects));
    hub.set_policies(options.objects).await?;
    let few = hub.clusters[..hub.clusters.len().min(CLUSTERS)].to_vec();
    annotate_all(hub, &few).await?;
    let (mut ready, mut listed) = (Vec::new(), Vec::new());
    for _ in 0..options.runs {
        ready.push(start(hub).await?);
        listed.push(list(hub).await?);
    }
    hub.set_policies(policies).await?;
    let what = format!("all shown after a start, {} policies, over a lister", options.objects);
    Ok(vec![Measure::ratio("W4", what, &Sample::seconds(&ready), &Sample::seconds(&listed), GOAL)])
}

/// The time from the start of the web server until the page shows that all policies have been read.
async fn start(hub: &MeasuredHub) -> Result<Duration> {
    let began = Instant::now();
    let shown = pages(hub, None).await;
    let all = format!("{} policies", hub.policies);
    loop {
        // A filter that matches no policies gives the smallest page that shows the total.
        let page = shown.get("/?namespace=nobody").await?;
        if page.body.contains(&all) && !page.body.contains("Still being read") {
            return Ok(began.elapsed());
        }
        ensure!(began.elapsed() < crate::hub::LIMIT, "{}", page.body);
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// The time to list the policies in pages on a new connection, and to decode them.
async fn list(hub: &MeasuredHub) -> Result<Duration> {
    let began = Instant::now();
    let client = Client::try_from(hub.hub().client_config()).context("creating a client")?;
    let (mut params, mut found) = (ListParams::default().limit(PAGE), 0);
    loop {
        let requests = Requests::new("/apis/kuadrant.io/v1/ratelimitpolicies");
        let request = requests.list_metadata(&params).context("building a list request")?;
        let page: ObjectList<HubObject> = client.request(request).await.context("listing policies")?;
        found += page.items.len();
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => break,
        }
    }
    ensure!(found == hub.policies, "{found} policies, expected {}", hub.policies);
    Ok(began.elapsed())
}
