//! The baseline: sends prepared requests with a fixed concurrency, and does nothing else.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use http::{HeaderValue, Request, header};
use kube::Client;
use kube::api::ListParams;
use kube::core::ObjectList;
use kube::core::request::Request as Requests;
use parking_lot::Mutex;
use policy_sync_api::work::ManifestWork;
use serde::de::IgnoredAny;
use tokio::task::JoinSet;

use super::report::progress;

/// Concurrencies to try.
pub(super) const CONCURRENCIES: [usize; 5] = [8, 16, 32, 64, 128];
/// Page sizes for lists to try.
const PAGES: [u32; 3] = [100, 250, 500];
/// The value of `Accept` with which the API server returns only metadata. The controller sends the same value.
const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// The path of the works of all clusters.
pub(super) const WORKS: &str = "/apis/work.open-cluster-management.io/v1/manifestworks";

pub(super) type PreparedRequest = Request<Vec<u8>>;

/// Requests for the works of `cluster`.
pub(super) fn works_of(cluster: &str) -> Requests {
    Requests::new(format!("/apis/work.open-cluster-management.io/v1/namespaces/{cluster}/manifestworks"))
}

/// Limits the response to metadata.
pub(super) fn with_metadata_response(mut request: PreparedRequest) -> PreparedRequest {
    request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static(METADATA_ONLY));
    request
}

/// Sends all requests, `at_once` at a time. Returns the time from the first request to the last response.
pub(super) async fn send(
    client: &Client,
    requests: Vec<PreparedRequest>,
    at_once: usize,
) -> Result<Duration> {
    let waiting = Arc::new(Mutex::new(requests.into_iter()));
    let mut senders = JoinSet::new();
    let started = Instant::now();
    for _ in 0..at_once {
        let (client, waiting) = (client.clone(), waiting.clone());
        senders.spawn(async move {
            loop {
                let Some(request) = waiting.lock().next() else { return anyhow::Ok(()) };
                client.request::<IgnoredAny>(request).await.context("sending a raw request")?;
            }
        });
    }
    while let Some(sent) = senders.join_next().await {
        sent.context("a raw writer panicked")??;
    }
    Ok(started.elapsed())
}

/// Finds the concurrency with the shortest `time`.
pub(super) async fn best(mut time: impl AsyncFnMut(usize) -> Result<Duration>) -> Result<usize> {
    let mut best = (Duration::MAX, 1);
    for at_once in CONCURRENCIES {
        let took = time(at_once).await?;
        progress(&format!("raw, {at_once} at once: {:.3} s", took.as_secs_f64()));
        best = best.min((took, at_once));
    }
    Ok(best.1)
}

/// Lists and decodes the works with `labels`. Returns the best time of several page sizes, and the number of
/// works.
pub(super) async fn list(config: &kube::Config, labels: &str) -> Result<(Duration, usize)> {
    let mut best = (Duration::MAX, 0);
    for page in PAGES {
        best = best.min(list_by(config, labels, page).await?);
    }
    Ok(best)
}

async fn list_by(config: &kube::Config, labels: &str, page: u32) -> Result<(Duration, usize)> {
    let started = Instant::now();
    // A new connection, as in a process that starts.
    let client = Client::try_from(config.clone()).context("creating a client")?;
    let mut params = ListParams::default().labels(labels).limit(page);
    let mut found = 0;
    loop {
        let request = Requests::new(WORKS).list(&params).context("building a list request")?;
        let works: ObjectList<ManifestWork> = client.request(request).await.context("listing works")?;
        found += works.items.len();
        match works.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok((started.elapsed(), found)),
        }
    }
}
