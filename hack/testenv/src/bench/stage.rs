//! The hub that is measured on.
//!
//! Clusters are there in name: a namespace and a ManagedCluster each. One Gateway is placed on all of them, and every
//! policy targets it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::core::request::Request as Requests;
use policy_sync::api::annotations::{CONTROLLER, WORK_FOR};
use policy_sync::api::names::ControllerName;
use policy_sync::api::work::ManifestWork;
use serde_json::{Value, json};

use super::counts::Counts;
use super::observer::{Observer, Seen};
use super::raw::{self, Ready};
use super::report::progress;
use super::{Options, agents};
use crate::apply::{apply, apply_all, apply_status};
use crate::world::rate_limit_policies;
use crate::{ControlPlane, Controller, Fleet, FleetOptions, fixtures, wait};

/// The namespace of the Gateway and of the policies.
pub(super) const NAMESPACE: &str = "shop";
/// The Gateway, its class and its Placement.
const NAME: &str = "web";
/// How many clusters one slice of decisions holds at most.
const SLICE: usize = 100;
/// How many works are read at once.
const PAGE: u32 = 500;
/// How many requests at once set the stage.
const AT_ONCE: usize = 16;
/// Longer than the window and the rule about rewritten slices together.
const QUIET: Duration = Duration::from_secs(7);
/// How long a step may take that is not measured.
const LIMIT: Duration = Duration::from_secs(600);

/// The hub, and the controller's program.
pub(super) struct Stage {
    fleet: Fleet,
    binary: PathBuf,
    pub(super) client: Client,
    pub(super) clusters: Vec<String>,
    policies: usize,
    /// The policies' works as the controller stores them.
    works: Arc<Vec<Stored>>,
    /// Whether all works are there and answered for, and the policies say so.
    settled: bool,
}

/// A work as the controller stores it, without what the server adds.
#[derive(Debug)]
pub(super) struct Stored {
    cluster: String,
    /// JSON: many are kept, and they are only sent.
    body: Vec<u8>,
}

impl Stored {
    fn of(mut work: ManifestWork) -> Result<Self> {
        let metadata = std::mem::take(&mut work.metadata);
        let cluster = metadata.namespace.clone().unwrap_or_default();
        (work.metadata.name, work.metadata.namespace) = (metadata.name, metadata.namespace);
        (work.metadata.labels, work.metadata.annotations) = (metadata.labels, metadata.annotations);
        work.status = None;
        Ok(Self { cluster, body: serde_json::to_vec(&work).context("writing a work as JSON")? })
    }

    /// The request that creates it.
    pub(super) fn create(&self) -> Result<Ready> {
        let create = raw::works_of(&self.cluster).create(&PostParams::default(), self.body.clone());
        Ok(raw::answered_by_metadata(create.context("making a create")?))
    }
}

/// The path of ManagedClusters.
const MANAGED_CLUSTERS: &str = "/apis/cluster.open-cluster-management.io/v1/managedclusters";
/// The name that the controller has by default.
const DEFAULT_CONTROLLER: &str = "kuadrant.io/policy-sync";

impl Stage {
    /// Starts the hub and puts everything there but works.
    pub(super) async fn start(options: &Options) -> Result<Self> {
        ensure!(options.controller.is_file(), "{} is no program", options.controller.display());
        let fleet = Fleet::start(FleetOptions::spokes([])).await?;
        let client = fleet.hub().client()?;
        let clusters: Vec<String> =
            (0..options.clusters).map(|index| format!("cluster-{index:04}")).collect();
        let mut stage = Self {
            fleet,
            binary: options.controller.clone(),
            client,
            clusters,
            policies: 0,
            works: Arc::default(),
            settled: false,
        };
        stage.set().await.context("setting the stage")?;
        stage.policies(options.policies).await?;
        Ok(stage)
    }

    async fn set(&self) -> Result<()> {
        progress(&format!("setting the stage: {} clusters", self.clusters.len()));
        let objects = self.clusters.iter().flat_map(|name| {
            let cluster = fixtures::managed_cluster(name, &BTreeMap::new());
            [("/api/v1/namespaces", fixtures::namespace(name)), (MANAGED_CLUSTERS, cluster)]
        });
        self.create_all(objects).await?;
        let controller = ControllerName::new(DEFAULT_CONTROLLER);
        apply_all(
            &self.client,
            [
                &fixtures::namespace(NAMESPACE),
                &fixtures::params_config_map(
                    NAMESPACE,
                    "params",
                    &json!({ "policiesToSync": [rate_limit_policies()] }),
                ),
                &fixtures::gateway_class(NAME, controller.as_str(), Some((NAMESPACE, "params"))),
            ],
        )
        .await?;
        for (index, slice) in self.clusters.chunks(SLICE).enumerate() {
            let clusters: Vec<&str> = slice.iter().map(String::as_str).collect();
            with_status(&self.client, fixtures::placement_decision(NAMESPACE, NAME, index, &clusters))
                .await?;
        }
        with_status(&self.client, fixtures::placement(NAMESPACE, NAME, self.clusters.len())).await?;
        apply(&self.client, &fixtures::gateway(NAMESPACE, NAME, NAME, Some(NAME))).await.map(drop)
    }

