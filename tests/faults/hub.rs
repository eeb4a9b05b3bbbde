//! The in-memory hub of these tests, with users, agents and the controller.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch};
use policy_sync_controller::server::ServerState;
use policy_sync_hub::reconcile::{Elector, ElectorOptions};
use policy_sync_hub::tasks::RestartReason;
use policy_sync_testenv::apply::{apply, apply_with_status};
use policy_sync_testenv::fixtures::{
    gateway_class, managed_cluster, namespace, params_config_map, placement, placement_decision,
};
use policy_sync_testenv::memory::{Interposer, MemoryServer, RequestInfo, agents};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::oracle::State;

/// The namespace of all users' objects, and the name of the class.
pub(crate) const SHOP: &str = "shop";
/// The controller's name.
pub(crate) const CONTROLLER: &str = "example.com/policy-sync";
/// The user that the controller runs as.
pub(crate) const USER: &str = "controller";
/// The time after the last fault within which the state has to become correct. After the same time, the controller
/// checks again whether an unsyncable kind can be synced.
const SOON: Duration = Duration::from_secs(30);
/// The longest backoff after repeated failures.
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);
/// A hub without requests for this time is settled. The time is longer than the longest backoff and than one watch
/// lasts, so that retries would be seen. The scenario and this time together are shorter than two watches last, so that
/// no watch begins just before the end of a run.
const QUIET: Duration = Duration::from_secs(350);
/// The number of watches of a kind that can begin within [`QUIET`].
const WATCHES: usize = 2;
/// A limit that is longer than one watch lasts. No fault delays a request or an event for longer than this limit.
pub(crate) const LIMIT: Duration = Duration::from_secs(300);

/// An API server in memory.
#[derive(Clone)]
pub(crate) struct Hub {
    pub(crate) server: MemoryServer,
}

/// A running controller in this process.
pub(crate) struct Running {
    stop: CancellationToken,
    working: JoinHandle<Result<(), RestartReason>>,
    served: ServerState,
}

impl Running {
    /// The HTTP endpoints of the controller.
    pub(crate) fn served(&self) -> ServerState {
        self.served.clone()
    }

    /// The metrics in Prometheus text format.
    pub(crate) fn metrics(&self) -> String {
        self.served.metrics()
    }

    /// Stops the controller as SIGTERM would.
    pub(crate) async fn terminate(self) -> Result<()> {
        self.stop.cancel();
        self.ended().await
    }

    /// Waits until the controller ends on its own.
    pub(crate) async fn ended(self) -> Result<()> {
        Ok(self.working.await??)
    }
}

/// The time limit for recovery from a fault that has `lasted` this long. A retry waits no longer than the
/// failure has lasted.
pub(crate) fn soon(lasted: Duration) -> Duration {
    SOON.max(lasted.min(LONGEST_BACKOFF) + Duration::from_secs(5))
}

/// Whether the request is a write of the controller, other than to Leases and Events.
fn counts(request: &RequestInfo) -> bool {
    request.user == USER && request.is_write() && !matches!(request.resource.as_str(), "leases" | "events")
}

impl Hub {
    /// A hub with the clusters `eu-1` and `us-1`, their running agents, and a class with `parameters`.
    pub(crate) async fn new(parameters: &Value) -> Result<Self> {
        let hub = Self::silent(parameters).await?;
        let agents = agents(hub.server.clone());
        tokio::spawn(async { agents.await.expect("the agents failed") });
        Ok(hub)
    }

    /// Like [`Hub::new`], with agents that never report.
    pub(crate) async fn silent(parameters: &Value) -> Result<Self> {
        let hub = Self { server: MemoryServer::hub()? };
        for (cluster, region) in [("eu-1", "eu"), ("us-1", "us")] {
            hub.apply(&namespace(cluster)).await?;
            hub.locate(cluster, region).await?;
        }
        hub.apply(&namespace(SHOP)).await?;
        hub.parameters(parameters).await?;
        hub.apply(&gateway_class(SHOP, CONTROLLER, Some((SHOP, "params")))).await?;
        Ok(hub)
    }

    /// Starts the controller without leader election.
    pub(crate) fn controller(&self, faults: impl Interposer) -> Result<Running> {
        self.start(faults, false)
    }

    /// Starts a controller that has to acquire the Lease first.
    pub(crate) fn elected(&self, faults: impl Interposer) -> Result<Running> {
        self.start(faults, true)
    }

    fn start(&self, faults: impl Interposer, elects: bool) -> Result<Running> {
        let mut flow = self.server.flow_of(USER, CONTROLLER, faults)?;
        if elects {
            let options = ElectorOptions {
                namespace: SHOP.to_owned(),
                name: flow.controller.lease(),
                duration: Duration::from_secs(15),
            };
            let (elector, leadership) = Elector::new(flow.client.clone(), options, flow.clock);
            (flow.elector, flow.leadership) = (Some(elector), leadership);
        }
        let (stop, served) = (CancellationToken::new(), flow.server_state());
        let working = flow.start(stop.clone());
        Ok(Running { stop, working, served })
    }

