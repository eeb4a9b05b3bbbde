//! A spoke: its control plane, its work agent and its policy controller.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::Client;
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use crate::agent::{self, Agent, AgentConfig};
use crate::apply::apply_all;
use crate::control_plane::{ControlPlane, ControlPlaneOptions};
use crate::policy_controller::{self, PolicyController};
use crate::{rights, wait};

/// Time limit for the aggregation of the agent's rights.
const AUTHORIZED_WITHIN: Duration = Duration::from_secs(60);

/// A running spoke.
#[derive(Debug)]
pub struct Spoke {
    agent_config: AgentConfig,
    // Fields are dropped in this order, so that clients stop before the API server.
    agent: Mutex<Option<Agent>>,
    policy_controller: Mutex<Option<PolicyController>>,
    /// Runs the tasks of agent and policy controller. The runtime of a test cannot run these tasks, because the test
    /// may end before a shared fleet.
    runtime: Handle,
    plane: ControlPlane,
}

impl Spoke {
    /// Starts the control plane and grants the agent's rights. Agent and policy controller start later, because
    /// they need the hub.
    pub(crate) async fn prepare(options: ControlPlaneOptions) -> Result<ControlPlane> {
        let plane = ControlPlane::start(options).await?;
        apply_all(&plane.client()?, &rights::on_spoke()).await?;
        authorized(&plane).await?;
        Ok(plane)
    }

    /// Joins a prepared control plane to the hub as `cluster`.
    pub(crate) fn join(hub: &ControlPlane, plane: ControlPlane, raw_feedback: bool) -> Result<Self> {
        let cluster = plane.name().to_owned();
        let agent_config = AgentConfig {
            hub_kubeconfig: hub.kubeconfig_for(&rights::hub_user(&cluster))?,
            spoke_kubeconfig: plane.kubeconfig_for(&rights::spoke_user())?,
            agent_id: format!("agent-{cluster}"),
            raw_feedback,
            runtime_directory: plane.runtime_directory().clone(),
            cluster,
        };
        Ok(Self {
            agent_config,
            agent: Mutex::default(),
            policy_controller: Mutex::default(),
            runtime: Handle::current(),
            plane,
        })
    }

    /// The cluster's name.
    pub fn name(&self) -> &str {
        self.plane.name()
    }

    /// A new administrator client, bound to the current runtime.
    pub fn client(&self) -> Result<Client> {
        self.plane.client()
    }

    /// Path of the administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        self.plane.kubeconfig()
    }

    /// The control plane, for example to stop and start its API server.
    pub fn control_plane(&self) -> &ControlPlane {
        &self.plane
    }

    /// Starts the work agent if it is not running.
    pub async fn start_agent(&self) -> Result<()> {
        let mut agent = self.agent.lock().await;
        if agent.is_none() {
            let started = self.runtime.spawn(agent::spawn(self.agent_config.clone()));
            let started = started.await.context("the start of the agent panicked")?;
            *agent = Some(started.with_context(|| format!("starting the work agent of {}", self.name()))?);
        }
        Ok(())
    }

    /// Stops the work agent without cleanup, as a crash would.
    pub async fn stop_agent(&self) {
        if let Some(agent) = self.agent.lock().await.take() {
            agent.stop().await;
        }
    }

    /// Starts the policy controller if it is not running.
    pub async fn start_policy_controller(&self) -> Result<()> {
        let mut controller = self.policy_controller.lock().await;
        if controller.is_none() {
            let plane_client = self.plane.client_config();
            let started = self.runtime.spawn(async move {
                // The client is created on this runtime, because a client is bound to a runtime.
                policy_controller::spawn(Client::try_from(plane_client).context("creating a client")?).await
            });
            let started = started.await.context("the start of the policy controller panicked")?;
            *controller =
                Some(started.with_context(|| format!("starting the policy controller of {}", self.name()))?);
        }
        Ok(())
    }

    /// Stops the policy controller.
    pub async fn stop_policy_controller(&self) {
        if let Some(controller) = self.policy_controller.lock().await.take() {
            controller.stop().await;
        }
    }
}

/// Waits until the agent has its rights. The controller manager aggregates two of the agent's roles, and the API server
/// applies these roles with a delay. An agent that starts earlier is rejected and backs off.
async fn authorized(plane: &ControlPlane) -> Result<()> {
    let agent = plane.client_for(&rights::spoke_user()).await?;
    wait::until("the agent's permissions are effective", AUTHORIZED_WITHIN, || async {
        for (resource, group, namespace) in rights::AGGREGATED {
            ensure!(
                rights::may(&agent, "create", resource, group, namespace).await?,
                "the agent may not create {resource}"
            );
        }
        Ok(())
    })
    .await
}
