//! G3: the duration of an authorization review, and the additional duration of requests that the API server sends
//! for review.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use http::{Method, Request, StatusCode};
use kube::Client;
use policy_sync_hub::json_client::{CredentialFiles, JsonClient, Token};
use policy_sync_testenv::apply::apply;
use policy_sync_testenv::authorization::TOKEN;
use policy_sync_testenv::wait;
use serde::de::IgnoredAny;
use serde_json::json;

use super::authorizer::{Authorizer, client_of};
use crate::Options;
use crate::creates::spread;
use crate::hub::{LIMIT, MeasuredHub};
use crate::modules;
use crate::pace::{at_rate, take_turns};
use crate::rego_policies;
use crate::report::{Measure, progress};
use crate::sample::Sample;

/// The namespace whose objects are read.
const NAMESPACE: &str = "authorized";
/// Number of Rego policies.
const POLICIES: usize = 10;
/// The user whose requests are reviewed.
const REVIEWED_USER: &str = "jane";
/// A user whose requests are not reviewed: the configuration of the API server exempts all names with the prefix
/// `system:` except ServiceAccounts.
const UNREVIEWED_USER: &str = "system:unasked";
/// Rate of reviews as a multiple of [`Options::rate`]: numerator and denominator.
const FASTER: (usize, usize) = (5, 2);
/// Goal for a review, in milliseconds.
const REVIEW_GOAL: f64 = 2.0;
/// Goal for the additional duration of a reviewed request, in milliseconds.
const MORE_GOAL: f64 = 5.0;

/// Measures reviews, and requests with and without a review.
pub(crate) async fn measure(hub: &MeasuredHub, options: &Options) -> Result<Vec<Measure>> {
    rego_policies::set_policies(hub, &modules::authorizing(POLICIES)).await?;
    let authorizer = Authorizer::start(hub, NAMESPACE, POLICIES).await?;
    let rate = options.rate * FASTER.0 / FASTER.1;
    progress(&format!("{rate} reviews a second"));
    let reviews = reviews(&authorizer, rate, rate * options.load).await?;

    let objects = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "read", "namespace": NAMESPACE}});
    apply(&hub.client, &objects).await?;
    let clients = [
        (REVIEWED_USER, client_of(hub, REVIEWED_USER).await?),
        (UNREVIEWED_USER, client_of(hub, UNREVIEWED_USER).await?),
    ];
    for (_, client) in &clients {
        wait::until("the user is authorized", LIMIT, || read(client)).await?;
    }
    let took = take_turns(options, [REVIEWED_USER, UNREVIEWED_USER], async |user, numbers| {
        let client = clients.iter().find(|(name, _)| *name == user).map(|(_, client)| client.clone());
        let client = client.context("no client of the user")?;
        at_rate(options.rate, numbers.len(), |_| {
            let client = client.clone();
            async move { read(&client).await }
        })
        .await
    })
    .await?;
    authorizer.stop(hub).await?;
    let [with, without] = took.map(|took| Sample::seconds(&took));
    let p99 = |sample: &Sample| 1e3 * sample.quantile(0.99);
    Ok(vec![
        Measure::at_most("G3", format!("review at {rate} a second, p99"), p99(&reviews), "ms", REVIEW_GOAL)
            .detail(format!("{}, with TLS, from a client beside it", spread(&reviews))),
        Measure::at_most(
            "G3",
            format!("p99 of reads at {} a second, more than without", options.rate),
            p99(&with) - p99(&without),
            "ms",
            MORE_GOAL,
        )
        .detail(format!("{} against {}", spread(&with), spread(&without))),
    ])
}

async fn read(client: &Client) -> Result<()> {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/read");
    let request = Request::get(path).body(Vec::new()).context("building a get request")?;
    client.request::<IgnoredAny>(request).await.map(drop).context("reading an object")
}

/// The durations of reviews at this rate.
async fn reviews(authorizer: &Authorizer, rate: usize, count: usize) -> Result<Sample> {
    let address = format!("https://localhost:{}", authorizer.webhooks.port());
    let files = CredentialFiles {
        token: Some(Token::Text(TOKEN.into())),
        authority: Some(authorizer.files.path("ca.crt")),
        identity: None,
    };
    let client = JsonClient::new(address.parse()?, files)?;
    let took = at_rate(rate, count, |number| {
        let (client, body) = (client.clone(), review(number).into_bytes());
        async move {
            let began = Instant::now();
            let answer = client.send_once(Method::POST, "/authorize", body.into(), LIMIT).await?;
            ensure!(answer.status == StatusCode::OK, "{}", client.status_error(&answer));
            Ok(began.elapsed())
        }
    });
    let took: Vec<_> = took.await?.into_iter().map(|completed| completed.value).collect();
    Ok(Sample::seconds(&took))
}

/// The API server's review of a read by a user.
fn review(number: usize) -> String {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {},
        "spec": {
            "user": REVIEWED_USER, "groups": ["dev", "system:authenticated"],
            "resourceAttributes": {"namespace": NAMESPACE, "verb": "get", "version": "v1", "resource": "configmaps",
                "name": format!("read-{number}")},
        },
    });
    review.to_string()
}
