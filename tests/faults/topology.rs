//! The stored topology under faults. After each fault, the ConfigMap and the statuses of Gateways and routes
//! must again match the hub, entries of other controllers must be unchanged, and writing must stop.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::api::{DeleteParams, Patch, PatchParams};
use policy_sync_testenv::apply::{api_for, apply};
use policy_sync_testenv::fixtures::topology::{object, targets};
use policy_sync_testenv::memory::fault_plan::{EVENT_FAULTS, Faults, Plan, REQUEST_FAULTS};
use policy_sync_testenv::memory::{Attackers, MemoryServer, RequestInfo, keep_topology};
use policy_sync_testenv::{fixtures, tenant};
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::sweep::{attackers_of, chosen, each};

const USER: &str = "topology";
const CONTROLLER: &str = "example.com/topology";
const THEIRS: &str = "example.com/theirs";
/// A time limit that is longer than one watch lasts.
const LIMIT: Duration = Duration::from_secs(300);
/// The limit until all checks pass after the last fault: the longest backoff, and the time between two
/// writes.
const SOON: Duration = Duration::from_secs(75);

/// The interval between two moves of the attackers.
const ATTACK_EVERY: Duration = Duration::from_secs(2);
/// The number of plans that are played beside attackers.
const BESIDE_ATTACKERS: usize = 8;

