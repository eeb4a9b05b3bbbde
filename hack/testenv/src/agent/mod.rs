//! A spoke's work agent: OCM's own where `POLICY_SYNC_WORK_AGENT` names its `work` binary, otherwise our stand-in.
//!
//! The tests must not be able to tell them apart. Both come with two kubeconfigs and nothing else: the hub's with the
//! rights of the cluster's agent, the spoke's with those of a klusterlet.

mod external;
pub mod stand_in;

use std::path::PathBuf;

use anyhow::Result;

use crate::process::Workplace;

/// What an agent is told.
#[derive(Debug, Clone)]
pub struct AgentConfig {
    /// The cluster's name on the hub.
    pub cluster: String,
    /// How to reach the hub as this cluster's agent.
    pub hub_kubeconfig: PathBuf,
    /// How to reach the spoke as its klusterlet's agent.
    pub spoke_kubeconfig: PathBuf,
    /// Stays the same over restarts: objects that another agent id has applied would be evicted.
    pub agent_id: String,
    /// Whether lists, objects and fractions are fed back, as JSON: the feature gate `RawFeedbackJsonString`.
    pub raw_feedback: bool,
    /// Where it runs and logs.
    pub workplace: Workplace,
}

/// A running agent. Dropping it ends it.
#[derive(Debug)]
pub enum Agent {
    /// OCM's.
    External(external::External),
    /// Ours.
    StandIn(stand_in::StandIn),
}

/// The `work` binary that `POLICY_SYNC_WORK_AGENT` names, if any. An empty name is none.
pub fn external_binary() -> Option<PathBuf> {
    std::env::var_os("POLICY_SYNC_WORK_AGENT").filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Starts an agent on the runtime that is current here.
pub async fn spawn(config: AgentConfig) -> Result<Agent> {
    Ok(match external_binary() {
        Some(binary) => Agent::External(external::External::start(&binary, &config)?),
        None => Agent::StandIn(stand_in::StandIn::start(stand_in::StandInConfig::read(&config).await?)),
    })
}

impl Agent {
    /// Ends it, as a crash would, and returns when it does nothing any more.
    pub async fn stop(self) {
        match self {
            Self::External(external) => drop(external),
            Self::StandIn(stand_in) => stand_in.stop().await,
        }
    }
}
