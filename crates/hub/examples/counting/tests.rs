//! Tests the capability on an API server in memory. Simulates each fault at each request and each watch event of the
//! capability.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams};
use policy_sync_testenv::apply::apply;
use policy_sync_testenv::memory::fault_plan::{EVENT_FAULTS, Faults, Plan, REQUEST_FAULTS};
use policy_sync_testenv::memory::{MemoryServer, RequestInfo};
use serde_json::json;
use tokio::runtime::Builder;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::counting::{self, COUNT};

/// The user that the capability runs as.
const USER: &str = "counting";
/// The maximum duration of a fault. It is longer than one watch.
const LIMIT: Duration = Duration::from_secs(300);
/// The time within which all checks must pass after the last fault. It is longer than the longest backoff.
const RECOVERY: Duration = Duration::from_secs(65);
/// The time in which nothing is written at the end. It is longer than one watch, so that retries would be seen.
const QUIET: Duration = Duration::from_secs(350);

/// A user's action on a ConfigMap.
#[derive(Clone, Copy)]
enum UserAction {
    /// Writes the ConfigMap with this number of keys, with or without the label that requests a count.
    Write(&'static str, usize, bool),
    Delete(&'static str),
}

const ACTIONS: [UserAction; 7] = [
    UserAction::Write("asked", 2, true),
    UserAction::Write("unasked", 3, false),
    UserAction::Write("empty", 0, true),
    UserAction::Write("asked", 5, true),
    UserAction::Write("unasked", 1, true),
    UserAction::Delete("empty"),
    UserAction::Write("empty", 4, true),
];
/// The number of writes that the user actions require: one for each new count.
const WRITES: usize = 5;

#[derive(Clone)]
struct Hub {
    server: MemoryServer,
    config_maps: Api<ConfigMap>,
}

impl Hub {
    async fn perform(&self, action: UserAction, counts: &mut BTreeMap<String, usize>) -> Result<()> {
        match action {
            UserAction::Write(name, keys, labelled) => {
                let data: BTreeMap<String, &str> = (0..keys).map(|key| (format!("k{key}"), "")).collect();
                let labels = json!({"example.com/count": labelled.to_string()});
                let metadata = json!({"name": name, "namespace": "default", "labels": labels});
                let object =
                    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
                apply(&self.server.client(), &object).await?;
                counts.extend(labelled.then(|| (name.to_owned(), keys)));
            }
            UserAction::Delete(name) => {
                self.config_maps.delete(name, &DeleteParams::default()).await?;
                counts.remove(name);
            }
        }
        Ok(())
    }

    /// Waits until exactly the labelled ConfigMaps are annotated with their counts.
    async fn until(&self, counts: &BTreeMap<String, usize>, limit: Duration) -> Result<()> {
        let start = Instant::now();
        loop {
            let found = self.config_maps.list(&Default::default()).await?.items.into_iter();
            let found: BTreeMap<String, usize> = found
                .filter_map(|object| {
                    let count = object.metadata.annotations?.remove(COUNT)?;
                    Some((object.metadata.name?, count.parse().ok()?))
                })
                .collect();
            if found == *counts {
                return Ok(());
            }
            ensure!(start.elapsed() < limit, "{counts:?} are expected, and {found:?} are there");
            sleep(Duration::from_millis(200)).await;
        }
    }

    fn writes(&self) -> usize {
        self.server
            .count(|request: &RequestInfo| request.user == USER && request.is_write() && request.code == 200)
    }
}

/// Performs the user actions under `faults`. Returns the number of successful writes of the capability.
async fn run_actions(faults: &Faults) -> Result<usize> {
    let server = MemoryServer::new();
    let hub = Hub { config_maps: Api::namespaced(server.client(), "default"), server };
    let stop = CancellationToken::new();
    let client = hub.server.client_of(USER, faults.clone());
    let _watching = counting::start(client, hub.server.clock(), stop.clone())?;
    let (mut counts, over) = (BTreeMap::new(), faults.over(&hub.server, LIMIT));
    let actions = async {
        for action in ACTIONS {
            hub.perform(action, &mut counts).await?;
            hub.until(&counts, LIMIT + RECOVERY).await?;
        }
        Ok(())
    };
    match faults.plan() {
        Some(_) => drop(tokio::try_join!(actions, over)?),
        None => actions.await?,
    }
    hub.until(&counts, RECOVERY).await?;
    let writes = hub.writes();
    sleep(QUIET).await;
    ensure!(hub.writes() == writes, "it goes on writing");
    hub.until(&counts, Duration::ZERO).await?;
    stop.cancel();
    Ok(writes)
}

fn successful_writes(faults: &Faults) -> Result<usize> {
    Builder::new_current_thread().enable_time().start_paused(true).build()?.block_on(run_actions(faults))
}

fn sweep(plans: &[Plan], faults: &[&str]) {
    let tried: BTreeSet<&str> = plans.iter().map(|plan| plan.fault).collect();
    assert_eq!(tried.len(), faults.len(), "{tried:?}");
    for plan in plans {
        let writes = successful_writes(&Faults::of(plan)).with_context(|| plan.to_string()).unwrap();
        // A request without a response may have been executed, and is repeated. A late request can undo a
        // later write, which is then repeated too.
        assert!((WRITES..=WRITES + 2).contains(&writes), "{plan}: {writes} writes");
    }
}

#[test]
fn each_count_causes_one_write() {
    assert_eq!(successful_writes(&Faults::default()).unwrap(), WRITES);
}

#[test]
fn counts_are_correct_after_any_fault_of_a_request() {
    let faults = Faults::default();
    successful_writes(&faults).unwrap();
    sweep(&faults.request_plans(), &REQUEST_FAULTS.map(|(fault, _)| fault));
}

#[test]
fn counts_are_correct_after_any_fault_of_an_event() {
    let faults = Faults::default();
    successful_writes(&faults).unwrap();
    sweep(&faults.event_plans(), &EVENT_FAULTS.map(|(fault, _)| fault));
}
