//! R8: an OPA server with many documents is killed and restarts without data. Measures the time until decisions
//! work again, in comparison with a bare client that uploads the same modules and data.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use http::Method;
use policy_sync_hub::json_client::{CredentialFiles, JsonClient};
use policy_sync_testenv::Opa;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::documents::{self, PODS, Variety};
use super::hub::{LIMIT, MeasuredHub};
use super::rego_policies::{self, Reviewer};
use super::report::{Measure, progress};
use super::sample::Sample;
use super::{Options, apps};

/// The namespace whose apps are placed.
const NAMESPACE: &str = "refilled";
/// Poll interval for OPA's port.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Goal for the time as a multiple of the bare client's time.
const GOAL: f64 = 3.0;

/// Measures the time from the start of OPA's new listener until an app is placed, as a multiple of a bare
/// client's upload.
pub(super) async fn measure(hub: &MeasuredHub, options: &Options) -> Result<Vec<Measure>> {
    rego_policies::set(hub).await?;
    documents::fill(&hub.client, options.documents, Variety::Different).await?;
    let (mut opa, mut bare) = (Opa::start().await?, Opa::start().await?);
    let at = format!("--opa-url={}", opa.url());
    let reviewer = Reviewer::start(hub, NAMESPACE, options.documents, &[at, rego_policies::exempt()]).await?;
    apps::placed(&hub.client, NAMESPACE).await.context("before OPA is killed")?;
    let contents = contents(&opa).await?;
    let (mut raw, mut filled) = (Vec::new(), Vec::new());
    for run in 1..=options.runs {
        bare.start_again().await?;
        let pushed = push(&bare, &contents).await?;
        bare.kill();
        let decided = time_to_recover(hub, &mut opa).await?;
        progress(&format!(
            "OPA back {run} of {}: raw push {pushed:.3?}, decisions after {decided:.3?}",
            options.runs
        ));
        raw.push(pushed);
        filled.push(decided);
        // OPA must be idle before it is killed again.
        hub.quiet().await?;
    }
    reviewer.stop(hub).await?;
    documents::clear(&hub.client, PODS, documents::namespaces()).await?;
    let what = format!("OPA killed and back, {} documents: decisions again", options.documents);
    Ok(vec![Measure::ratio("R8", what, &Sample::seconds(&filled), &Sample::seconds(&raw), GOAL)])
}

/// Kills and restarts OPA. Returns the time from the start of the new listener until an app is placed.
async fn time_to_recover(hub: &MeasuredHub, opa: &mut Opa) -> Result<Duration> {
    let address = opa.url().replace("http://", "");
    opa.kill();
    let (started, listens, placed) =
        tokio::join!(opa.start_again(), listens(&address), apps::placed(&hub.client, NAMESPACE));
    started?;
    Ok(placed?.saturating_duration_since(listens?))
}

/// Reads the controller's modules and data from OPA, as paths and bodies of uploads.
async fn contents(opa: &Opa) -> Result<Vec<(String, Vec<u8>)>> {
    let (_, listed) = opa.ask("GET", "/v1/policies", Vec::new()).await?;
    let mut contents = Vec::new();
    for policy in listed["result"].as_array().into_iter().flatten() {
        let text = |field: &str| policy[field].as_str().unwrap_or_default();
        contents.push((format!("/v1/policies/{}", text("id")), text("raw").as_bytes().to_vec()));
    }
    ensure!(!contents.is_empty(), "OPA has no policies");
    // OPA rejects calls of functions that it does not have yet, so the module that calls functions of all other modules
    // is the last one.
    contents.sort_by_key(|(path, _)| path.ends_with("/policysync/installed"));
    let (_, data) = opa.ask("GET", "/v1/data/kubernetes", Vec::new()).await?;
    ensure!(data["result"]["pods"].is_object(), "OPA has no pods");
    contents.push(("/v1/data/kubernetes".to_owned(), serde_json::to_vec(&data["result"])?));
    Ok(contents)
}

/// Uploads `contents` one by one to an empty OPA. Returns the elapsed time.
async fn push(opa: &Opa, contents: &[(String, Vec<u8>)]) -> Result<Duration> {
    let client = JsonClient::new(opa.url().parse()?, CredentialFiles::default())?;
    // The uploads are copied before the measurement starts.
    let put = |(path, body): &(String, Vec<u8>)| (path.clone(), body.clone());
    let puts: Vec<_> = contents.iter().map(put).collect();
    let began = Instant::now();
    for (path, body) in puts {
        let answer = client.send_once(Method::PUT, &path, body.into(), LIMIT).await?;
        ensure!(answer.status.is_success(), "{}", client.status_error(&answer));
    }
    Ok(began.elapsed())
}

/// Waits until a server listens at `address`. Returns the time at which it listens.
async fn listens(address: &str) -> Result<Instant> {
    let connected = async {
        while TcpStream::connect(address).await.is_err() {
            sleep(POLL_INTERVAL).await;
        }
        Instant::now()
    };
    timeout(LIMIT, connected).await.context("OPA does not accept connections")
}
