//! A work agent for machines that have no Open Cluster Management: what OCM's does, as far as a producer can see it.
//!
//! ```text
//!            ┌─ applying ─▶ spoke: objects, AppliedManifestWork ─▶ hub: Applied, finalizer
//! hub watch ─┤                  │ watch
//!            └─ observing ◀─────┘                               ─▶ hub: Available, feedback
//! ```
//!
//! Applying starts when a work is new, when its spec or labels change, at the resync, and after a failure: 5 ms later, then
//! twice that, and so on. A conflict of server-side apply is no failure: it waits for the resync.
//! Observing starts at every change of the work, at changes of a watched object, and at each poll.
//!
//! Not here, because no test of a producer needs it yet: the strategies `Update` and `ReadOnly` (refused with a
//! message), `ignoreFields`, executors, well-known feedback and conditions, eviction, client-side throttling.

mod applying;
mod conditions;
mod feedback;
mod hub;
mod manifest;
mod observing;
mod path;
mod queue;
mod record;
mod removal;
mod rounds;
mod spoke;
mod state;
mod status;
mod watches;
mod works;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::reflector;
use kube::{Api, Client, Config};
use tokio::sync::mpsc::unbounded_channel;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use self::record::Records;
use self::spoke::Spoke;
use self::state::Agent;
use self::watches::Watches;
use super::AgentConfig;

/// How many works are applied, and how many observed, at once.
const WORKERS: usize = 10;

/// What a stand-in agent is told. Durations start at OCM's defaults.
#[derive(Clone)]
pub struct StandInConfig {
    /// The cluster's name, and its namespace on the hub.
    pub cluster: String,
    /// Stays the same over restarts.
    pub agent_id: String,
    /// The hub's address. Records on the spoke carry a hash of it.
    pub hub_url: String,
    /// The hub, with the rights of the cluster's agent.
    pub hub: Client,
    /// The spoke, with the rights of a klusterlet.
    pub spoke: Client,
    /// When a work is applied again that has not changed: after this time, and up to half of it more.
    pub resync: Duration,
    /// When a work's objects are looked at again: after this time, and up to nine tenths of it more.
    pub poll: Duration,
    /// How many watches on the spoke there are at most; past it, objects are polled.
    pub watches: usize,
    /// Whether lists, objects and fractions are fed back, as JSON.
    pub raw_feedback: bool,
}

impl StandInConfig {
    /// An agent with OCM's defaults: a resync after 4 to 6 minutes, a poll after 10 to 19 seconds, 50 watches, no JSON.
    #[must_use]
    pub fn new(cluster: &str, agent_id: &str, hub_url: &str, hub: Client, spoke: Client) -> Self {
        Self {
            cluster: cluster.into(),
            agent_id: agent_id.into(),
            hub_url: hub_url.into(),
            hub,
            spoke,
            resync: Duration::from_secs(240),
            poll: Duration::from_secs(10),
            watches: 50,
            raw_feedback: false,
        }
    }

    /// What `config` says, with the clients that its kubeconfigs stand for, and a poll after 2 to 4 seconds.
    ///
    /// # Errors
    /// A kubeconfig that cannot be read.
    pub async fn read(config: &AgentConfig) -> Result<Self> {
        let hub = client_config(&config.hub_kubeconfig).await?;
        let hub_url = hub.cluster_url.to_string();
        let spoke = client_config(&config.spoke_kubeconfig).await?;
        let (hub, spoke) = (Client::try_from(hub)?, Client::try_from(spoke)?);
        // OCM's agent gets the same interval in this environment.
        let poll = Duration::from_secs(2);
        let raw_feedback = config.raw_feedback;
        Ok(Self { poll, raw_feedback, ..Self::new(&config.cluster, &config.agent_id, &hub_url, hub, spoke) })
    }
}

async fn client_config(path: &Path) -> Result<Config> {
    let kubeconfig = Kubeconfig::read_from(path).with_context(|| format!("reading {}", path.display()))?;
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .with_context(|| format!("configuring a client with {}", path.display()))
}

/// Runs an agent until `stop` is cancelled. No error ends it before: what fails is tried again.
///
/// # Errors
/// None at present; the type leaves room for a start that fails.
pub async fn run(config: StandInConfig, stop: CancellationToken) -> Result<()> {
    let (apply, apply_names) = unbounded_channel();
    let (observe, observe_names) = unbounded_channel();
    let (cached, writer) = reflector::store();
    // Whatever ends this future ends the watches on the spoke.
    let watches_stop = stop.child_token();
    let _watches_guard = watches_stop.clone().drop_guard();
    let agent = Arc::new(Agent {
        works: Api::namespaced(config.hub, &config.cluster),
        cached,
        spoke: Spoke::new(config.spoke.clone()),
        records: Records::new(config.spoke.clone(), &config.hub_url, config.agent_id),
        watches: Watches::new(config.spoke, config.watches, observe.clone(), watches_stop),
        cluster: config.cluster,
        resync: config.resync,
        poll: config.poll,
        raw_feedback: config.raw_feedback,
        failures: state::Failures::default(),
    });

    let applying = queue::drive(apply_names, WORKERS, stop.clone(), |name| {
        let agent = Arc::clone(&agent);
        async move { agent.apply(&name).await }
    });
    let observing = queue::drive(observe_names, WORKERS, stop.clone(), |name| {
        let agent = Arc::clone(&agent);
        async move { agent.observe(&name).await }
    });
    let following = stop.run_until_cancelled(works::follow(&agent, writer, apply, observe));
    tokio::join!(applying, observing, following);
    Ok(())
}

/// Our agent, as a task. Dropping it ends it.
#[derive(Debug)]
pub struct StandIn {
    stop: CancellationToken,
    task: AbortOnDropHandle<Result<()>>,
}

impl StandIn {
    /// Runs an agent on the runtime that is current here.
    #[must_use]
    pub fn start(config: StandInConfig) -> Self {
        let stop = CancellationToken::new();
        let task = AbortOnDropHandle::new(tokio::spawn(run(config, stop.clone())));
        Self { stop, task }
    }

    /// Ends it, as a crash would, and returns when it does nothing any more.
    pub async fn stop(self) {
        self.stop.cancel();
        // A task that has panicked has ended, too.
        let _ = self.task.await;
    }
}
