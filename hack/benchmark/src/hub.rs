//! The hub for measurements, in one of two states: without works, or with everything settled.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use policy_sync_api::annotations::{CONTROLLER, REPLICA_PREFERENCES, WORK_FOR};
use policy_sync_api::cluster::PLACEMENT_LABEL;
use policy_sync_api::names::ControllerName;
use policy_sync_api::work::ManifestWork;
use serde_json::{Value, json};

use super::counts::Counts;
use super::observer::{ObservedEvent, Observer};
use super::raw::{self, PreparedRequest};
use super::rego_webhooks::RegoWebhooks;
use super::report::progress;
use super::scene::{self, AT_ONCE, Scene, create_all};
use super::{Options, agents};
use policy_sync_testenv::apply::{apply, apply_all};
use policy_sync_testenv::tenant::rate_limit_policies;
use policy_sync_testenv::{ControlPlane, Controller, Fleet, FleetOptions, fixtures, wait};

/// The namespace of the Gateway, the policies and the class's parameters.
const NAMESPACE: &str = "shop";
/// The GatewayClass.
pub(super) const CLASS: &str = "synced";
/// The controller's default name.
const CONTROLLER_NAME: &str = "kuadrant.io/policy-sync";
/// Page size for lists of works.
const PAGE: u32 = 500;
/// Interval of readiness checks. The interval is shorter than in tests, because the start is measured.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Time limit for a start.
const START: Duration = Duration::from_secs(120);
/// Time limit for steps that are not measured.
pub(super) const LIMIT: Duration = Duration::from_secs(60);

/// The hub and the path of the controller.
pub(super) struct MeasuredHub {
    fleet: Fleet,
    binary: PathBuf,
    quiet: Duration,
    pub(super) client: Client,
    pub(super) scene: Scene,
    pub(super) clusters: Vec<String>,
    pub(super) policies: usize,
    /// The policies' works as the controller creates them.
    works: Arc<Vec<WorkBody>>,
    /// Whether all works exist and have a status, and the policies' annotations are up to date.
    settled: bool,
    /// The Rego policies of the controller, if any.
    pub(super) rego_policies: Option<RegoWebhooks>,
    /// Whether the controller stores the topology.
    pub(super) topology: bool,
}

/// A work as the controller creates it, without the fields that the API server sets.
#[derive(Debug)]
pub(super) struct WorkBody {
    cluster: String,
    /// The work as JSON, because the benchmark only sends the work and never reads its fields.
    body: Vec<u8>,
}

impl WorkBody {
    pub(super) fn new(mut work: ManifestWork) -> Result<Self> {
        let metadata = std::mem::take(&mut work.metadata);
        let cluster = metadata.namespace.clone().unwrap_or_default();
        (work.metadata.name, work.metadata.namespace) = (metadata.name, metadata.namespace);
        (work.metadata.labels, work.metadata.annotations) = (metadata.labels, metadata.annotations);
        work.status = None;
        Ok(Self { cluster, body: serde_json::to_vec(&work).context("serializing a work")? })
    }

    /// The request that creates the work.
    pub(super) fn create(&self) -> Result<PreparedRequest> {
        let create = raw::works_of(&self.cluster).create(&PostParams::default(), self.body.clone());
        Ok(raw::with_metadata_response(create.context("building a create request")?))
    }
}

