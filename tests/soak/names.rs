//! Memory test: 10,000 names appear and disappear, and the process must not keep memory for these names. The names come
//! in *waves*: each wave appears, is synced, and disappears before the next wave.
//!
//! Worker, queue and mirror are parts of the product. The hub is simulated: it accepts every write, and the mirror
//! receives the written works as from a watch. The test counts the allocations of the thread in which all parts run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use policy_sync_api::names::{ControllerName, GroupVersionResource, ObjectKey};
use policy_sync_api::object::HubObject;
use policy_sync_controller::sync::metrics::HubMetrics;
use policy_sync_controller::sync::write::{PolicySync, PolicySyncOptions};
use policy_sync_hub::clock::Clock;
use policy_sync_hub::reconcile::{Leadership, Queue, Worker};
use policy_sync_hub::tasks::Tasks;
use policy_sync_hub::telemetry::metrics::Metrics;
use policy_sync_mirror::{Source, SourceEvent};
use policy_sync_sync::kinds::{
    CLASSES, CLUSTERS, CONFIG_MAPS, DECISIONS, GATEWAYS, PLACEMENTS, POLICIES, WORKS, needed,
};
use policy_sync_sync::rows::kind::{KindInfo, Resolution};
use policy_sync_sync::rows::schema::WorkSchema;
use policy_sync_sync::{Changes, Key, Mirror, Settings, found, triggers};
use policy_sync_testenv::fixtures::{
    gateway, gateway_class, managed_cluster, params_config_map, placement, placement_decision,
    rate_limit_policy,
};
use policy_sync_testenv::hostile::{Hostile, Operation};
use policy_sync_testenv::tenant::rate_limit_policies;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::users::CONTROLLER;

const WAVES: usize = 20;
/// The number of policies, and of Gateways, per wave; each Gateway has its own namespace.
const NAMES: usize = 250;
/// A duration that is longer than all timers.
const LONG: Duration = Duration::from_secs(600);
/// The limit for the growth of allocated memory, in bytes.
const LIMIT: i64 = 1024 * 1024;

/// A hub that accepts every write.
#[derive(Clone, Default)]
struct Server {
    version: Arc<AtomicU64>,
    /// Unreported changes of works: the created work, or the key of a deleted work.
    works: Arc<Mutex<Vec<Result<Value, ObjectKey>>>>,
    /// The permanent objects, by name.
    stays: Arc<Mutex<BTreeMap<String, Value>>>,
}

impl Server {
    fn client(&self) -> Client {
        let server = self.clone();
        let serve = tower::service_fn(move |request: Request<Body>| server.clone().respond(request));
        Client::new(serve, "default")
    }

    async fn respond(self, request: Request<Body>) -> Result<Response<Body>, std::io::Error> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path().to_owned();
        let words: Vec<&str> = path.rsplit('/').collect();
        let respond = |code: u16, body: &Value| {
            Ok(Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).unwrap())
        };
        if parts.method == Method::GET {
            // Permanent objects are in the namespace `shop` or cluster-scoped.
            let is_of_another = words.get(3) == Some(&"namespaces") && words[2] != "shop";
            return match words[0] {
                "placementdecisions" => {
                    let items: Vec<Value> =
                        self.stays.lock().get("all-decision-1").cloned().into_iter().collect();
                    respond(200, &json!({"metadata": {"resourceVersion": "1"}, "items": items}))
                }
                "shop" if words[1] == "namespaces" => respond(200, &json!({"metadata": {"name": "shop"}})),
                "ratelimitpolicies" => {
                    respond(200, &json!({"metadata": {"resourceVersion": "1"}, "items": []}))
                }
                name if !is_of_another && self.stays.lock().contains_key(name) => {
                    respond(200, &self.stays.lock()[name].clone())
                }
                _ => {
                    respond(404, &json!({"kind": "Status", "status": "Failure", "message": "", "code": 404}))
                }
            };
        }
        let version = self.version.fetch_add(1, Ordering::Relaxed) + 1;
        let mut metadata = json!({"resourceVersion": version.to_string()});
        if words[0] == "manifestworks" && parts.method == Method::POST {
            let bytes = body.collect_bytes().await.map_err(std::io::Error::other)?;
            let mut work: Value = serde_json::from_slice(&bytes)?;
            work["metadata"]["uid"] = format!("uid-{version}").into();
            work["metadata"]["generation"] = 1.into();
            work["metadata"]["resourceVersion"] = version.to_string().into();
            metadata = work["metadata"].clone();
            self.works.lock().push(Ok(work));
        } else if words[1] == "manifestworks" && parts.method == Method::DELETE {
            self.works.lock().push(Err(ObjectKey::new(words[2], words[0])));
        }
        respond(200, &json!({"metadata": metadata}))
    }
}

