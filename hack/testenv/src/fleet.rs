//! A hub and its spokes.
//!
//! The start takes seconds, so the tests of a binary share one fleet ([`Fleet::shared`]) and use separate namespaces. A
//! test that breaks parts of a fleet starts a separate fleet.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;

use anyhow::{Context, Result};
use futures::future::try_join_all;
use kube::Client;
use tokio::runtime::Runtime;
use tokio::sync::OnceCell;

use crate::apply::{apply, apply_all};
use crate::binaries;
use crate::control_plane::{ControlPlane, ControlPlaneOptions};
use crate::crds::{self, ClusterType};
use crate::fixtures;
use crate::rights;
use crate::spoke::Spoke;

/// Options of a fleet.
#[derive(Debug, Clone)]
pub struct FleetOptions {
    /// Names of the spokes, with the labels of their ManagedClusters.
    pub spokes: Vec<(String, BTreeMap<String, String>)>,
    /// Whether to start work agents on the spokes.
    pub agents: bool,
    /// Whether to start policy controllers on the spokes.
    pub policy_controllers: bool,
    /// Whether the work agents report lists, objects and fractions as JSON.
    pub raw_feedback: bool,
    /// The directory for all files, which is kept. By default, temporary directories.
    pub directory: Option<PathBuf>,
}

impl FleetOptions {
    /// Spokes with agents and policy controllers. The label `region` of each spoke is the part of the spoke's name
    /// before the first `-`.
    pub fn spokes<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let labelled = |name: &str| {
            let region = name.split('-').next().unwrap_or(name).to_owned();
            (name.to_owned(), BTreeMap::from([("region".to_owned(), region)]))
        };
        Self {
            spokes: names.into_iter().map(labelled).collect(),
            agents: true,
            policy_controllers: true,
            raw_feedback: false,
            directory: None,
        }
    }

    fn plane(&self, name: &str, crds: Vec<crds::Crd>) -> ControlPlaneOptions {
        ControlPlaneOptions {
            name: name.to_owned(),
            crds,
            directory: self.directory.as_ref().map(|directory| directory.join(name)),
        }
    }
}

/// A running fleet. Dropping it stops all its programs.
#[derive(Debug)]
pub struct Fleet {
    spokes: Vec<Spoke>,
    hub: ControlPlane,
}

impl Fleet {
    /// Starts the hub and the spokes in parallel, then the agents.
    pub async fn start(options: FleetOptions) -> Result<Self> {
        let binaries = binaries::ensure().await?;
        let (hub_crds, spoke_crds) = (
            crds::for_cluster_type(ClusterType::Hub, &binaries)?,
            crds::for_cluster_type(ClusterType::Spoke, &binaries)?,
        );
        let hub = async {
            let hub = ControlPlane::start(options.plane("hub", hub_crds)).await?;
            register(&hub.client()?, &options).await?;
            anyhow::Ok(hub)
        };
        let planes =
            options.spokes.iter().map(|(name, _)| Spoke::prepare(options.plane(name, spoke_crds.clone())));
        let (hub, planes) = tokio::try_join!(hub, try_join_all(planes))?;
        let join = |plane| Spoke::join(&hub, plane, options.raw_feedback);
        let spokes = planes.into_iter().map(join).collect::<Result<Vec<_>>>()?;
        let fleet = Self { spokes, hub };
        try_join_all(fleet.spokes.iter().map(|spoke| async {
            if options.agents {
                spoke.start_agent().await?;
            }
            if options.policy_controllers {
                spoke.start_policy_controller().await?;
            }
            anyhow::Ok(())
        }))
        .await?;
        Ok(fleet)
    }

    /// The fleet shared by the tests of this process, with spokes `eu-1` and `us-1`. It ends with the process.
    pub async fn shared() -> Result<&'static Self> {
        static FLEET: OnceCell<Fleet> = OnceCell::const_new();
        Self::shared_in(&FLEET, FleetOptions::spokes(["eu-1", "us-1"])).await
    }

    /// A hub shared by the tests of this process. Its clusters `eu-1` and `us-1` have no control plane; tests
    /// write the statuses that their agents would report.
    pub async fn shared_hub() -> Result<&'static Self> {
        static HUB: OnceCell<Fleet> = OnceCell::const_new();
        let fleet = Self::shared_in(&HUB, FleetOptions::spokes([])).await?;
        register(&fleet.hub.client()?, &FleetOptions::spokes(["eu-1", "us-1"])).await?;
        Ok(fleet)
    }

    async fn shared_in(cell: &'static OnceCell<Self>, options: FleetOptions) -> Result<&'static Self> {
        let start = || async {
            // A separate runtime, because the runtime of a test ends with the test and with all tasks that were
            // spawned there.
            let started = shared_runtime()?.spawn(Self::start(options));
            started.await.context("the start of the shared fleet panicked")?
        };
        cell.get_or_try_init(start).await
    }

    /// The hub.
    pub fn hub(&self) -> &ControlPlane {
        &self.hub
    }

    /// The spoke called `name`.
    pub fn spoke(&self, name: &str) -> Result<&Spoke> {
        self.spokes
            .iter()
            .find(|spoke| spoke.name() == name)
            .with_context(|| format!("the fleet has no spoke {name}"))
    }

    /// All spokes.
    pub fn spokes(&self) -> &[Spoke] {
        &self.spokes
    }
}

/// Creates ManagedClusters, and the rights of the agents, on the hub.
async fn register(hub: &Client, options: &FleetOptions) -> Result<()> {
    try_join_all(options.spokes.iter().map(|(name, labels)| async move {
        apply(hub, &fixtures::managed_cluster(name, labels)).await?;
        apply_all(hub, &rights::on_hub(name)).await
    }))
    .await
    .context("creating the spokes' objects on the hub")?;
    Ok(())
}

fn shared_runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<std::io::Result<Runtime>> = OnceLock::new();
    let build = || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    RUNTIME
        .get_or_init(build)
        .as_ref()
        .map_err(|error| anyhow::anyhow!("no runtime for the shared fleet: {error}"))
}
