//! The topology through faults: whatever goes wrong with a request or with an event, the ConfigMap and the statuses of Gateways and
//! routes soon say what the hub has, what others have written stays, and nothing is written any more.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::api::{DeleteParams, Patch, PatchParams};
use policy_sync::api::object::HubObject;
use policy_sync::topology::locator::{GATEWAY, GATEWAY_CLASS, HTTP_ROUTE, Locator};
use policy_sync::topology::objects::{Role, role};
use policy_sync::topology::stored::{self, LIMIT as TEXT_LIMIT, Stored, TopologyMetrics, text};
use policy_sync::topology::told::{RoutesTold, Said, affected};
use policy_sync::topology::{Graph, Objects};
use policy_sync_testenv::apply::{api_for, apply};
use policy_sync_testenv::fixtures::topology::{object, targets};
use policy_sync_testenv::memory::{Asked, MemoryServer};
use policy_sync_testenv::{fixtures, tenant};
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::plan::{Faults, OF_EVENTS, OF_REQUESTS, Plan};
use crate::sweep::{chosen, each};

const USER: &str = "topology";
const CONTROLLER: &str = "example.com/topology";
const THEIRS: &str = "example.com/theirs";
/// Longer than a watch lasts.
const LIMIT: Duration = Duration::from_secs(300);
/// How soon everything is as it should be, where nothing goes wrong any more: the longest backoff, and the time between two writes.
const SOON: Duration = Duration::from_secs(75);