struct Hub {
    mirror: Arc<Mirror>,
    server: Server,
    queue: Arc<Queue<Key>>,
    controller: ControllerName,
    clock: Clock,
    policies: Source,
}

impl Hub {
    fn start(stop: CancellationToken) -> Self {
        let controller = ControllerName::new(CONTROLLER);
        let (mirror, server, clock) =
            (Arc::new(Mirror::new(controller.clone())), Server::default(), Clock::start());
        let gvr = GroupVersionResource::new("kuadrant.io", "v1", "ratelimitpolicies");
        let metrics = Metrics::new().unwrap();
        let queue = Arc::new(Queue::new(Duration::from_secs(1), metrics.clone()));
        let (leadership, tasks) = (Leadership::always(), Tasks::new(metrics.clone()));
        let options = PolicySyncOptions {
            settings: Settings::default(),
            leadership: leadership.clone(),
            wanted: watch::channel(Default::default()).0,
            others: watch::channel(Default::default()).0,
            covered: watch::channel(None).0,
            tasks: tasks.clone(),
            hub_metrics: HubMetrics::new(&metrics).unwrap(),
        };
        let (client, looked) = (server.client(), mirror.clone());
        let sync = PolicySync::new(client, looked, queue.clone(), clock, metrics.clone(), options);
        tokio::spawn(Worker::new(sync, queue.clone(), leadership, metrics, tasks).run(stop));
        let hub =
            Self { mirror, server, queue, controller, clock, policies: POLICIES.resource(gvr.kind.clone()) };
        hub.change(found::work_schema(WorkSchema::FULL));
        hub.change(found::resolved(&gvr, Resolution::Resolved(KindInfo::named("RateLimitPolicy"))));
        let kinds = json!({"policiesToSync": [rate_limit_policies()]});
        hub.list(&CLASSES.all(), &[gateway_class("shop", CONTROLLER, Some(("shop", "params")))]);
        let params = CONFIG_MAPS.object(ObjectKey::new("shop", "params"));
        hub.list(&params, &[params_config_map("shop", "params", &kinds)]);
        hub.list(&GATEWAYS.all(), &[gateway("shop", "web", "shop", Some("all"))]);
        hub.list(&CLUSTERS.all(), &[managed_cluster("eu-1", &Default::default())]);
        hub.list(&PLACEMENTS.all(), &[placement("shop", "all", 1)]);
        hub.list(&DECISIONS.all(), &[placement_decision("shop", "all", 1, &["eu-1"])]);
        hub.list(&hub.policies, &[]);
        hub.list(&WORKS.all(), &[]);
        hub
    }

    fn pass(&self, changes: &Changes<'_>) {
        self.queue.enqueue(triggers::affected(changes));
    }

    fn change(&self, change: SourceEvent) {
        self.pass(&self.mirror.change(change, self.clock.now()));
    }

    fn list(&self, source: &Source, objects: &[Value]) {
        self.mirror.begin_resync(source);
        for object in objects {
            let shown = self.show(source, object.clone(), 1);
            let name = shown["metadata"]["name"].as_str().unwrap().to_owned();
            self.server.stays.lock().insert(name, shown);
        }
        self.pass(&self.mirror.end_resync(source, 1, self.clock.now()));
    }

