//! A spoke's work agent: the `work` binary of OCM that `POLICY_SYNC_WORK_AGENT` names, otherwise [`stand_in`].
//!
//! Tests must have the same results with both agents. Each agent gets only two kubeconfigs: for the hub, with the
//! rights of the cluster's agent, and for the spoke, with the rights of a klusterlet.

mod external;
pub mod stand_in;

use std::path::PathBuf;

use anyhow::Result;

use crate::process::RuntimeDirectory;

/// Configuration of a work agent.
#[derive(Debug, Clone)]
pub struct AgentConfig {
    /// The cluster's name on the hub.
    pub cluster: String,
    /// Kubeconfig for the hub, as this cluster's agent.
    pub hub_kubeconfig: PathBuf,
    /// Kubeconfig for the spoke, with the rights of a klusterlet.
    pub spoke_kubeconfig: PathBuf,
    /// The id of the agent, which must stay the same over restarts: an agent evicts objects that were applied under
    /// another id.
    pub agent_id: String,
    /// Whether lists, objects and fractions are reported as JSON: the feature gate `RawFeedbackJsonString`.
    pub raw_feedback: bool,
    /// Runs and logs the process of OCM's agent.
    pub runtime_directory: RuntimeDirectory,
}

/// A running agent. Dropping it stops the agent.
#[derive(Debug)]
pub enum Agent {
    /// OCM's agent, as a child process.
    External(external::External),
    /// The built-in agent, as a task.
    StandIn(stand_in::StandIn),
}

/// The path in `POLICY_SYNC_WORK_AGENT`, if it is set and not empty.
pub fn external_binary() -> Option<PathBuf> {
    std::env::var_os("POLICY_SYNC_WORK_AGENT").filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Starts an agent on the current runtime.
pub async fn spawn(config: AgentConfig) -> Result<Agent> {
    Ok(match external_binary() {
        Some(binary) => Agent::External(external::External::start(&binary, &config)?),
        None => Agent::StandIn(stand_in::StandIn::start(stand_in::StandInConfig::read(&config).await?)),
    })
}

impl Agent {
    /// Stops the agent without cleanup, as a crash would, and returns when its process or task has ended.
    pub async fn stop(self) {
        match self {
            Self::External(external) => drop(external),
            Self::StandIn(stand_in) => stand_in.stop().await,
        }
    }
}
