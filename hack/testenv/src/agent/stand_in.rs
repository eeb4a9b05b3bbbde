//! A work agent for machines without Open Cluster Management. For a producer of works it behaves like OCM's
//! agent.
//!
//! ```text
//!            ┌─ applying ─▶ spoke: objects, AppliedManifestWork ─▶ hub: Applied, finalizer
//! hub watch ─┤                  │ watch
//!            └─ observing ◀─────┘                               ─▶ hub: Available, feedback
//! ```
//!
//! A work is applied when it is new, when its spec or labels change, at the resync, and after a failure. The first
//! retry follows after 5 ms, and each further delay doubles. A conflict of server-side apply is not a failure, so
//! it causes no retry. A work is observed at each of its changes, at changes of a watched object, and at each poll.
//!
//! These features are not implemented, because no test needs them yet: the strategies `Update` and `ReadOnly` (rejected
//! with a message), `ignoreFields`, executors, well-known feedback and conditions, eviction, client-side throttling.

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

/// Concurrent runs of each of the two loops.
const WORKERS: usize = 10;

/// Configuration of the built-in agent. Durations default to the durations in OCM.
#[derive(Clone)]
pub struct StandInConfig {
    /// The cluster's name, and its namespace on the hub.
    pub cluster: String,
    /// The id of the agent, which must stay the same over restarts.
    pub agent_id: String,
    /// The hub's URL. The names of AppliedManifestWorks contain its hash.
    pub hub_url: String,
    /// Client of the hub, with the rights of the cluster's agent.
    pub hub: Client,
    /// Client of the spoke, with the rights of a klusterlet.
    pub spoke: Client,
    /// Interval at which an unchanged work is applied again, plus a random part of up to 50 %.
    pub resync: Duration,
    /// Interval at which a work's objects are read again, plus a random part of up to 90 %.
    pub poll: Duration,
    /// Maximum number of watches on the spoke. Objects above the limit are polled.
    pub watches: usize,
    /// Whether lists, objects and fractions are reported as JSON.
    pub raw_feedback: bool,
}

impl StandInConfig {
    /// An agent with OCM's defaults: resync after 4 to 6 minutes, poll after 10 to 19 seconds, 50 watches, no
    /// JSON.
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

    /// Creates the clients from the kubeconfigs in `config`. Polls after 2 to 4 seconds.
    ///
    /// # Errors
    /// Returns an error if a kubeconfig cannot be read.
    pub async fn read(config: &AgentConfig) -> Result<Self> {
        let hub = client_config(&config.hub_kubeconfig).await?;
        let hub_url = hub.cluster_url.to_string();
        let spoke = client_config(&config.spoke_kubeconfig).await?;
        let (hub, spoke) = (Client::try_from(hub)?, Client::try_from(spoke)?);
        // OCM's agent gets the same interval in this environment (`--status-sync-interval`).
        let poll = Duration::from_secs(2);
        let raw_feedback = config.raw_feedback;
        Ok(Self { poll, raw_feedback, ..Self::new(&config.cluster, &config.agent_id, &hub_url, hub, spoke) })
    }
}

async fn client_config(path: &Path) -> Result<Config> {
    let kubeconfig = Kubeconfig::read_from(path).with_context(|| format!("reading {}", path.display()))?;
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .with_context(|| format!("creating a client from {}", path.display()))
}

/// Runs an agent until `stop` is cancelled. Failed operations are retried.
///
/// # Errors
/// At present, the start cannot fail.
pub async fn run(config: StandInConfig, stop: CancellationToken) -> Result<()> {
    let (apply, apply_names) = unbounded_channel();
    let (observe, observe_names) = unbounded_channel();
    let (cached, writer) = reflector::store();
    // Dropping this future stops the watches on the spoke.
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

/// The built-in agent, as a task. Dropping it stops the task.
#[derive(Debug)]
pub struct StandIn {
    stop: CancellationToken,
    task: AbortOnDropHandle<Result<()>>,
}

impl StandIn {
    /// Starts an agent on the current runtime.
    #[must_use]
    pub fn start(config: StandInConfig) -> Self {
        let stop = CancellationToken::new();
        let task = AbortOnDropHandle::new(tokio::spawn(run(config, stop.clone())));
        Self { stop, task }
    }

    /// Stops the agent without cleanup, as a crash would, and returns when its task has ended.
    pub async fn stop(self) {
        self.stop.cancel();
        // An error means that the task has panicked, which has ended the task, too.
        let _ = self.task.await;
    }
}
