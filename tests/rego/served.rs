//! A controller whose placement webhook the API server calls.

use anyhow::Result;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, DeleteParams};
use policy_sync_testenv::Controller;
use policy_sync_testenv::apply::{api_for, apply};
use policy_sync_testenv::webhooks::Webhooks;
use serde_json::{Value, json};

use crate::world::World;

pub(crate) const PREFERENCES: &str = "federation.kubernetes.io/replica-set-preferences";

/// The published Rego policy about card data, changed to place apps in `zone`.
pub(crate) fn pci(zone: &str) -> String {
    include_str!("../../docs/examples/rego/placement/pci.rego").replace("\"eu\"", &format!("\"{zone}\""))
}

/// A controller whose webhook the API server calls for Deployments in the world's namespace.
pub(crate) struct DeploymentWebhooks {
    pub(crate) world: World,
    pub(crate) controller: Controller,
    pub(crate) webhooks: Webhooks,
}

impl DeploymentWebhooks {
    pub(crate) async fn start(namespace: &str) -> Result<Self> {
        Self::with(namespace, &[]).await
    }

    /// Starts a controller with `more` arguments.
    pub(crate) async fn with(namespace: &str, more: &[&str]) -> Result<Self> {
        let (world, webhooks) = (World::new(namespace).await?, Webhooks::with_files(namespace)?);
        webhooks.install(&world.client).await?;
        let arguments = webhooks.arguments();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let controller = world.controller(&arguments).await?;
        apply(&world.client, &webhooks.placement_of_deployments(namespace)?).await?;
        Ok(Self { world, controller, webhooks })
    }

    /// Stops the controller and deletes its webhook configurations.
    pub(crate) async fn stop(self) -> Result<()> {
        let (api, name) =
            api_for(&self.world.client, &self.webhooks.placement_of_deployments(&self.world.namespace)?)
                .await?;
        api.delete(&name, &DeleteParams::default()).await?;
        self.webhooks.uninstall(&self.world.client).await
    }

    pub(crate) fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.world.client.clone(), &self.world.namespace)
    }
}

pub(crate) fn app(name: &str, annotations: Value) -> Result<Deployment> {
    let labels = json!({"app": name});
    let container = json!({"name": "c", "image": "i"});
    Ok(serde_json::from_value(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}},
    }))?)
}

/// A certified cluster in this zone.
pub(crate) fn cluster(name: &str, zone: &str) -> Value {
    json!({
        "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
        "metadata": {"name": name, "labels": {"zone": zone, "pci": "certified"}}, "spec": {"hubAcceptsClient": true},
    })
}
