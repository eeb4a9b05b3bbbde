//! A controller that reconciles a whole topology. It watches every kind of the topology, collects the events of half a
//! second, and builds the topology once from all objects. It writes the topology to the ConfigMap `default/topology` as
//! DOT. On each Gateway, it writes a condition with the policies that target the Gateway.
//!
//! Run it with `cargo run -p policy-sync-hub --example topology`. It uses the current context of the kubeconfig, and
//! ends with Ctrl-C.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::Client;
use kube::api::PatchParams;
use parking_lot::Mutex;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ControllerName, GroupVersionResource, ObjectKey};
use policy_sync_hub::clock::Clock;
use policy_sync_hub::reconcile::{
    Capability, Leadership, Queue, RequestError, Requests, Slot, Worker, apply, of_kind,
};
use policy_sync_hub::tasks::Tasks;
use policy_sync_hub::telemetry::metrics::Metrics;
use policy_sync_hub::watch::{Feed, Supervisor};
use policy_sync_mirror::{
    Index, Key, Kind, KindDeclaration, Mirror, ObjectRow, Priority, Row, Tables, WatchedSources,
};
use policy_sync_topology::locator::{GATEWAY, GATEWAY_CLASS, HTTP_ROUTE, KindRef};
use policy_sync_topology::{Graph, HubObject, Objects, Topology, objects};
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

const RATE_LIMIT_POLICY: KindRef<'static> = KindRef { group: "kuadrant.io", kind: "RateLimitPolicy" };
/// The watched kinds. The parameter of [`Stored`] is an index of this array.
const KINDS: [KindRef<'static>; 4] = [GATEWAY_CLASS, GATEWAY, HTTP_ROUTE, RATE_LIMIT_POLICY];

static CLASSES: Kind<Stored<0>> = Kind::new(GATEWAY_CLASS.group, "v1", "gatewayclasses");
static GATEWAYS: Kind<Stored<1>> = Kind::new(GATEWAY.group, "v1", "gateways");
static ROUTES: Kind<Stored<2>> = Kind::new(HTTP_ROUTE.group, "v1", "httproutes");
static POLICIES: Kind<Stored<3>> = Kind::new(RATE_LIMIT_POLICY.group, "v1", "ratelimitpolicies");
const WATCHED: [&KindDeclaration; 4] =
    [CLASSES.declaration(), GATEWAYS.declaration(), ROUTES.declaration(), POLICIES.declaration()];

/// The fields of an object that the topology needs. If `row` is `None`, the spec is invalid.
#[derive(Clone, Debug, PartialEq)]
struct Stored<const KIND: usize> {
    uid: String,
    row: Option<objects::Row>,
}

impl<const KIND: usize> Row for Stored<KIND> {}

impl<const KIND: usize> ObjectRow for Stored<KIND> {
    fn prune(object: &HubObject, _: &ControllerName) -> Self {
        Self { uid: object.metadata.uid.clone(), row: objects::Row::read(KINDS[KIND], object).ok() }
    }
}

/// An index without derived data.
#[derive(Clone, Debug)]
struct NoIndex;

impl Index for NoIndex {
    const REQUIRED_KINDS: &'static [&'static KindDeclaration] = &WATCHED;
    type View<'m> = &'m Tables;

    fn new(_: ControllerName) -> Self {
        Self
    }

    fn view<'m>(&'m self, tables: &'m Tables, _: Moment) -> &'m Tables {
        tables
    }
}

/// The only key: the whole topology.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct WholeTopology;

impl Key for WholeTopology {
    const CATEGORIES: &'static [&'static str] = &["world"];

    fn category(&self) -> &'static str {
        "world"
    }

    fn priority(&self) -> Priority {
        Priority::High
    }
}

/// A Gateway, its uid, and the names of its policies.
type GatewayPolicies = (ObjectKey, String, String);