/// Something that somebody does.
#[derive(Clone, Copy, Debug)]
enum Act {
    Route(&'static str, &'static str),
    Unroute(&'static str),
    Limit(&'static str, (&'static str, &'static str), u32),
    Unlimit(&'static str),
    Listeners(&'static [&'static str]),
    /// Another controller says something of a route.
    Theirs(&'static str),
    /// Somebody takes away what a route says.
    Strip(&'static str),
    /// Somebody writes into the ConfigMap.
    Scribble,
    /// Somebody deletes it.
    Unmap,
}

const STORY: [Act; 14] = [
    Act::Route("orders", "http"),
    Act::Limit("top", ("Gateway", "web"), 1),
    Act::Theirs("orders"),
    Act::Route("carts", "https"),
    Act::Limit("top", ("Gateway", "web"), 2),
    Act::Listeners(&["http", "https"]),
    Act::Strip("orders"),
    Act::Limit("own", ("HTTPRoute", "carts"), 1),
    Act::Scribble,
    Act::Theirs("carts"),
    Act::Unlimit("top"),
    Act::Unmap,
    Act::Unroute("orders"),
    Act::Route("carts", "none"),
];

struct Hub {
    server: MemoryServer,
    /// How many routes others have said something of.
    theirs: BTreeMap<&'static str, Value>,
}

fn gateway(listeners: &[&str]) -> Value {
    let listeners: Vec<Value> = (80..)
        .zip(listeners)
        .map(|(port, name)| json!({"name": name, "port": port, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "Same"}}}))
        .collect();
    object("Gateway", ("shop", "web"), json!({"gatewayClassName": "topology", "listeners": listeners}))
}

impl Hub {
    async fn act(&mut self, act: Act) -> Result<()> {
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
            Act::Route(name, listener) => drop(apply(&client, &route(name, listener)).await?),
            Act::Unroute(name) => {
                self.theirs.remove(name);
                delete(&client, &route(name, "")).await?;
            }
            Act::Limit(name, target, number) => drop(apply(&client, &limit(name, target, number)).await?),
            Act::Unlimit(name) => delete(&client, &limit(name, ("Gateway", "web"), 0)).await?,
            Act::Listeners(names) => drop(apply(&client, &gateway(names)).await?),
            Act::Theirs(name) => {
                let entry = json!({"controllerName": THEIRS, "parentRef": {"name": "theirs", "odd": [name]}, "conditions": []});
                let (routes, key) = api_for(&client, &route(name, "")).await?;
                let found = routes.get(&key).await?;
                let mut parents = found.data["status"]["parents"].as_array().cloned().unwrap_or_default();
                parents.insert(0, entry.clone());
                let patch = json!({"status": {"parents": parents}});
                routes.patch_status(&key, &PatchParams::default(), &Patch::Merge(patch)).await?;
                self.theirs.insert(name, entry);
            }
            Act::Strip(name) => {
                let (routes, key) = api_for(&client, &route(name, "")).await?;
                let parents: Vec<&Value> = self.theirs.get(name).into_iter().collect();
                let patch = json!({"status": {"parents": parents}});
                routes.patch_status(&key, &PatchParams::default(), &Patch::Merge(patch)).await?;
            }
            Act::Scribble => {
                let (maps, name) = api_for(&client, &config_map).await?;
                let patch = json!({"data": {"topology": "digraph {}"}});
                maps.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
            }
            Act::Unmap => delete(&client, &config_map).await?,
        }
        Ok(())
    }

    /// Waits until everything says what the hub has.
    async fn until(&self, limit: Duration) -> Result<()> {
        let start = Instant::now();
        while let Err(wrong) = self.is_told() {
            ensure!(start.elapsed() < limit, "{wrong:#}\nrequests:\n{}", self.requests());
            sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    }

    /// Whether the ConfigMap and all statuses are those of the graph of what there is.
    fn is_told(&self) -> Result<()> {
        let found: Vec<HubObject> = self
            .server
            .objects()
            .into_values()
            .filter_map(|object| serde_json::from_value(object).ok())
            .collect();
        let listed = [GATEWAY_CLASS, GATEWAY, HTTP_ROUTE].map(|kind| kind.to_kind());
        let mut objects = Objects::of_cluster(listed.into());
        let is_read = |object: &&HubObject| !matches!(role(object), Role::None | Role::Definition);
        for object in found.iter().filter(is_read) {
            objects.take(object).map_err(|fault| anyhow::anyhow!("{fault}"))?;
        }
        let facts = objects.facts();
        let graph = Graph::build(&facts);
        let expected = text(&graph, TEXT_LIMIT).dot;
        let stored =
            found.iter().find(|object| object.kind == "ConfigMap" && object.metadata.name == "topology");
        let stored: BTreeMap<String, String> = stored.context("there is no ConfigMap")?.data_as();
        ensure!(
            stored["topology"] == expected,
            "the ConfigMap says {}, and not {expected}",
            stored["topology"]
        );
        let named = |kind: &str, name: &str| {
            let object = found.iter().find(|object| object.kind == kind && object.metadata.name == name);
            object
                .map(|object| (object.metadata.generation, object.status_as::<Value>()))
                .context("it is gone")
        };
        let gateway =
            graph.nodes().find(|node| graph.locator(*node).kind == GATEWAY).context("no Gateway")?;
        let (generation, status) = named("Gateway", "web")?;
        is_said("the Gateway", &status["conditions"], generation, &affected(&graph, gateway, 6), true)?;
        let mut told = Ok(());
        RoutesTold::new(&graph, |_| true).each(|locator, _, entries| {
            let said = entries.iter().map(|entry| &entry.conditions.said);
            told = std::mem::replace(&mut told, Ok(())).and_then(|()| {
                let (generation, status) = named("HTTPRoute", locator.name)?;
                self.is_route_told(locator, generation, &status, said)
            });
        });
        told
    }

    fn is_route_told<'s>(
        &self,
        locator: Locator<'_>,
        generation: i64,
        status: &Value,
        said: impl ExactSizeIterator<Item = &'s Box<[Said]>>,
    ) -> Result<()> {
        let (name, parents) = (locator.name, status["parents"].as_array().cloned().unwrap_or_default());
        let (ours, theirs): (Vec<_>, Vec<_>) =
            parents.into_iter().partition(|entry| entry["controllerName"] == CONTROLLER);
        ensure!(theirs.iter().eq(self.theirs.get(name)), "others' entries of {name} are {theirs:?}");
        ensure!(ours.len() == said.len(), "{name} has {ours:?}");
        ours.iter()
            .zip(said)
            .try_for_each(|(entry, said)| is_said(name, &entry["conditions"], generation, said, false))
    }

    /// What was asked of the hub, and when.
    fn requests(&self) -> String {
        let asked = self.server.requests();
        let asked = asked.iter().filter(|asked| asked.user == USER);
        let lines = asked.map(|asked| format!("{:>9} ms  {:>3}  {asked}", asked.at.0, asked.code));
        lines.collect::<Vec<_>>().join("\n")
    }

    fn writes(&self) -> usize {
        self.server
            .count(|asked: &Asked| asked.user == USER && asked.is_write() && asked.resource != "events")
    }
}

/// Whether `conditions` are `said`, of this generation; among `others` where there are some.
fn is_said(what: &str, conditions: &Value, generation: i64, said: &[Said], others: bool) -> Result<()> {
    let found = conditions.as_array().into_iter().flatten();
    let found: Vec<&Value> = found
        .filter(|condition| {
            !others
                || condition["type"].as_str().is_some_and(|name| name.starts_with("policysync.kuadrant.io/"))
        })
        .collect();
    ensure!(found.len() == said.len(), "{what} says {found:?}, and not {said:?}");
    for (found, said) in found.into_iter().zip(said) {
        let expected = json!({"type": said.name, "status": said.status, "reason": said.reason, "message": said.message,
            "observedGeneration": generation, "lastTransitionTime": found["lastTransitionTime"]});
        ensure!(*found == expected, "{what} says {found}, and not {expected}");
    }
    Ok(())
}

async fn delete(client: &kube::Client, object: &Value) -> Result<()> {
    let (api, name) = api_for(client, object).await?;
    api.delete(&name, &DeleteParams::default()).await?;
    Ok(())
}

async fn play(faults: &Faults) -> Result<()> {
    let server = MemoryServer::hub()?;
    server.define_routes()?;
    let client = server.client();
    apply(&client, &fixtures::namespace("shop")).await?;
    let params = json!({"policiesToSync": [tenant::rate_limit_policies()]});
    apply(&client, &fixtures::params_config_map("shop", "params", &params)).await?;
    apply(&client, &fixtures::gateway_class("topology", CONTROLLER, Some(("shop", "params")))).await?;
    apply(&client, &gateway(&["http"])).await?;
    let mut flow = server.flow_of(USER, CONTROLLER, faults.clone())?;
    let metrics = TopologyMetrics::new(&flow.metrics)?;
    let settings = stored::Settings::new("default", true);
    flow.topology = Some(Stored::new(flow.controller.clone(), settings, flow.clock, &flow.metrics, metrics));
    let stop = CancellationToken::new();
    flow.start(stop.clone());
    let mut hub = Hub { server, theirs: BTreeMap::new() };
    let server = hub.server.clone();
    let over = faults.over(&server, LIMIT);
    let story = async {
        hub.until(LIMIT + SOON).await?;
        for act in STORY {
            hub.act(act).await?;
            hub.until(LIMIT + SOON).await.with_context(|| format!("{act:?}"))?;
        }
        Ok(())
    };
    match faults.plan() {
        Some(_) => drop(tokio::try_join!(story, over)?),
        None => story.await?,
    }
    hub.until(SOON).await?;
    sleep(SOON).await;
    let writes = hub.writes();
    sleep(LIMIT).await;
    ensure!(hub.writes() == writes, "it goes on writing:\n{}", hub.requests());
    hub.until(Duration::ZERO).await?;
    stop.cancel();
    Ok(())
}

fn played(faults: &Faults) -> Result<()> {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build()?;
    runtime.block_on(play(faults))
}

/// Plays those of `plans` that are about what the topology asks, or as many as are tried.
fn sweep(plans: Vec<Plan>) -> Result<()> {
    let about = [
        "httproutes",
        "configmaps default",
        "gateways/status",
        "event of gateways",
        "event of configmaps",
        "gatewayclasses",
    ];
    let of_topology = |plan: &Plan| about.iter().any(|what| plan.at.contains(what));
    let plans = chosen(plans.into_iter().filter(of_topology).collect())?;
    each(&plans, |plan| played(&Faults::of(plan)).map(|()| String::new()))
}

#[test]
fn the_topology_says_what_the_hub_has() -> Result<()> {
    played(&Faults::default())
}

#[test]
fn whatever_goes_wrong_with_a_request_the_topology_says_what_the_hub_has() -> Result<()> {
    let faults = Faults::default();
    played(&faults)?;
    let plans = faults.request_plans();
    ensure!(plans.len() > 40 * OF_REQUESTS.len(), "{} plans", plans.len());
    sweep(plans)
}

#[test]
fn whatever_goes_wrong_with_an_event_the_topology_says_what_the_hub_has() -> Result<()> {
    let faults = Faults::default();
    played(&faults)?;
    let plans = faults.event_plans();
    ensure!(plans.len() > 40 * OF_EVENTS.len(), "{} plans", plans.len());
    sweep(plans)
}