/// An action of a user or of another controller.
#[derive(Clone, Copy, Debug)]
enum UserAction {
    Route(&'static str, &'static str),
    DeleteRoute(&'static str),
    Limit(&'static str, (&'static str, &'static str), u32),
    DeleteLimit(&'static str),
    Listeners(&'static [&'static str]),
    /// Another controller adds an entry to a route's status.
    AddForeignEntry(&'static str),
    /// A user removes this controller's entry from a route's status.
    RemoveOwnEntry(&'static str),
    /// A user edits the ConfigMap.
    EditConfigMap,
    /// A user deletes the ConfigMap.
    DeleteConfigMap,
    /// A route changes its listener and soon changes back, while the first status write may still be in
    /// transit.
    ChangeAndRevert(&'static str, [&'static str; 2]),
}

/// The delay before [`UserAction::ChangeAndRevert`]. It is longer than the interval between writes of the ConfigMap.
const BEFORE_REVERT: Duration = Duration::from_secs(12);
const REVERT_AFTER: Duration = Duration::from_secs(3);

const STORY: [UserAction; 15] = [
    UserAction::Route("orders", "http"),
    UserAction::Limit("top", ("Gateway", "web"), 1),
    UserAction::AddForeignEntry("orders"),
    UserAction::Route("carts", "https"),
    UserAction::Limit("top", ("Gateway", "web"), 2),
    UserAction::Listeners(&["http", "https"]),
    UserAction::RemoveOwnEntry("orders"),
    UserAction::Limit("own", ("HTTPRoute", "carts"), 1),
    UserAction::EditConfigMap,
    UserAction::AddForeignEntry("carts"),
    UserAction::DeleteLimit("top"),
    UserAction::DeleteConfigMap,
    UserAction::DeleteRoute("orders"),
    UserAction::Route("carts", "none"),
    UserAction::ChangeAndRevert("carts", ["http", "none"]),
];

struct Hub {
    server: MemoryServer,
    /// The entries of the other controller, by route.
    theirs: BTreeMap<&'static str, Value>,
    /// Whether attackers write to the hub.
    attacked: bool,
}

fn gateway(listeners: &[&str]) -> Value {
    let listeners: Vec<Value> = (80..)
        .zip(listeners)
        .map(|(port, name)| json!({"name": name, "port": port, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "Same"}}}))
        .collect();
    object("Gateway", ("shop", "web"), json!({"gatewayClassName": "topology", "listeners": listeners}))
}

impl Hub {
    async fn act(&mut self, act: UserAction) -> Result<()> {
        let client = self.server.client();
        let route = |name: &str, listener: &str| {
            let parent = json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "web", "sectionName": listener});
            object("HTTPRoute", ("shop", name), json!({"parentRefs": [parent], "rules": [{}]}))
        };
        let limit = |name: &str, (kind, target): (&str, &str), limit: u32| {
            let limits = json!({"x": {"rates": [{"limit": limit, "window": "1s"}]}});
            object(
                "RateLimitPolicy",
                ("shop", name),
                json!({"targetRef": targets(kind, target), "limits": limits}),
            )
        };
        let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "topology", "namespace": "default"}});
        match act {
            UserAction::Route(name, listener) => drop(apply(&client, &route(name, listener)).await?),
            UserAction::DeleteRoute(name) => {
                self.theirs.remove(name);
                delete(&client, &route(name, "")).await?;
            }
            UserAction::Limit(name, target, number) => {
                drop(apply(&client, &limit(name, target, number)).await?)
            }
            UserAction::DeleteLimit(name) => delete(&client, &limit(name, ("Gateway", "web"), 0)).await?,
            UserAction::Listeners(names) => drop(apply(&client, &gateway(names)).await?),
            UserAction::AddForeignEntry(name) => {
                let entry = json!({"controllerName": THEIRS, "parentRef": {"name": "theirs", "odd": [name]}, "conditions": []});
                let (routes, key) = api_for(&client, &route(name, "")).await?;
                let found = routes.get(&key).await?;
                let mut parents = found.data["status"]["parents"].as_array().cloned().unwrap_or_default();
                parents.insert(0, entry.clone());
                let patch = json!({"status": {"parents": parents}});
                routes.patch_status(&key, &PatchParams::default(), &Patch::Merge(patch)).await?;
                self.theirs.insert(name, entry);
            }
            UserAction::RemoveOwnEntry(name) => {
                let (routes, key) = api_for(&client, &route(name, "")).await?;
                let parents: Vec<&Value> = self.theirs.get(name).into_iter().collect();
                let patch = json!({"status": {"parents": parents}});
                routes.patch_status(&key, &PatchParams::default(), &Patch::Merge(patch)).await?;
            }
            UserAction::EditConfigMap => {
                let (maps, name) = api_for(&client, &config_map).await?;
                let patch = json!({"data": {"topology": "digraph {}"}});
                maps.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
            }
            UserAction::DeleteConfigMap => delete(&client, &config_map).await?,
            UserAction::ChangeAndRevert(name, [first, then]) => {
                sleep(BEFORE_REVERT).await;
                apply(&client, &route(name, first)).await?;
                sleep(REVERT_AFTER).await;
                apply(&client, &route(name, then)).await?;
            }
        }
        Ok(())
    }

    /// Waits until [`Self::is_reported`] succeeds.
    async fn until(&self, limit: Duration) -> Result<()> {
        let start = Instant::now();
        while let Err(wrong) = self.is_reported() {
            ensure!(start.elapsed() < limit, "{wrong:#}\nrequests:\n{}", self.server.log_of(USER));
            sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    }

    /// Checks that the ConfigMap and the statuses match the hub, and that entries of other controllers are
    /// unchanged.
    fn is_reported(&self) -> Result<()> {
        if self.attacked {
            self.server.check_statuses(CONTROLLER, |kind| kind == "RateLimitPolicy", "shop")?;
        } else {
            self.server.check_topology(CONTROLLER, |_| true)?;
        }
        let objects = self.server.objects();
        let of_shop =
            |object: &&Value| object["kind"] == "HTTPRoute" && object["metadata"]["namespace"] == "shop";
        for route in objects.values().filter(of_shop) {
            let name = route["metadata"]["name"].as_str().unwrap_or_default();
            let parents = route["status"]["parents"].as_array().into_iter().flatten();
            let others: Vec<&Value> = parents.filter(|entry| entry["controllerName"] != CONTROLLER).collect();
            ensure!(
                others.iter().copied().eq(self.theirs.get(name)),
                "the entries of other controllers in {name} are {others:?}"
            );
        }
        Ok(())
    }

    fn writes(&self) -> usize {
        self.server.count(|request: &RequestInfo| {
            request.user == USER && request.is_write() && request.resource != "events"
        })
    }
}

async fn delete(client: &kube::Client, object: &Value) -> Result<()> {
    let (api, name) = api_for(client, object).await?;
    api.delete(&name, &DeleteParams::default()).await?;
    Ok(())
}

/// A hub with a Gateway, and a controller with `--topology` that runs until the token is cancelled.
async fn start(faults: &Faults) -> Result<(Hub, CancellationToken)> {
    let server = MemoryServer::hub()?;
    server.define_routes()?;
    let client = server.client();
    apply(&client, &fixtures::namespace("shop")).await?;
    let params = json!({"policiesToSync": [tenant::rate_limit_policies()]});
    apply(&client, &fixtures::params_config_map("shop", "params", &params)).await?;
    apply(&client, &fixtures::gateway_class("topology", CONTROLLER, Some(("shop", "params")))).await?;
    apply(&client, &gateway(&["http"])).await?;
    let mut flow = server.flow_of(USER, CONTROLLER, faults.clone())?;
    keep_topology(&mut flow)?;
    let stop = CancellationToken::new();
    flow.start(stop.clone());
    Ok((Hub { server, theirs: BTreeMap::new(), attacked: false }, stop))
}