/// The DOT of all objects, and the policies of each Gateway.
fn plan(tables: &Tables) -> Result<(String, Vec<GatewayPolicies>)> {
    let mut objects = Objects::default();
    fn put<const K: usize>(objects: &mut Objects, tables: &Tables, kind: &'static Kind<Stored<K>>) {
        for (key, stored) in tables.rows(kind) {
            if let Some(row) = &stored.row {
                objects.put(KINDS[K], key.clone(), row.clone());
            }
        }
    }
    put(&mut objects, tables, &CLASSES);
    put(&mut objects, tables, &GATEWAYS);
    put(&mut objects, tables, &ROUTES);
    put(&mut objects, tables, &POLICIES);
    let graph_input = objects.graph_input();
    let graph = Graph::build(&graph_input);
    let dot = Topology::builder().gateway_api(&graph).policies(graph.policies()).build()?.dot();
    let mut gateways = Vec::new();
    for node in graph.object_nodes() {
        let locator = graph.locator(node);
        let key = ObjectKey::new(locator.namespace, locator.name);
        if let Some(stored) = tables.get(&GATEWAYS, &key).filter(|_| locator.kind == GATEWAY) {
            let names: Vec<String> = graph.policies_on(node).map(|policy| policy.locator.object()).collect();
            gateways.push((key, stored.uid.clone(), names.join(", ")));
        }
    }
    Ok((dot, gateways))
}

struct Reconciler {
    mirror: Arc<Mirror<NoIndex>>,
    requests: Requests,
    clock: Clock,
    /// The text of the last write of each object.
    written: Mutex<HashMap<ObjectKey, String>>,
}

impl Capability for Reconciler {
    type Key = WholeTopology;
    type Error = RequestError;

    fn all_keys(&self) -> BTreeSet<WholeTopology> {
        BTreeSet::from([WholeTopology])
    }

    async fn reconcile(&self, _: &WholeTopology, _: Slot) -> Result<(), RequestError> {
        let planned = {
            let guard = self.mirror.read();
            // A kind that is not listed yet is unknown, not empty. Its first list adds the key again.
            guard.tables().listed(&WATCHED).then(|| plan(guard.tables()))
        };
        let Some(Ok((dot, gateways))) = planned else { return Ok(()) };
        let is_new = |key: &ObjectKey, text: &String| self.written.lock().get(key) != Some(text);
        let (key, config_maps) =
            (ObjectKey::new("default", "topology"), GroupVersionResource::new("", "v1", "configmaps"));
        if is_new(&key, &dot) {
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "topology", "namespace": "default"}, "data": {"topology": dot}});
            let parameters = PatchParams::apply("topology").force();
            let patch = |body| of_kind(&config_maps, "default").patch("topology", &parameters, &body);
            self.requests.write(apply::body(&object).and_then(patch)).await?;
            self.written.lock().insert(key, dot);
        }
        for (key, uid, names) in gateways {
            if !is_new(&key, &names) {
                continue;
            }
            let condition = Condition {
                type_: "example.com/Policies".to_owned(),
                status: if names.is_empty() { "False" } else { "True" }.to_owned(),
                reason: "Attached".to_owned(),
                message: names.clone(),
                observed_generation: None,
                last_transition_time: Time(self.clock.timestamp()),
            };
            let gvr = GATEWAYS.gvr();
            let request = apply::conditions("topology", (&gvr, "Gateway"), &key, &uid, &[condition]);
            apply::apply(&self.requests, &gvr, &key, &uid, request).await?;
            self.written.lock().insert(key, names);
        }
        Ok(())
    }
}

/// Starts the controller. It watches until the returned sender is dropped, and writes until `stop`.
fn start(client: Client, clock: Clock, stop: CancellationToken) -> Result<watch::Sender<WatchedSources>> {
    let (name, metrics) = (ControllerName::new("example.com/topology"), Metrics::new()?);
    let (tasks, leadership) = (Tasks::new(metrics.clone()), Leadership::always());
    let mirror = Arc::new(Mirror::new(name.clone()));
    let queue = Arc::new(Queue::new(Duration::from_millis(500), metrics.clone()));
    let adding = queue.clone();
    let feed = Feed::new(mirror.clone(), name, clock, move |_| adding.enqueue([WholeTopology]));
    let (wanted, watched) = watch::channel(WatchedSources::new());
    tokio::spawn(Supervisor::new(client.clone(), feed, tasks.clone()).run(&WATCHED, watched));
    let requests = Requests::new(client, leadership.clone());
    let reconciler = Reconciler { mirror, requests, clock, written: Mutex::default() };
    tokio::spawn(Worker::new(reconciler, queue, leadership, metrics, tasks).run(stop));
    Ok(wanted)
}

#[tokio::main]
async fn main() -> Result<()> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let stop = CancellationToken::new();
    let _watching = start(Client::try_default().await?, Clock::start(), stop.clone())?;
    tokio::signal::ctrl_c().await?;
    stop.cancel();
    Ok(())
}
