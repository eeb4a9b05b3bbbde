//! Without faults: each step ends as it should, it converges and then writes nothing, it starts again without a write,
//! and it can be elected.

use anyhow::{Context, Result, ensure};
use policy_sync_testenv::fixtures::tls_secret;
use policy_sync_testenv::memory::Faultless;
use serde_json::{Value, json};

use crate::hub::{Hub, SHOP, USER};
use crate::oracle::State;
use crate::scenario;

/// What has a work at the end of each step, access apart: in `eu-1`, and in `us-1`.
const STEPS: [(&str, &str); 17] = [
    ("web", "api web"),
    ("web", "api web"),
    ("app web limits timeouts", "auth app api web limits timeouts"),
    ("app web limits timeouts", "auth app api web limits timeouts"),
    ("app web limits timeouts", "auth app api web limits timeouts"),
    ("app web limits timeouts", "auth api timeouts"),
    ("app web limits timeouts", "auth app api web limits timeouts"),
    ("app web timeouts", "auth app api web limits timeouts"),
    ("app web timeouts", "auth app api web limits timeouts"),
    ("app web timeouts", "auth app api web limits timeouts"),
    ("app web timeouts", "auth app api web limits timeouts"),
    ("app web timeouts", "auth app api web limits"),
    ("app web timeouts", "auth app api web limits timeouts"),
    ("app web timeouts", "auth app api web limits"),
    ("app web timeouts", "app api web limits"),
    ("web timeouts", "api web timeouts"),
    SETTLED,
];
const SETTLED: (&str, &str) = ("web timeouts", "web timeouts");

/// What has a work in each cluster, as [`STEPS`] says it.
fn works(state: &State) -> (String, String) {
    let of = |cluster: &str| {
        let names = state.works().filter_map(|(name, _)| name.strip_prefix(cluster)?.split_once('-'));
        names.map(|(_, name)| name).collect::<Vec<_>>().join(" ")
    };
    (of("eu-1/"), of("us-1/"))
}

/// What the work of that name, `<cluster>/<kind>-<name>`, carries of that kind and name.
fn carried<'s>(state: &'s State, work: &str, (kind, name): (&str, &str)) -> Result<&'s Value> {
    let (_, work) = state.works().find(|(name, _)| *name == work).context("there is no such work")?;
    let manifests = work["spec"]["workload"]["manifests"].as_array().context("no manifests")?;
    let is_meant = |found: &&Value| found["kind"] == kind && found["metadata"]["name"] == name;
    manifests.iter().find(is_meant).context("no such manifest")
}

/// The limit that a cluster gets.
fn limit(state: &State, cluster: &str) -> Result<Value> {
    let copy = carried(state, &format!("{cluster}/ratelimitpolicy-limits"), ("RateLimitPolicy", "limits"))?;
    Ok(copy["spec"]["limits"]["all"]["rates"][0]["limit"].clone())
}

fn ends_as((eu, us): (&str, &str), state: &State) {
    assert_eq!(works(state), (eu.to_owned(), us.to_owned()));
}

#[tokio::test(start_paused = true)]
async fn the_scenario_settles() -> Result<()> {
    let hub = Hub::new(&scenario::parameters()).await?;
    scenario::prepare(&hub).await?;
    hub.controller(Faultless)?;
    let steps = scenario::play(&hub).await?;
    assert_eq!(steps.len(), STEPS.len());
    for (number, (step, expected)) in steps.iter().zip(STEPS).enumerate() {
        ends_as(expected, &step.state);
        // Step 1 updates the definition of ManifestWork.
        let is_scraped = |work: &Value| work["spec"]["manifestConfigs"][0]["feedbackScrapeType"] == "Poll";
        ensure!(step.state.works().all(|(_, work)| is_scraped(work) == (number > 0)), "step {number}");
    }
    // Step 3 overrides what one cluster gets, and step 4 rotates the certificate and grants another, which 8 withdraws.
    assert_eq!((limit(&steps[3].state, "eu-1")?, limit(&steps[3].state, "us-1")?), (json!(20), json!(5)));
    for (step, key) in [(&steps[3], "first"), (&steps[4], "second")] {
        let secret = carried(&step.state, "us-1/gateway-web", ("Secret", "certificate"))?;
        assert_eq!(secret["data"], tls_secret(SHOP, "certificate", key)["data"]);
    }
    for (step, granted) in [(3, false), (4, true), (7, true), (8, false), (9, true)] {
        let secret = carried(&steps[step].state, "us-1/gateway-web", ("Secret", "shared"));
        ensure!(secret.is_ok() == granted, "at the end of step {step}");
    }
    hub.settled().await?;
    ends_as(SETTLED, &State::of(&hub));
    // AuthPolicies are listed no more and have no annotation of ours any more: nobody watches them on.
    let watches = || hub.server.count(|asked| asked.user == USER && asked.resource == "authpolicies");
    let before = watches();
    ensure!(before > 0);
    hub.quiet().await?;
    ensure!(watches() == before, "they are asked for on");
    let refused: Vec<String> =
        hub.writes().iter().filter(|asked| asked.code >= 300).map(ToString::to_string).collect();
    ensure!(refused.is_empty(), "the hub refused {refused:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_restart_in_a_settled_hub_writes_nothing() -> Result<()> {
    let hub = Hub::new(&scenario::parameters()).await?;
    scenario::prepare(&hub).await?;
    let controller = hub.elected(Faultless)?;
    scenario::play(&hub).await?;
    hub.settled().await?;
    controller.terminate().await?;
    let before = hub.writes().len();
    ensure!(before > 0);
    hub.elected(Faultless)?;
    hub.settled().await?;
    assert_eq!(hub.writes().len(), before);
    ends_as(SETTLED, &State::of(&hub));
    Ok(())
}
