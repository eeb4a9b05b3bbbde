//! Tests that two electors never lead at the same time, even if the hub is slow, fails, or loses requests and
//! responses.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::super::Leadership;
use super::{Elector, ElectorOptions};
use crate::clock::Clock;

const DURATION: Duration = Duration::from_secs(15);
const RIVALS: usize = 3;
/// The time limit of a test. It is longer than all pauses together.
const LIMIT: Duration = Duration::from_secs(40 * 40 * 3);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// How the hub treats a request: the delays of request and response in milliseconds, or the failure.
#[derive(Clone, Copy, Debug)]
enum RequestOutcome {
    Response(u64, u64),
    ResponseLost(u64),
    Lost,
    Failed,
}

fn outcomes() -> impl Strategy<Value = RequestOutcome> {
    prop_oneof![
        6 => (0u64..100, 0u64..100).prop_map(|(there, back)| RequestOutcome::Response(there, back)),
        2 => (0u64..20_000, 0u64..5_000).prop_map(|(there, back)| RequestOutcome::Response(there, back)),
        1 => (0u64..20_000).prop_map(RequestOutcome::ResponseLost),
        1 => Just(RequestOutcome::Lost),
        1 => Just(RequestOutcome::Failed),
    ]
}

/// A hub with one Lease. Once the `outcomes` are used up, it works normally.
#[derive(Clone, Default)]
struct Hub {
    lease: Arc<Mutex<(u64, Option<Value>)>>,
    outcomes: Arc<Mutex<Vec<RequestOutcome>>>,
}

impl Hub {
    fn serve(&self, method: &Method, body: &[u8]) -> (u16, Value) {
        let refused = |code: u16| {
            let reason = if code == 404 { "NotFound" } else { "Conflict" };
            let metadata = json!({});
            (
                code,
                json!({"kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": "Failure",
                          "message": reason, "reason": reason, "code": code}),
            )
        };
        let mut guard = self.lease.lock().unwrap();
        let (version, lease) = &mut *guard;
        if method == Method::GET {
            return lease.clone().map_or_else(|| refused(404), |lease| (200, lease));
        }
        let mut sent: Value = serde_json::from_slice(body).unwrap();
        match lease {
            Some(_) if method == Method::POST => return refused(409),
            Some(lease) if sent["metadata"]["resourceVersion"] != lease["metadata"]["resourceVersion"] => {
                return refused(409);
            }
            None if method == Method::PUT => return refused(404),
            _ => {}
        }
        *version += 1;
        sent["metadata"]["resourceVersion"] = json!(version.to_string());
        *lease = Some(sent.clone());
        (200, sent)
    }

    fn client(&self) -> Client {
        let hub = self.clone();
        let serve = move |request: Request<Body>| {
            let hub = hub.clone();
            // The request is served in its own task, because a request arrives even if the client no longer waits.
            let serving = tokio::spawn(async move {
                let outcome = hub.outcomes.lock().unwrap().pop().unwrap_or(RequestOutcome::Response(1, 1));
                let (there, back) = match outcome {
                    RequestOutcome::Response(there, back) => (there, Some(back)),
                    RequestOutcome::ResponseLost(there) => (there, None),
                    RequestOutcome::Lost => std::future::pending().await,
                    RequestOutcome::Failed => {
                        return (500, json!({"kind": "Status", "status": "Failure", "code": 500}));
                    }
                };
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await.unwrap();
                sleep(Duration::from_millis(there)).await;
                let response = hub.serve(&parts.method, &body);
                match back {
                    Some(back) => sleep(Duration::from_millis(back)).await,
                    None => std::future::pending().await,
                }
                response
            });
            async move {
                let (code, body) = serving.await.unwrap();
                let response =
                    Response::builder().status(code).body(Body::from(body.to_string().into_bytes()));
                response.map_err(std::io::Error::other)
            }
        };
        Client::new(tower::service_fn(serve), "default")
    }

    fn elector(&self) -> (Elector, Leadership) {
        let options =
            ElectorOptions { namespace: "default".to_owned(), name: "lease".to_owned(), duration: DURATION };
        Elector::new(self.client(), options, Clock::start())
    }
}

/// Runs an elector forever, with pauses as if the process were suspended.
async fn run_forever(mut elector: Elector, mut pauses: Vec<u64>) {
    loop {
        let wait = elector.attempt().await;
        sleep(wait.max(Duration::from_millis(pauses.pop().unwrap_or(0)))).await;
    }
}

async fn rivals(outcomes: Vec<RequestOutcome>, pauses: Vec<Vec<u64>>) -> Result<(), TestCaseError> {
    let hub = Hub { outcomes: Arc::new(Mutex::new(outcomes)), ..Hub::default() };
    let mut leaderships = Vec::new();
    let mut tasks = tokio::task::JoinSet::new();
    for pauses in pauses {
        let (elector, leadership) = hub.elector();
        leaderships.push(leadership);
        tasks.spawn(run_forever(elector, pauses));
    }
    let leaders = || leaderships.iter().filter(|leadership| leadership.leads()).count();
    let well = loop {
        sleep(POLL_INTERVAL).await;
        prop_assert!(leaders() <= 1, "two lead");
        if hub.outcomes.lock().unwrap().is_empty() {
            break Instant::now();
        }
    };
    // After the last fault, an elector must become the leader. It may take a while, because lost requests end only
    // after their time limit, and pauses continue.
    while leaders() == 0 || well.elapsed() < 4 * DURATION {
        sleep(POLL_INTERVAL).await;
        prop_assert!(leaders() <= 1, "two lead");
        prop_assert!(well.elapsed() < LIMIT, "none leads");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn never_more_than_one_leads_and_eventually_one_does(
        outcomes in prop::collection::vec(outcomes(), 0..120),
        pauses in prop::collection::vec(
            prop::collection::vec(prop_oneof![9 => Just(0u64), 1 => 0u64..40_000], 0..40), RIVALS),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(rivals(outcomes, pauses))?;
    }
}

#[tokio::test(start_paused = true)]
async fn released_lease_is_taken_within_two_seconds() {
    let hub = Hub::default();
    let (mut leader, leads) = hub.elector();
    let (follower, follows) = hub.elector();
    leader.attempt().await;
    assert!(leads.leads());
    tokio::spawn(run_forever(follower, Vec::new()));
    sleep(DURATION).await;
    leader.attempt().await;
    assert!(leads.leads() && !follows.leads());
    leader.release().await;
    sleep(Duration::from_secs(2)).await;
    assert!(follows.leads());
}

#[tokio::test(start_paused = true)]
async fn rejected_renewal_ends_the_term_only_if_another_holds_the_lease() {
    let hub = Hub::default();
    let (mut leader, leads) = hub.elector();
    leader.attempt().await;
    // A user adds a label to the Lease. This creates a newer version with the same holder.
    {
        let mut lease = hub.lease.lock().unwrap();
        lease.0 += 1;
        let version = lease.0.to_string();
        lease.1.as_mut().unwrap()["metadata"]["resourceVersion"] = json!(version);
    }
    leader.attempt().await;
    assert!(leads.leads());
    leader.attempt().await;
    assert!(leads.leads() && leader.held.is_some());
    hub.lease.lock().unwrap().1.as_mut().unwrap()["spec"]["holderIdentity"] = json!("another");
    hub.lease.lock().unwrap().1.as_mut().unwrap()["metadata"]["resourceVersion"] = json!("99");
    leader.attempt().await;
    leader.attempt().await;
    assert!(!leads.leads());
}
