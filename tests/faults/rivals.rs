//! Policies target Gateways of two controllers. One controller annotates a policy, and the other reports
//! `OtherController`.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::api::{Api, DeleteParams};
use policy_sync_api::names::ControllerName;
use policy_sync_api::work::ManifestWork;
use policy_sync_controller::server::ServerState;
use policy_sync_testenv::fixtures::{gateway, gateway_class, timeout_policy};
use policy_sync_testenv::memory::Faultless;
use policy_sync_testenv::tenant::all_kinds;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::hub::{CONTROLLER, Hub, SHOP};

/// The number of policies.
const POLICIES: usize = 60;
const MINUTE: Duration = Duration::from_secs(60);

/// A running controller and the user it runs as.
struct Rival {
    user: &'static str,
    name: ControllerName,
    served: ServerState,
    stop: CancellationToken,
}

impl Rival {
    fn start(hub: &Hub, user: &'static str, name: &str) -> Result<Self> {
        let flow = hub.server.flow_of(user, name, Faultless)?;
        let (stop, served) = (CancellationToken::new(), flow.server_state());
        drop(flow.start(stop.clone()));
        Ok(Self { user, name: ControllerName::new(name), served, stop })
    }

    fn writes(&self, hub: &Hub) -> usize {
        let counts = |resource: &str| !matches!(resource, "leases" | "events");
        hub.server
            .count(|request| request.user == self.user && request.is_write() && counts(&request.resource))
    }

    fn reports(&self, policies: usize) -> bool {
        let line =
            format!("policy_sync_problems{{category=\"OtherController\",freezes=\"false\"}} {policies}\n");
        self.served.metrics().contains(&line)
    }
}

/// Both controllers, ordered by the names of their field managers.
fn both(hub: &Hub) -> Result<[Rival; 2]> {
    let mut rivals = [Rival::start(hub, "one", CONTROLLER)?, Rival::start(hub, "two", "example.com/other")?];
    rivals.sort_by_key(|rival| rival.name.hub_field_manager());
    Ok(rivals)
}

/// A hub with one Gateway of each controller's class, and policies that target both Gateways.
async fn shared() -> Result<Hub> {
    let hub = Hub::new(&all_kinds()).await?;
    hub.apply(&gateway_class("other", "example.com/other", Some((SHOP, "params")))).await?;
    hub.place("all", &["eu-1"]).await?;
    hub.apply(&gateway(SHOP, "web", SHOP, Some("all"))).await?;
    hub.apply(&gateway(SHOP, "api", "other", Some("all"))).await?;
    for number in 0..POLICIES {
        hub.apply(&timeout_policy(SHOP, &format!("timeouts-{number}"), &["web", "api"])).await?;
    }
    Ok(hub)
}

/// For each policy, the field managers that own its annotations.
fn owners(hub: &Hub) -> Vec<BTreeSet<String>> {
    let policies = hub.server.objects().into_values().filter(|object| object["kind"] == "TimeoutPolicy");
    let of_one = |policy: serde_json::Value| {
        let fields = policy["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        let managers =
            fields.into_iter().filter(|entry| entry.to_string().contains("f:kuadrant.io/policies-synced"));
        managers.map(|entry| entry["manager"].as_str().unwrap_or_default().to_owned()).collect()
    };
    policies.map(of_one).collect()
}

fn all_of(hub: &Hub, rival: &Rival) -> bool {
    owners(hub).iter().all(|owners| *owners == BTreeSet::from([rival.name.hub_field_manager()]))
}

#[tokio::test(start_paused = true)]
async fn of_two_controllers_the_first_by_name_annotates_and_the_other_reports() -> Result<()> {
    let hub = shared().await?;
    let [first, last] = both(&hub)?;
    sleep(MINUTE).await;
    ensure!(all_of(&hub, &first), "{:?}", owners(&hub));
    hub.until(MINUTE, |_| last.reports(POLICIES)).await?;
    ensure!(!first.reports(POLICIES), "{}", first.served.metrics());
    ensure!(hub.events().iter().any(|event| event.starts_with("OtherController: ")), "{:?}", hub.events());
    // The controllers stop writing.
    let before = first.writes(&hub) + last.writes(&hub);
    sleep(MINUTE * 10).await;
    ensure!(first.writes(&hub) + last.writes(&hub) == before, "the controllers still write");

    // A controller that does not return, and whose works are deleted, no longer owns annotations.
    first.stop.cancel();
    sleep(MINUTE).await;
    ensure!(all_of(&hub, &first), "annotations have another owner while works of the first controller exist");
    let works: Api<ManifestWork> = Api::namespaced(hub.server.client(), "eu-1");
    for work in works.list(&Default::default()).await?.items {
        let labels = work.metadata.labels.context("the work has no labels")?;
        if labels["kuadrant.io/controller"] == first.name.hash() {
            works
                .delete(&work.metadata.name.context("the work has no name")?, &DeleteParams::default())
                .await?;
        }
    }
    hub.until(MINUTE * 2, |hub| all_of(hub, &last)).await?;
    hub.until(MINUTE, |_| last.reports(0)).await.map(drop)
}

#[tokio::test(start_paused = true)]
async fn first_controller_by_name_takes_over_annotations_when_it_starts() -> Result<()> {
    let hub = shared().await?;
    let [first, last] = both(&hub)?;
    first.stop.cancel();
    hub.until(MINUTE, |hub| all_of(hub, &last)).await?;
    let name = if first.user == "one" { CONTROLLER } else { "example.com/other" };
    let first = Rival::start(&hub, first.user, name)?;
    hub.until(MINUTE * 2, |hub| all_of(hub, &first)).await?;
    sleep(MINUTE).await;
    ensure!(all_of(&hub, &first) && last.reports(POLICIES), "{:?}", owners(&hub));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn controller_with_works_takes_precedence_over_one_without() -> Result<()> {
    for nowhere in ["web", "api"] {
        let hub = shared().await?;
        let class = if nowhere == "web" { SHOP } else { "other" };
        hub.apply(&gateway(SHOP, nowhere, class, None)).await?;
        hub.place("none", &[]).await?;
        hub.apply(&gateway(SHOP, nowhere, class, Some("none"))).await?;
        let rivals = both(&hub)?;
        let user = if nowhere == "web" { "two" } else { "one" };
        let wins =
            rivals.iter().find(|rival| rival.user == user).context("no controller runs as this user")?;
        sleep(MINUTE * 3).await;
        ensure!(all_of(&hub, wins), "{nowhere}: {:?}", owners(&hub));
        let writes = || rivals.iter().map(|rival| rival.writes(&hub)).sum::<usize>();
        let before = writes();
        sleep(MINUTE * 10).await;
        ensure!(writes() == before, "the controllers still write");
    }
    Ok(())
}