/// A synced Deployment with the same Placement as the Gateway. Its replicas are divided among all clusters.
fn app() -> Value {
    let mut app = fixtures::deployment(NAMESPACE, "app");
    app["metadata"]["labels"] = json!({PLACEMENT_LABEL: scene::NAME});
    app["metadata"]["annotations"] = json!({REPLICA_PREFERENCES: r#"{"clusters": {"*": {"weight": 1}}}"#});
    app["spec"]["replicas"] = 1_000.into();
    app
}

impl MeasuredHub {
    /// Starts the hub and creates everything except works.
    pub(super) async fn start(options: &Options) -> Result<Self> {
        ensure!(options.controller.is_file(), "{} is not a file", options.controller.display());
        let fleet = Fleet::start(FleetOptions::spokes([])).await?;
        let client = fleet.hub().client()?;
        let clusters: Vec<String> =
            (0..options.clusters).map(|index| format!("cluster-{index:04}")).collect();
        let scene = Self::set(&client, &clusters).await.context("creating the objects of the benchmark")?;
        let (binary, quiet) = (options.controller.clone(), options.quiet);
        let works = Arc::default();
        let mut hub = Self {
            fleet,
            binary,
            quiet,
            client,
            scene,
            clusters,
            policies: 0,
            works,
            settled: false,
            rego_policies: None,
            topology: false,
        };
        hub.set_policies(options.policies).await?;
        Ok(hub)
    }

    async fn set(client: &Client, clusters: &[String]) -> Result<Scene> {
        progress(&format!("registering {} clusters", clusters.len()));
        register(client, clusters).await?;
        // Restores the default wait of Gateways for their policies; the fixture disables it.
        let params = json!({
            "policiesToSync": [rate_limit_policies()],
            "resourcesToSync": [fixtures::resources("apps", "deployments")],
            "policyWaitSeconds": 10,
            "policyWaitAction": "hold",
        });
        let objects = [
            fixtures::namespace(NAMESPACE),
            fixtures::params_config_map(NAMESPACE, "params", &params),
            fixtures::gateway_class(CLASS, CONTROLLER_NAME, Some((NAMESPACE, "params"))),
        ];
        apply_all(client, &objects).await?;
        let scene = Scene::set(client, NAMESPACE, CLASS, clusters).await?;
        apply(client, &app()).await?;
        Ok(scene)
    }

    /// Adds or removes policies until there are `count`.
    pub(super) async fn set_policies(&mut self, count: usize) -> Result<()> {
        self.scene.add(self.policies..count).await?;
        self.scene.remove(count..self.policies).await?;
        self.settled &= self.policies == count;
        self.policies = count;
        Ok(())
    }

    /// Path of the controller.
    pub(super) fn binary(&self) -> &Path {
        &self.binary
    }

    pub(super) fn hub(&self) -> &ControlPlane {
        self.fleet.hub()
    }

    /// The number of works of all policies on all clusters.
    pub(super) fn size(&self) -> usize {
        self.policies * self.clusters.len()
    }

    /// Starts the controller, and does not wait until it is ready.
    pub(super) fn launch(&self) -> Result<Controller> {
        self.launch_with(&self.arguments())
    }

    fn arguments(&self) -> Vec<String> {
        let mut arguments = self.rego_policies.as_ref().map(RegoWebhooks::arguments).unwrap_or_default();
        arguments.extend(self.topology.then(|| "--topology".to_owned()));
        arguments
    }

    fn launch_with(&self, more: &[String]) -> Result<Controller> {
        // The lease duration is longer than any pause of the process. No row measures the takeover after a crash.
        let mut arguments = vec!["--leader-elect-lease-duration=15s"];
        arguments.extend(more.iter().map(String::as_str));
        Controller::launch(&self.binary, self.hub(), &arguments, None)
    }

    /// Starts the controller, and returns it with the time until it is ready. A controller that
    /// still reads many works writes nothing, so that [`MeasuredHub::quiet`] alone could return before it is ready.
    pub(super) async fn start_controller(&self) -> Result<(Duration, Controller)> {
        self.start_with(&self.arguments()).await
    }

    /// Like [`MeasuredHub::start_controller`], with additional arguments.
    pub(super) async fn start_with(&self, more: &[String]) -> Result<(Duration, Controller)> {
        let started = Instant::now();
        let controller = self.launch_with(more)?;
        // Requests fail until the controller listens.
        while !matches!(controller.readiness().await, Ok((200, _))) {
            ensure!(started.elapsed() < START, "the controller is not ready; its log: {}", controller.log()?);
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok((started.elapsed(), controller))
    }

    /// Watches the works of policies.
    pub(super) async fn observe(&self) -> Result<Observer> {
        Observer::start(&self.client, raw::WORKS, &self.policy_works()).await
    }

    /// The label selector of the controller's works for policies.
    pub(super) fn policy_works(&self) -> String {
        format!("{},{WORK_FOR}=policy", self.selector())
    }

    /// The controller's name.
    pub(super) fn controller(&self) -> ControllerName {
        ControllerName::new(CONTROLLER_NAME)
    }

    /// The label selector of the controller's works.
    pub(super) fn selector(&self) -> String {
        format!("{CONTROLLER}={}", self.controller().hash())
    }

    /// The controller's works for policies. The first call runs the controller to create the works, which stay on
    /// the hub.
    pub(super) async fn works(&mut self) -> Result<Arc<Vec<WorkBody>>> {
        if self.works.len() != self.size() {
            self.clear().await?;
            let mut observer = self.observe().await?;
            let controller = self.launch()?;
            observer.until(self.size(), ObservedEvent::added).await?;
            controller.terminate().await?;
            self.works = Arc::new(self.stored().await?);
        }
        Ok(self.works.clone())
    }

    /// Creates all works with statuses, and waits until the policies' annotations are up to date. Leaves no
    /// controller running.
    pub(super) async fn settle(&mut self) -> Result<()> {
        if self.settled {
            return Ok(());
        }
        progress(&format!("settling {} works", self.size()));
        let (_, controller) = self.start_controller().await?;
        self.quiet().await?;
        self.report_all("all is well").await?;
        self.quiet().await?;
        controller.terminate().await?;
        self.mark_settled();
        Ok(())
    }

    /// Patches the statuses of all works of policies as fast as possible.
    pub(super) async fn report_all(&self, text: &str) -> Result<()> {
        self.pages(async |page| {
            let reports = page.iter().map(|work| agents::report(work, text)).collect::<Result<_>>()?;
            raw::send(&self.client, reports, AT_ONCE).await.map(drop)
        })
        .await
    }

    /// Records that the hub is in the state after [`MeasuredHub::settle`].
    pub(super) fn mark_settled(&mut self) {
        self.settled = true;
    }

    /// Records that the hub is no longer settled.
    pub(super) fn mark_unsettled(&mut self) {
        self.settled = false;
    }

    /// Waits until there have been no writes for the period in the options.
    pub(super) async fn quiet(&self) -> Result<()> {
        let (mut seen, mut since) = (Counts::default(), Instant::now());
        loop {
            let counts = Counts::now(&self.client).await?;
            if counts.since(&seen).writes() > 0.0 {
                (seen, since) = (counts, Instant::now());
            }
            if since.elapsed() > self.quiet {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    }

    async fn stored(&self) -> Result<Vec<WorkBody>> {
        let mut stored = Vec::with_capacity(self.size());
        self.pages(async |page| {
            for work in page {
                stored.push(WorkBody::new(work)?);
            }
            Ok(())
        })
        .await?;
        ensure!(stored.len() == self.size(), "{} works, expected {}", stored.len(), self.size());
        Ok(stored)
    }

    /// Calls `take` with the works of policies, by cluster and page. All works at once would need much memory,
    /// and a list of all clusters would expire during long processing.
    pub(super) async fn pages(
        &self,
        mut take: impl AsyncFnMut(Vec<ManifestWork>) -> Result<()>,
    ) -> Result<()> {
        for cluster in &self.clusters {
            let works: Api<ManifestWork> = Api::namespaced(self.client.clone(), cluster);
            let mut list = ListParams::default().labels(&self.policy_works()).limit(PAGE);
            loop {
                let page = works.list(&list).await.context("listing works")?;
                take(page.items).await?;
                match page.metadata.continue_.filter(|token| !token.is_empty()) {
                    Some(token) => list.continue_token = Some(token),
                    None => break,
                }
            }
        }
        Ok(())
    }

    /// Deletes all works and waits until they are gone.
    pub(super) async fn clear(&mut self) -> Result<()> {
        self.settled = false;
        self.delete_works(&self.clusters).await
    }

    /// Deletes the works of these clusters and waits until they are gone. No controller must run.
    pub(super) async fn delete_works(&self, clusters: &[String]) -> Result<()> {
        let selector = ListParams::default().labels(&self.selector());
        let deletes = clusters.iter().map(|cluster| {
            raw::works_of(cluster)
                .delete_collection(&DeleteParams::background(), &selector)
                .context("building a delete request")
        });
        raw::send(&self.client, deletes.collect::<Result<_>>()?, AT_ONCE).await.context("deleting works")?;
        let list = selector.limit(1);
        for cluster in clusters {
            wait::until("the works are deleted", LIMIT, || async {
                let works: Api<ManifestWork> = Api::namespaced(self.client.clone(), cluster);
                ensure!(works.list_metadata(&list).await?.items.is_empty(), "works exist in {cluster}");
                Ok(())
            })
            .await?;
        }
        Ok(())
    }
}

/// Creates clusters without control planes: a namespace and a ManagedCluster each.
pub(super) async fn register(client: &Client, clusters: &[String]) -> Result<()> {
    let path = "/apis/cluster.open-cluster-management.io/v1/managedclusters";
    let objects = clusters.iter().flat_map(|name| {
        let cluster = fixtures::managed_cluster(name, &BTreeMap::new());
        [("/api/v1/namespaces", fixtures::namespace(name)), (path, cluster)]
    });
    create_all(client, objects.map(|(path, object)| (path.to_owned(), object))).await
}