    fn show(&self, source: &Source, mut object: Value, version: u64) -> Value {
        object["metadata"]["resourceVersion"] = version.to_string().into();
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = object["metadata"]["name"].clone();
        }
        let read: HubObject = serde_json::from_str(&object.to_string()).unwrap();
        let row = source.prune(&read, &self.controller).unwrap();
        self.change(SourceEvent::Applied { source: source.clone(), key: read.key(), version, row });
        object
    }

    fn takes_out(&self, source: &Source, key: ObjectKey) {
        let version = self.version();
        self.change(SourceEvent::Deleted { source: source.clone(), key, version });
    }

    fn version(&self) -> u64 {
        self.server.version.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Waits until the controller is idle, and reports its writes to the mirror. Returns the created works.
    async fn settles(&self) -> Vec<Value> {
        let mut made = Vec::new();
        loop {
            sleep(LONG).await;
            let works = std::mem::take(&mut *self.server.works.lock());
            let version = self.version();
            let sources = needed().chain([self.policies.clone()]);
            sources.for_each(|source| self.mirror.bookmark(&source, version));
            if works.is_empty() {
                return made;
            }
            for work in works {
                match work {
                    Ok(work) => {
                        let version = work["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
                        self.show(&WORKS.all(), work.clone(), version);
                        made.push(work);
                    }
                    Err(key) => self.takes_out(&WORKS.all(), key),
                }
            }
        }
    }

    /// A hostile tenant writes random objects of the watched kinds; returns the keys of these objects.
    fn attack(&self, hostile: &mut Hostile, wave: usize) -> BTreeSet<(Source, ObjectKey)> {
        let mut theirs = BTreeSet::new();
        for _ in 0..NAMES / 10 {
            let Operation::Write(object) = hostile.operation(&format!("mob-{wave}"), &["eu-1"]) else {
                continue;
            };
            let source = match object["kind"].as_str().unwrap_or_default() {
                "RateLimitPolicy" => self.policies.clone(),
                "Gateway" => GATEWAYS.all(),
                "Placement" => PLACEMENTS.all(),
                "PlacementDecision" => DECISIONS.all(),
                _ => continue,
            };
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
            theirs.insert((source.clone(), ObjectKey::new(&text("namespace"), &text("name"))));
            self.show(&source, object, self.version());
        }
        theirs
    }

    /// One wave: names appear, are synced, and disappear. A spoke and a tenant meanwhile write random values.
    async fn wave(&self, wave: usize) {
        let mut hostile = Hostile::new(wave as u64);
        let names: Vec<String> = (0..NAMES).map(|number| format!("n{wave}-{number}")).collect();
        for name in &names {
            self.show(&self.policies, rate_limit_policy("shop", name, "web"), self.version());
            self.show(&GATEWAYS.all(), gateway(name, name, "shop", None), self.version());
        }
        let made = self.settles().await;
        assert!(made.len() >= NAMES, "only {} works were created", made.len());
        for mut work in made.iter().skip(NAMES / 2).cloned() {
            for _ in 0..2 {
                hostile.work(&mut work);
                hostile.respond(&mut work);
                self.show(&WORKS.all(), work.clone(), self.version());
            }
        }
        let mut cluster = managed_cluster("eu-1", &Default::default());
        (0..10).for_each(|_| hostile.cluster(&mut cluster));
        self.show(&CLUSTERS.all(), cluster, self.version());
        let theirs = self.attack(&mut hostile, wave);
        self.settles().await;
        for name in &names {
            self.takes_out(&self.policies, ObjectKey::new("shop", name));
            self.takes_out(&GATEWAYS.all(), ObjectKey::new(name, name));
        }
        for (source, key) in theirs {
            self.takes_out(&source, key);
        }
        self.show(&CLUSTERS.all(), managed_cluster("eu-1", &Default::default()), self.version());
        self.settles().await;
        let work = |work: &Value| {
            let text = |field: &str| work["metadata"][field].as_str().unwrap_or_default();
            ObjectKey::new(text("namespace"), text("name"))
        };
        let exists = |key: &ObjectKey| {
            let guard = self.mirror.read();
            guard
                .view(self.clock.now())
                .works()
                .any(|(name, cluster, _)| name.0 == key.name && cluster.0 == key.namespace)
        };
        for work in made.iter().take(NAMES / 2).map(work) {
            assert!(!exists(&work), "{work} still exists");
        }
        // Works whose identifying metadata the spoke has removed belong to the spoke, and the controller does
        // not delete them.
        for work in made.iter().skip(NAMES / 2).map(work).filter(exists) {
            self.takes_out(&WORKS.all(), work);
        }
        self.settles().await;
        let kept = self.mirror.read().view(self.clock.now()).works().count();
        assert!(kept <= 2, "{kept} works still exist");
    }
}

#[test]
fn memory_does_not_grow_with_names_that_come_and_go() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let stop = CancellationToken::new();
    let hub = runtime.block_on(async { Hub::start(stop.clone()) });
    // The first wave allocates the memory that is kept permanently.
    runtime.block_on(hub.wave(0));
    let held = allocation_counter::measure(|| {
        runtime.block_on(async {
            for wave in 1..=WAVES {
                hub.wave(wave).await;
            }
        });
    });
    stop.cancel();
    let names = WAVES * 2 * NAMES;
    assert!(
        held.bytes_current < LIMIT,
        "{} KiB are still allocated after {names} names",
        held.bytes_current / 1024
    );
}
