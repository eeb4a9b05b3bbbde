//! The scenario without faults: each step ends in the expected state, the controller converges and stops
//! writing, and a restart writes nothing.

use anyhow::{Context, Result, ensure};
use policy_sync_testenv::fixtures::tls_secret;
use policy_sync_testenv::memory::Faultless;
use serde_json::{Value, json};

use crate::hub::{Hub, SHOP, USER};
use crate::oracle::State;
use crate::scenario;

/// For each step of the scenario: the names of the hub objects with works for `eu-1`, and with works for `us-1`. Access
/// works are omitted.
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

/// The objects with a work on each cluster, in the format of [`STEPS`].
fn works(state: &State) -> (String, String) {
    let of = |cluster: &str| {
        let names = state.works().filter_map(|(name, _)| name.strip_prefix(cluster)?.split_once('-'));
        names.map(|(_, name)| name).collect::<Vec<_>>().join(" ")
    };
    (of("eu-1/"), of("us-1/"))
}

/// The manifest with this kind and name in the work `<cluster>/<kind>-<name>`.
fn manifest_in_work<'s>(state: &'s State, work: &str, (kind, name): (&str, &str)) -> Result<&'s Value> {
    let (_, work) = state.works().find(|(name, _)| *name == work).context("the work does not exist")?;
    let manifests = work["spec"]["workload"]["manifests"].as_array().context("the work has no manifests")?;
    let is_meant = |found: &&Value| found["kind"] == kind && found["metadata"]["name"] == name;
    manifests.iter().find(is_meant).context("the manifest does not exist")
}

/// The limit in the copy on a cluster.
fn limit(state: &State, cluster: &str) -> Result<Value> {
    let copy =
        manifest_in_work(state, &format!("{cluster}/ratelimitpolicy-limits"), ("RateLimitPolicy", "limits"))?;
    Ok(copy["spec"]["limits"]["all"]["rates"][0]["limit"].clone())
}

fn check_final_state((eu, us): (&str, &str), state: &State) {
    assert_eq!(works(state), (eu.to_owned(), us.to_owned()));
}

#[tokio::test(start_paused = true)]
async fn each_step_of_the_scenario_ends_in_the_expected_state() -> Result<()> {
    let hub = Hub::new(&scenario::parameters()).await?;
    scenario::prepare(&hub).await?;
    hub.controller(Faultless)?;
    let steps = scenario::play(&hub).await?;
    assert_eq!(steps.len(), STEPS.len());
    for (number, (step, expected)) in steps.iter().zip(STEPS).enumerate() {
        check_final_state(expected, &step.state);
        // Step 1 updates the definition of ManifestWork.
        let is_scraped = |work: &Value| work["spec"]["manifestConfigs"][0]["feedbackScrapeType"] == "Poll";
        ensure!(
            step.state.works().all(|(_, work)| is_scraped(work) == (number > 0)),
            "step {number}: unexpected feedbackScrapeType"
        );
    }
    // Step 3 overrides the limit on one cluster. Step 4 rotates the certificate, and grants the use of another
    // certificate. Step 8 revokes the grant.
    assert_eq!((limit(&steps[3].state, "eu-1")?, limit(&steps[3].state, "us-1")?), (json!(20), json!(5)));
    for (step, key) in [(&steps[3], "first"), (&steps[4], "second")] {
        let secret = manifest_in_work(&step.state, "us-1/gateway-web", ("Secret", "certificate"))?;
        assert_eq!(secret["data"], tls_secret(SHOP, "certificate", key)["data"]);
    }
    for (step, granted) in [(3, false), (4, true), (7, true), (8, false), (9, true)] {
        let secret = manifest_in_work(&steps[step].state, "us-1/gateway-web", ("Secret", "shared"));
        ensure!(secret.is_ok() == granted, "step {step}: the copy of the Secret does not match the grant");
    }
    hub.settled().await?;
    check_final_state(SETTLED, &State::of(&hub));
    // AuthPolicies are no longer listed and have no annotation of the controller, so their watch has ended.
    let watches = || hub.server.count(|request| request.user == USER && request.resource == "authpolicies");
    let before = watches();
    ensure!(before > 0);
    hub.quiet().await?;
    ensure!(watches() == before, "the controller still watches AuthPolicies");
    let refused: Vec<String> =
        hub.writes().iter().filter(|request| request.code >= 300).map(ToString::to_string).collect();
    ensure!(refused.is_empty(), "the hub rejected {refused:?}");
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
    check_final_state(SETTLED, &State::of(&hub));
    Ok(())
}
