//! R3: creates of apps at a constant rate, each with a review. The reviewer is the controller with many documents, or
//! one of two raw webhooks. One raw webhook allows the app; the other adds the controller's annotations to the app.

use anyhow::{Context, Result};
use kube::Client;
use kube::api::PostParams;
use kube::core::request::Request as Requests;
use serde_json::{Value, json};

use super::allowing::{AllowWebhook, MUTATING};
use super::documents::{self, DEPLOYMENTS, PODS, Variety};
use super::hub::MeasuredHub;
use super::pace::{create, take_turns};
use super::rego_policies::{self, Reviewer};
use super::report::Measure;
use super::sample::Sample;
use super::{Options, apps};

/// The namespace whose apps the controller places.
const PLACED: &str = "placed";
/// The namespace whose apps the raw webhook allows.
const ALLOWED: &str = "allowed";
/// The namespace whose apps the patching raw webhook changes.
const CHANGED: &str = "changed";
/// All namespaces of this row.
const ARMS: [&str; 3] = [PLACED, ALLOWED, CHANGED];
/// Goal for the duration of a create as a multiple of the duration with the raw webhook.
const RATIO_GOAL: f64 = 1.3;
/// Goal for the additional duration of a create compared with the raw webhook, in milliseconds.
const MORE_GOAL: f64 = 5.0;

/// Measures creates with the controller and with the raw webhooks.
pub(super) async fn measure(hub: &MeasuredHub, options: &Options) -> Result<Vec<Measure>> {
    rego_policies::set(hub).await?;
    documents::fill(&hub.client, options.documents, Variety::Different).await?;
    let reviewer = Reviewer::start(hub, PLACED, options.documents, &[rego_policies::exempt()]).await?;
    let allowing = AllowWebhook::start(&hub.client, ALLOWED, DEPLOYMENTS, &[MUTATING], None).await?;
    let patch = patch(&hub.client).await?;
    let changing = AllowWebhook::start(&hub.client, CHANGED, DEPLOYMENTS, &[MUTATING], Some(&patch)).await?;
    let took = take_turns(options, ARMS, async |namespace, numbers| {
        let app = |number| apps::app(namespace, &format!("app-{number:06}"));
        create(&hub.client, &DEPLOYMENTS.within(namespace), options.rate, numbers, app).await
    })
    .await?;
    reviewer.stop(hub).await?;
    allowing.stop(&hub.client).await?;
    changing.stop(&hub.client).await?;
    let namespaces = ARMS.map(str::to_owned).into_iter();
    documents::clear(&hub.client, DEPLOYMENTS, namespaces).await?;
    documents::clear(&hub.client, PODS, documents::namespaces()).await?;
    let [placed, allowed, changed] = took.map(|took| Sample::seconds(&took));
    let changed = format!("; {} where it changes as much", spread(&changed));
    Ok(over_raw("R3", options.rate, &placed, &allowed, &changed))
}

/// The controller's annotations of an app, as a patch.
async fn patch(hub: &Client) -> Result<Value> {
    let app = serde_json::to_vec(&apps::app(PLACED, "patch"))?;
    let create = Requests::new(DEPLOYMENTS.within(PLACED)).create(&PostParams::default(), app);
    let placed: Value =
        hub.request(create.context("building a create request")?).await.context("creating an app")?;
    let annotations = &placed["metadata"]["annotations"];
    Ok(json!([{"op": "add", "path": "/metadata/annotations", "value": annotations}]))
}

/// Compares the durations of creates that the controller reviewed with the durations of creates that a raw webhook
/// reviewed.
pub(super) fn over_raw(
    id: &'static str,
    rate: usize,
    reviewed: &Sample,
    allowed: &Sample,
    more: &str,
) -> Vec<Measure> {
    let p99 = |sample: &Sample| 1e3 * sample.quantile(0.99);
    let what = format!("p99 of creates at {rate} a second");
    let all = format!("{} against {}{more}", spread(reviewed), spread(allowed));
    let (ratio, more) = (p99(reviewed) / p99(allowed), p99(reviewed) - p99(allowed));
    vec![
        Measure::at_most(id, format!("{what}, over a raw webhook's"), ratio, "×", RATIO_GOAL).detail(&all),
        Measure::at_most(id, format!("{what}, more than a raw webhook's"), more, "ms", MORE_GOAL).detail(all),
    ]
}

/// Median and 99th percentile of seconds as text.
pub(super) fn spread(sample: &Sample) -> String {
    format!("p50 {:.1} ms, p99 {:.1} ms", 1e3 * sample.median(), 1e3 * sample.quantile(0.99))
}
