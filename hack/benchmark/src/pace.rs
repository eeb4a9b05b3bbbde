//! Sends requests at a constant rate, independent of their durations.

use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, Result};
use kube::Client;
use kube::api::PostParams;
use kube::core::request::Request as Requests;
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval};

use super::Options;
use super::raw;
use super::report::progress;

/// Duration of a turn, in seconds.
const TURN: usize = 5;

/// A completed request.
#[derive(Clone, Copy, Debug)]
pub(super) struct CompletedRequest<T> {
    /// When the request was due.
    pub(super) due: Instant,
    /// The time from the due time to the response, which includes delays before sending.
    pub(super) took: Duration,
    /// The result of the request.
    pub(super) value: T,
}

/// Sends `count` numbered requests at `rate` per second.
pub(super) async fn at_rate<F, T>(
    rate: usize,
    count: usize,
    request: impl Fn(usize) -> F,
) -> Result<Vec<CompletedRequest<T>>>
where
    F: Future<Output = Result<T>> + Send + 'static,
    T: Send + 'static,
{
    let mut every = interval(Duration::from_secs(1) / u32::try_from(rate).context("the rate is too large")?);
    let mut sent = JoinSet::new();
    for number in 0..count {
        let due = every.tick().await;
        let request = request(number);
        sent.spawn(
            async move { request.await.map(|value| CompletedRequest { due, took: due.elapsed(), value }) },
        );
    }
    let mut completed = Vec::new();
    while let Some(one) = sent.join_next().await {
        completed.push(one.context("a request panicked")??);
    }
    Ok(completed)
}

/// Creates the objects with these numbers, `rate` per second.
pub(super) async fn create(
    hub: &Client,
    path: &str,
    rate: usize,
    numbers: Range<usize>,
    object: impl Fn(usize) -> Value,
) -> Result<Vec<CompletedRequest<()>>> {
    at_rate(rate, numbers.len(), |number| {
        let (hub, object) = (hub.clone(), object(numbers.start + number));
        let create = Requests::new(path).create(&PostParams::default(), object.to_string().into_bytes());
        async move {
            let create = raw::with_metadata_response(create.context("building a create request")?);
            hub.request::<IgnoredAny>(create).await.map(drop).context("creating an object")
        }
    })
    .await
}

/// Each of `arms` sends requests in turn. Returns the durations of the requests of each arm.
pub(super) async fn take_turns<const ARMS: usize>(
    options: &Options,
    arms: [&'static str; ARMS],
    mut send: impl AsyncFnMut(&'static str, Range<usize>) -> Result<Vec<CompletedRequest<()>>>,
) -> Result<[Vec<Duration>; ARMS]> {
    let mut took = arms.map(|_| Vec::new());
    let turn = turn(options);
    let turns = turns(options);
    // The first turn is a warm-up: it opens connections and loads code.
    for number in 0..=turns {
        let numbers = number * turn..(number + 1) * turn;
        for arm in (0..ARMS).map(|arm| (arm + number) % ARMS) {
            let completed = send(arms[arm], numbers.clone()).await?;
            took[arm].extend(completed.iter().filter(|_| number > 0).map(|completed| completed.took));
        }
        progress(&format!("{} a second: turn {number} of {turns}", options.rate));
    }
    Ok(took)
}

/// Number of requests in a turn.
pub(super) fn turn(options: &Options) -> usize {
    options.rate * options.load.min(TURN)
}

/// Number of turns.
pub(super) fn turns(options: &Options) -> usize {
    options.load.div_ceil(TURN)
}