/// Performs the actions of [`STORY`] under `faults`, beside attackers if `attack` has a seed.
async fn play(faults: &Faults, attack: Option<u64>) -> Result<()> {
    let (mut hub, stop) = start(faults).await?;
    let server = hub.server.clone();
    let attack = match attack {
        Some(seed) => Some(Attackers::begin(&server, seed, ATTACK_EVERY, &[]).await?),
        None => None,
    };
    hub.attacked = attack.is_some();
    let over = faults.over(&server, LIMIT);
    let story = async {
        hub.until(LIMIT + SOON).await?;
        for act in STORY {
            hub.act(act).await?;
            hub.until(LIMIT + SOON).await.with_context(|| format!("{act:?}"))?;
        }
        Ok(())
    };
    // Attackers change the requests, so the request with the fault may never be sent.
    match faults.plan() {
        Some(_) if attack.is_none() => drop(tokio::try_join!(story, over)?),
        _ => story.await?,
    }
    if let Some(attack) = attack {
        attack.end().await?;
    }
    hub.until(SOON).await?;
    sleep(SOON).await;
    let writes = hub.writes();
    sleep(LIMIT).await;
    ensure!(hub.writes() == writes, "the controller still writes:\n{}", hub.server.log_of(USER));
    hub.until(Duration::ZERO).await?;
    stop.cancel();
    Ok(())
}

/// Runs `story` in its own runtime with paused time.
fn run_paused<T>(story: impl Future<Output = Result<T>>) -> Result<T> {
    Builder::new_current_thread().enable_time().start_paused(true).build()?.block_on(story)
}

fn played(faults: &Faults) -> Result<()> {
    run_paused(play(faults, None))
}

/// Removes a route's status entry after each write for the duration `lasts`, and returns the number of
/// writes.
async fn count_rewrites(lasts: Duration) -> Result<usize> {
    let (mut hub, stop) = start(&Faults::default()).await?;
    hub.act(UserAction::Route("orders", "http")).await?;
    hub.until(SOON).await?;
    let (written, began) = (hub.writes(), Instant::now());
    while began.elapsed() < lasts {
        if hub.is_reported().is_ok() {
            hub.act(UserAction::RemoveOwnEntry("orders")).await?;
        }
        sleep(Duration::from_millis(100)).await;
    }
    let written = hub.writes() - written;
    hub.until(SOON).await?;
    stop.cancel();
    Ok(written)
}

#[test]
fn repeatedly_removed_status_is_written_every_ten_seconds() -> Result<()> {
    let written = run_paused(count_rewrites(Duration::from_secs(100)))?;
    ensure!((8..=12).contains(&written), "the status was written {written} times in 100 s");
    Ok(())
}

/// Selects the `plans` that disturb requests or events of the topology.
fn about_topology(plans: Vec<Plan>) -> Vec<Plan> {
    let about = [
        "httproutes",
        "configmaps default",
        "gateways/status",
        "event of gateways",
        "event of configmaps",
        "gatewayclasses",
    ];
    let of_topology = |plan: &Plan| about.iter().any(|what| plan.at.contains(what));
    plans.into_iter().filter(of_topology).collect()
}

/// Plays a sample of the `plans` for the topology.
fn sweep(plans: Vec<Plan>) -> Result<()> {
    let plans = chosen(about_topology(plans))?;
    each(&plans, |plan| played(&Faults::of(plan)).map(|()| String::new()))
}

#[test]
fn stored_topology_matches_the_hub() -> Result<()> {
    played(&Faults::default())
}

#[test]
fn stored_topology_matches_the_hub_after_any_fault_of_a_request() -> Result<()> {
    let faults = Faults::default();
    played(&faults)?;
    let plans = faults.request_plans();
    ensure!(plans.len() > 40 * REQUEST_FAULTS.len(), "only {} plans", plans.len());
    sweep(plans)
}

#[test]
fn stored_topology_matches_the_hub_after_any_fault_of_an_event() -> Result<()> {
    let faults = Faults::default();
    played(&faults)?;
    let plans = faults.event_plans();
    ensure!(plans.len() > 40 * EVENT_FAULTS.len(), "only {} plans", plans.len());
    sweep(plans)
}

#[test]
fn statuses_of_others_are_right_beside_a_hostile_tenant_and_faults() -> Result<()> {
    let faults = Faults::default();
    played(&faults)?;
    let plans = about_topology([faults.request_plans(), faults.event_plans()].concat());
    let every = plans.len().div_ceil(BESIDE_ATTACKERS);
    let plans: Vec<Plan> = plans.into_iter().step_by(every).collect();
    each(&plans, |plan| run_paused(play(&Faults::of(plan), Some(attackers_of(plan)))).map(|()| String::new()))
}
