//! Requests at a rate, however long each takes.

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

/// For how many seconds one arm sends before it is the next one's turn.
const TURN: usize = 5;

/// A request that was answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answered<T> {
    /// When it was due.
    pub(super) due: Instant,
    /// How long after that it was answered: one that waits for others is late.
    pub(super) took: Duration,
    /// What it came to.
    pub(super) value: T,
}

/// Sends `count` requests, by their numbers, so many a second.
pub(super) async fn at_rate<F, T>(
    rate: usize,
    count: usize,
    request: impl Fn(usize) -> F,
) -> Result<Vec<Answered<T>>>
where
    F: Future<Output = Result<T>> + Send + 'static,
    T: Send + 'static,
{
    let mut every = interval(Duration::from_secs(1) / u32::try_from(rate).context("a rate")?);
    let mut sent = JoinSet::new();
    for number in 0..count {
        let due = every.tick().await;
        let request = request(number);
        sent.spawn(async move { request.await.map(|value| Answered { due, took: due.elapsed(), value }) });
    }
    let mut answered = Vec::new();
    while let Some(one) = sent.join_next().await {
        answered.push(one.context("a request ended early")??);
    }
    Ok(answered)
}

/// Creates the objects of these numbers at the rate.
pub(super) async fn create(
    hub: &Client,
    path: &str,
    rate: usize,
    numbers: Range<usize>,
    object: impl Fn(usize) -> Value,
) -> Result<Vec<Answered<()>>> {
    at_rate(rate, numbers.len(), |number| {
        let (hub, object) = (hub.clone(), object(numbers.start + number));
        let create = Requests::new(path).create(&PostParams::default(), object.to_string().into_bytes());
        async move {
            let create = raw::answered_by_metadata(create.context("making a create")?);
            hub.request::<IgnoredAny>(create).await.map(drop).context("creating an object")
        }
    })
    .await
}

/// Has each of `arms` send for some seconds in its turn, and returns how long its requests took.
pub(super) async fn take_turns<const ARMS: usize>(
    options: &Options,
    arms: [&'static str; ARMS],
    mut send: impl AsyncFnMut(&'static str, Range<usize>) -> Result<Vec<Answered<()>>>,
) -> Result<[Vec<Duration>; ARMS]> {
    let mut took = arms.map(|_| Vec::new());
    let turn = turn(options);
    let turns = turns(options);
    // The first counts for nobody: connections are opened, and code is read.
    for number in 0..=turns {
        let numbers = number * turn..(number + 1) * turn;
        for arm in (0..ARMS).map(|arm| (arm + number) % ARMS) {
            let answered = send(arms[arm], numbers.clone()).await?;
            took[arm].extend(answered.iter().filter(|_| number > 0).map(|answered| answered.took));
        }
        progress(&format!("{} a second: turn {number} of {turns}", options.rate));
    }
    Ok(took)
}

/// How many requests a turn has.
pub(super) fn turn(options: &Options) -> usize {
    options.rate * options.load.min(TURN)
}

/// How many turns there are.
pub(super) fn turns(options: &Options) -> usize {
    options.load.div_ceil(TURN)
}