    /// Makes it so many policies.
    pub(super) async fn policies(&mut self, count: usize) -> Result<()> {
        let path = format!("/apis/kuadrant.io/v1/namespaces/{NAMESPACE}/ratelimitpolicies");
        let added = self.policies..count;
        self.create_all(
            added.map(|index| {
                (path.as_str(), fixtures::rate_limit_policy(NAMESPACE, &policy_name(index), NAME))
            }),
        )
        .await?;
        let removed = (count..self.policies).map(|index| {
            let delete = Requests::new(&path).delete(&policy_name(index), &DeleteParams::background());
            delete.context("making a delete")
        });
        raw::send(&self.client, removed.collect::<Result<_>>()?, AT_ONCE)
            .await
            .context("deleting policies")?;
        if self.policies != count {
            self.works = Arc::default();
            self.settled = false;
        }
        self.policies = count;
        Ok(())
    }

    async fn create_all<'a>(&self, objects: impl IntoIterator<Item = (&'a str, Value)>) -> Result<()> {
        let requests = objects.into_iter().map(|(path, object)| {
            let body = serde_json::to_vec(&object).context("writing an object as JSON")?;
            Requests::new(path).create(&PostParams::default(), body).context("making a create")
        });
        raw::send(&self.client, requests.collect::<Result<_>>()?, AT_ONCE).await.map(drop)
    }

    pub(super) fn hub(&self) -> &ControlPlane {
        self.fleet.hub()
    }

    /// How many works of policies there are when all is written.
    pub(super) fn size(&self) -> usize {
        self.policies * self.clusters.len()
    }

    /// Starts the controller, and does not wait.
    pub(super) fn launch(&self) -> Result<Controller> {
        // A Lease that lasts: what is measured is not how soon a dead leader is followed.
        Controller::launch(&self.binary, self.hub(), &["--leader-elect-lease-duration=15"], None)
    }

    /// Watches the works of policies.
    pub(super) async fn observe(&self) -> Result<Observer> {
        Observer::start(&self.client, raw::WORKS, &self.policy_works()).await
    }

    /// The label selector of the controller's works for policies.
    fn policy_works(&self) -> String {
        format!("{},{WORK_FOR}=policy", self.selector())
    }

    /// The label selector of the controller's works.
    pub(super) fn selector(&self) -> String {
        format!("{CONTROLLER}={}", ControllerName::new(DEFAULT_CONTROLLER).hash())
    }

    /// The works of policies that the controller stores here; it is asked once, and its works stay.
    pub(super) async fn works(&mut self) -> Result<Arc<Vec<Stored>>> {
        if self.works.is_empty() {
            self.clear().await?;
            let mut observer = self.observe().await?;
            let controller = self.launch()?;
            observer.until(self.size(), Seen::came).await?;
            controller.terminate().await?;
            self.works = Arc::new(self.stored().await?);
        }
        Ok(self.works.clone())
    }

    /// Sees to it that all works are there and answered for, and that the policies say so. No controller runs then.
    pub(super) async fn settle(&mut self) -> Result<()> {
        if self.settled {
            return Ok(());
        }
        self.works().await?;
        progress(&format!("settling {} works", self.size()));
        let controller = self.launch()?;
        self.quiet().await?;
        agents::answer_all(self, "all is well").await?;
        self.quiet().await?;
        controller.terminate().await?;
        self.settled = true;
        Ok(())
    }

    /// Waits until nobody has written anything for longer than any delay of the controller.
    pub(super) async fn quiet(&self) -> Result<()> {
        let (mut seen, mut since) = (Counts::default(), Instant::now());
        loop {
            let counts = Counts::now(&self.client).await?;
            if counts.since(&seen).writes() > 0.0 {
                (seen, since) = (counts, Instant::now());
            }
            if since.elapsed() > QUIET {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    }

    async fn stored(&self) -> Result<Vec<Stored>> {
        let mut stored = Vec::with_capacity(self.size());
        self.pages(async |page| {
            for work in page {
                stored.push(Stored::of(work)?);
            }
            Ok(())
        })
        .await?;
        ensure!(stored.len() == self.size(), "{} works in place of {}", stored.len(), self.size());
        Ok(stored)
    }

    /// Hands the policies' works out, page by page: all at once would take much memory.
    pub(super) async fn pages(
        &self,
        mut take: impl AsyncFnMut(Vec<ManifestWork>) -> Result<()>,
    ) -> Result<()> {
        let works: Api<ManifestWork> = Api::all(self.client.clone());
        let mut list = ListParams::default().labels(&self.policy_works()).limit(PAGE);
        loop {
            let page = works.list(&list).await.context("listing works")?;
            take(page.items).await?;
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => list.continue_token = Some(token),
                None => return Ok(()),
            }
        }
    }

    /// Deletes all works, cluster by cluster, and waits until they are gone.
    pub(super) async fn clear(&mut self) -> Result<()> {
        self.settled = false;
        let selector = ListParams::default().labels(&self.selector());
        let deletes = self.clusters.iter().map(|cluster| {
            raw::works_of(cluster)
                .delete_collection(&DeleteParams::background(), &selector)
                .context("making a delete")
        });
        raw::send(&self.client, deletes.collect::<Result<_>>()?, AT_ONCE).await.context("deleting works")?;
        wait::until("the works go", LIMIT, || async {
            let left = Api::<ManifestWork>::all(self.client.clone())
                .list_metadata(&selector.clone().limit(1))
                .await?;
            ensure!(left.items.is_empty(), "there are some left");
            Ok(())
        })
        .await
    }
}

fn policy_name(index: usize) -> String {
    format!("limits-{index:04}")
}

/// Writes an object and its status, which are two requests.
async fn with_status(client: &Client, object: Value) -> Result<()> {
    let mut without = object.clone();
    if let Some(fields) = without.as_object_mut() {
        fields.remove("status");
    }
    apply(client, &without).await?;
    apply_status(client, &object).await.map(drop)
}
