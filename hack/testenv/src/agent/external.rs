//! OCM's work agent as a child process.

use std::path::Path;

use anyhow::{Context, Result};

use super::AgentConfig;
use crate::ports::Port;
use crate::process::Server;

/// A running `work agent`.
#[derive(Debug)]
pub struct External {
    _server: Server,
    _port: Port,
}

impl External {
    pub(super) fn start(binary: &Path, config: &AgentConfig) -> Result<Self> {
        let binary = binary
            .canonicalize()
            .with_context(|| format!("POLICY_SYNC_WORK_AGENT is set to {}", binary.display()))?;
        let port = Port::reserve()?;
        let arguments = [
            "agent".to_owned(),
            format!("--kubeconfig={}", config.spoke_kubeconfig.display()),
            "--workload-source-driver=kube".to_owned(),
            // The hub's kubeconfig. The flag `--hub-kubeconfig` is for another driver.
            format!("--workload-source-config={}", config.hub_kubeconfig.display()),
            // Without the name, the agent applies the works of every cluster.
            format!("--spoke-cluster-name={}", config.cluster),
            format!("--agent-id={}", config.agent_id),
            "--disable-leader-election".to_owned(),
            "--namespace=default".to_owned(),
            format!("--listen=127.0.0.1:{}", port.number()),
            "--status-sync-interval=2s".to_owned(),
            format!("--feature-gates=RawFeedbackJsonString={}", config.raw_feedback),
        ];
        let server =
            config.runtime_directory.spawn(&format!("work-agent-{}", config.cluster), &binary, &arguments)?;
        Ok(Self { _server: server, _port: port })
    }
}
