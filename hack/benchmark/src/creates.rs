//! R3: apps are created at a rate, and each is reviewed: by the controller among many documents, by a raw webhook, or by one that changes
//! it as the controller does.

use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, Result};
use kube::Client;
use kube::api::PostParams;
use kube::core::request::Request as Requests;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::allowing::Allowing;
use super::documents::{self, DEPLOYMENTS, PODS, Variety};
use super::hub::MeasuredHub;
use super::pace::at_rate;
use super::policed::{self, Reviewing};
use super::report::{Measure, progress};
use super::sample::Sample;
use super::{Options, apps, raw};

/// The namespace whose apps the controller places.
const PLACED: &str = "placed";
/// The namespace whose apps the raw webhook allows.
const ALLOWED: &str = "allowed";
/// The namespace whose apps another raw webhook changes.
const CHANGED: &str = "changed";
/// All of them.
const ARMS: [&str; 3] = [PLACED, ALLOWED, CHANGED];
/// For how many seconds apps of one of them are created before it is the next one's turn.
const TURN: usize = 5;
/// How many times longer than with the raw webhook a create may take.
const RATIO_GOAL: f64 = 1.3;
/// And how much longer, in milliseconds.
const MORE_GOAL: f64 = 5.0;

/// How long creates take with the controller, beside those with the raw webhook.
pub(super) async fn measure(hub: &MeasuredHub, options: &Options) -> Result<Vec<Measure>> {
    policed::set(hub).await?;
    documents::fill(&hub.client, options.documents, Variety::Different).await?;
    let reviewing = Reviewing::start(hub, PLACED, options.documents, &[]).await?;
    let allowing = Allowing::start(&hub.client, ALLOWED, None).await?;
    let changing = Allowing::start(&hub.client, CHANGED, Some(&patch(&hub.client).await?)).await?;
    let mut took = ARMS.map(|_| Vec::new());
    let turn = options.rate * options.load.min(TURN);
    let turns = options.load.div_ceil(TURN);
    // The first counts for nobody: connections are opened, and code is read.
    for number in 0..=turns {
        let numbers = number * turn..(number + 1) * turn;
        for arm in (0..ARMS.len()).map(|arm| (arm + number) % ARMS.len()) {
            let all = create(&hub.client, ARMS[arm], options.rate, numbers.clone()).await?;
            took[arm].extend(if number == 0 { Vec::new() } else { all });
        }
        progress(&format!("creates at {} a second: turn {number} of {turns}", options.rate));
    }
    reviewing.stop(hub).await?;
    allowing.stop(&hub.client).await?;
    changing.stop(&hub.client).await?;
    let namespaces = ARMS.map(str::to_owned).into_iter();
    documents::clear(&hub.client, DEPLOYMENTS, namespaces).await?;
    documents::clear(&hub.client, PODS, documents::namespaces()).await?;
    Ok(compare(options.rate, &took.map(|took| Sample::seconds(&took))))
}

/// What the controller makes of an app, as a patch.
async fn patch(hub: &Client) -> Result<Value> {
    let app = serde_json::to_vec(&apps::app(PLACED, "patch"))?;
    let create = Requests::new(DEPLOYMENTS.within(PLACED)).create(&PostParams::default(), app);
    let placed: Value = hub.request(create.context("making a create")?).await.context("creating an app")?;
    let annotations = &placed["metadata"]["annotations"];
    Ok(json!([{"op": "add", "path": "/metadata/annotations", "value": annotations}]))
}

/// Creates the apps of these numbers, and returns how long each took.
async fn create(
    hub: &Client,
    namespace: &'static str,
    rate: usize,
    numbers: Range<usize>,
) -> Result<Vec<Duration>> {
    at_rate(rate, numbers.len(), |number| {
        let (hub, number) = (hub.clone(), numbers.start + number);
        async move {
            let app = serde_json::to_vec(&apps::app(namespace, &format!("app-{number:06}")))?;
            let create = Requests::new(DEPLOYMENTS.within(namespace)).create(&PostParams::default(), app);
            let create = raw::answered_by_metadata(create.context("making a create")?);
            hub.request::<IgnoredAny>(create).await.map(drop).context("creating an app")
        }
    })
    .await
}

fn compare(rate: usize, [placed, allowed, changed]: &[Sample; 3]) -> Vec<Measure> {
    let p99 = |sample: &Sample| 1e3 * sample.quantile(0.99);
    let what = format!("p99 of creates at {rate} a second");
    let spread = |sample: &Sample| format!("p50 {:.1} ms, p99 {:.1} ms", 1e3 * sample.median(), p99(sample));
    let all = format!(
        "{} against {}; {} where it changes as much",
        spread(placed),
        spread(allowed),
        spread(changed)
    );
    let (ratio, more) = (p99(placed) / p99(allowed), p99(placed) - p99(allowed));
    vec![
        Measure::at_most("R3", format!("{what}, over a raw webhook's"), ratio, "×", RATIO_GOAL).detail(&all),
        Measure::at_most("R3", format!("{what}, more than a raw webhook's"), more, "ms", MORE_GOAL)
            .detail(all),
    ]
}