    /// Applies an object as a user would.
    pub(crate) async fn apply(&self, object: &Value) -> Result<()> {
        apply(&self.server.client(), object).await.map(drop)
    }

    /// Deletes an object as a user would.
    pub(crate) async fn delete(&self, object: &Value) -> Result<()> {
        let (api, name) = policy_sync_testenv::apply::api_for(&self.server.client(), object).await?;
        api.delete(&name, &Default::default()).await?;
        Ok(())
    }

    /// Writes the class's parameters.
    pub(crate) async fn parameters(&self, parameters: &Value) -> Result<()> {
        self.apply(&params_config_map(SHOP, "params", parameters)).await
    }

    /// Sets the label `region` of a cluster.
    pub(crate) async fn locate(&self, cluster: &str, region: &str) -> Result<()> {
        let labels = [("region".to_owned(), region.to_owned())].into();
        self.apply(&managed_cluster(cluster, &labels)).await
    }

    /// Adds or removes `feedbackScrapeType` in the definition of ManifestWork. Only newer versions of Open Cluster
    /// Management have this field.
    pub(crate) async fn works_can_be_scraped(&self, can: bool) -> Result<()> {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.server.client());
        let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/manifestConfigs/items/\
                    properties/feedbackScrapeType";
        let patch = if can {
            json!([{"op": "add", "path": path, "value": {"type": "string"}}])
        } else {
            json!([{"op": "remove", "path": path}])
        };
        let (name, patch) = ("manifestworks.work.open-cluster-management.io", serde_json::from_value(patch)?);
        definitions.patch(name, &Default::default(), &Patch::<()>::Json(patch)).await?;
        Ok(())
    }

    /// Makes a Placement select `clusters`: the decision is written before the status, as OCM's controller
    /// does.
    pub(crate) async fn place(&self, name: &str, clusters: &[&str]) -> Result<()> {
        for object in [placement_decision(SHOP, name, 1, clusters), placement(SHOP, name, clusters.len())] {
            apply_with_status(&self.server.client(), &object).await?;
        }
        Ok(())
    }

    /// The controller's writes so far, without Leases and Events.
    pub(crate) fn writes(&self) -> Vec<RequestInfo> {
        self.server.requests().into_iter().filter(counts).collect()
    }

    /// All works: `<cluster>/<kind>-<name>`, without the hash.
    pub(crate) fn works(&self) -> Vec<String> {
        State::of(self).works().map(|(name, _)| name.to_owned()).collect()
    }

    /// All Events: `<reason>: <note>`.
    pub(crate) fn events(&self) -> Vec<String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let events = self.server.objects().into_iter().filter(|(name, _)| name.starts_with("events."));
        events.map(|(_, event)| format!("{}: {}", text(&event["reason"]), text(&event["note"]))).collect()
    }

    /// The object with this name, `<resource>.<group> <namespace>/<name>`; null if there is none.
    pub(crate) fn object(&self, name: &str) -> Value {
        self.server.objects().remove(name).unwrap_or_default()
    }

    /// Waits until `holds` returns true, and returns the time that it took. Fails after `limit`.
    pub(crate) async fn until(&self, limit: Duration, holds: impl Fn(&Self) -> bool) -> Result<Duration> {
        let start = Instant::now();
        while !holds(self) {
            ensure!(start.elapsed() < limit, "not within {limit:?}; events: {:?}", self.events());
            sleep(Duration::from_millis(100)).await;
        }
        Ok(start.elapsed())
    }

    /// Waits until no request or event is delayed, then for the longest recovery, and then for [`QUIET`] as in
    /// [`Hub::quiet`].
    pub(crate) async fn settled(&self) -> Result<()> {
        let start = Instant::now();
        while !self.server.is_undisturbed() {
            ensure!(start.elapsed() < LIMIT, "a request or an event is still held back after {LIMIT:?}");
            sleep(Duration::from_secs(1)).await;
        }
        sleep(soon(LIMIT)).await;
        self.quiet().await
    }

    /// Waits for [`QUIET`], during which the controller must send no request except renewed watches.
    pub(crate) async fn quiet(&self) -> Result<()> {
        let before = self.server.requests().len();
        sleep(QUIET).await;
        let mut times: BTreeMap<String, usize> = BTreeMap::new();
        for request in self.server.requests().into_iter().skip(before).filter(|request| request.user == USER)
        {
            // Access reviews are repeated regularly.
            if !matches!(request.resource.as_str(), "leases" | "events" | "selfsubjectaccessreviews") {
                *times.entry(RequestInfo { ordinal: 0, ..request }.to_string()).or_default() += 1;
            }
        }
        // Definitions are listed again before each watch.
        let watches = |request: &str| {
            request.starts_with("watch ") || request.starts_with("list customresourcedefinitions.")
        };
        times.retain(|request, times| !watches(request) || *times > WATCHES);
        ensure!(times.is_empty(), "the controller sent requests after it had settled: {times:?}");
        Ok(())
    }
}
