//! A hub in memory, with users, agents and the controller.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use policy_sync::apply::{Elector, ElectorOptions};
use policy_sync_testenv::apply::{apply, apply_with_status};
use policy_sync_testenv::fixtures::{
    gateway_class, managed_cluster, namespace, params_config_map, placement, placement_decision,
};
use policy_sync_testenv::memory::{Asked, Interposer, MemoryServer, agents};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// The namespace of all users' objects, and the class.
pub(crate) const SHOP: &str = "shop";
/// The controller's name.
pub(crate) const CONTROLLER: &str = "example.com/policy-sync";
/// The user as whom the controller asks.
pub(crate) const USER: &str = "controller";
/// Longer than the longest backoff, after which something else might be tried.
const QUIET: Duration = Duration::from_secs(75);
/// Longer than anything that a controller waits for, several times.
const LIMIT: Duration = Duration::from_secs(3600);

/// A hub in memory.
#[derive(Clone)]
pub(crate) struct Hub {
    pub(crate) server: MemoryServer,
}

/// A controller in this process.
pub(crate) struct Running {
    stop: CancellationToken,
    working: JoinHandle<()>,
}

impl Running {
    /// Stops it as SIGTERM would.
    pub(crate) async fn terminate(self) -> Result<()> {
        self.stop.cancel();
        Ok(self.working.await?)
    }
}

/// Whether it counts as a write of the controller.
fn counts(asked: &Asked) -> bool {
    asked.user == USER && asked.is_write() && !matches!(asked.resource.as_str(), "leases" | "events")
}

impl Hub {
    /// A hub with the clusters `eu-1` and `us-1`, whose agents are at work, and a class with `parameters`.
    pub(crate) async fn new(parameters: &Value) -> Result<Self> {
        let hub = Self { server: MemoryServer::hub()? };
        let agents = agents(hub.server.clone());
        tokio::spawn(async { agents.await.expect("the agents work") });
        for (cluster, region) in [("eu-1", "eu"), ("us-1", "us")] {
            hub.apply(&namespace(cluster)).await?;
            let labels = [("region".to_owned(), region.to_owned())].into();
            hub.apply(&managed_cluster(cluster, &labels)).await?;
        }
        hub.apply(&namespace(SHOP)).await?;
        hub.parameters(parameters).await?;
        hub.apply(&gateway_class(SHOP, CONTROLLER, Some((SHOP, "params")))).await?;
        Ok(hub)
    }

    /// Starts the controller, without rivals.
    pub(crate) fn controller(&self, faults: impl Interposer) -> Result<Running> {
        self.start(faults, false)
    }

    /// Starts a controller that has to take the Lease.
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
        let stop = CancellationToken::new();
        let working = flow.start(stop.clone());
        Ok(Running { stop, working })
    }

    /// Writes an object as a user would.
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

    /// Makes a Placement choose `clusters`, decision first, as its controller does.
    pub(crate) async fn place(&self, name: &str, clusters: &[&str]) -> Result<()> {
        for object in [placement_decision(SHOP, name, 1, clusters), placement(SHOP, name, clusters.len())] {
            apply_with_status(&self.server.client(), &object).await?;
        }
        Ok(())
    }

    /// What the controller has asked so far that would change something, Leases and Events apart.
    pub(crate) fn writes(&self) -> Vec<Asked> {
        self.server.requests().into_iter().filter(counts).collect()
    }

    /// The works that there are: `<cluster>/<kind>-<name>`, without the hash.
    pub(crate) fn works(&self) -> Vec<String> {
        let objects = self.server.objects();
        let names = objects.keys().filter_map(|name| {
            name.strip_prefix("manifestworks.work.open-cluster-management.io ")?.rsplit_once('-')
        });
        names.map(|(readable, _)| readable.to_owned()).collect()
    }

    /// Waits until nothing is held back and the controller has not written for [`QUIET`]; then for as long as a watch
    /// lasts, in which it must not write either.
    pub(crate) async fn settled(&self) -> Result<()> {
        let start = Instant::now();
        let (mut seen, mut since) = (usize::MAX, start);
        while since.elapsed() < QUIET {
            if start.elapsed() > LIMIT {
                bail!("it does not settle: its last write was {}", self.writes().last().unwrap());
            }
            sleep(Duration::from_secs(1)).await;
            let writes = self.server.count(counts);
            if writes != seen || !self.server.is_undisturbed() {
                (seen, since) = (writes, Instant::now());
            }
        }
        sleep(Duration::from_secs(300)).await;
        let writes = self.writes();
        ensure!(writes.len() == seen, "once settled, it wrote {}", writes[seen]);
        Ok(())
    }
}
