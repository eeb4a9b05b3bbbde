//! Controllers with Rego policies and documents: a separate controller that syncs nothing, or the controller that
//! syncs.

use anyhow::{Result, ensure};
use policy_sync_testenv::apply::{apply, apply_all, delete};
use policy_sync_testenv::webhooks::Webhooks;
use policy_sync_testenv::{Controller, fixtures, wait};
use serde_json::{Map, Value, json};

use super::documents::{self, CLUSTERS, PODS, Variety};
use super::hub::{LIMIT, MeasuredHub};
use super::modules::{self, DENYING};
use super::rego_webhooks::{NAMESPACE, RegoWebhooks};
use super::sample;

/// The name of the separate controller.
pub(super) const CONTROLLER_NAME: &str = "example.com/documents";

/// Number of Rego policies of the controller that syncs.
pub(super) const POLICIES: usize = 50;

/// Adds Rego policies and documents to the controller that syncs.
pub(super) async fn enable(hub: &mut MeasuredHub, documents: usize) -> Result<()> {
    if hub.rego_policies.is_some() {
        return Ok(());
    }
    set_policies(hub, &modules::with_placement(POLICIES - 1)).await?;
    documents::fill(&hub.client, documents, Variety::Different).await?;
    let webhooks = Webhooks::with_files(NAMESPACE)?;
    webhooks.install(&hub.client).await?;
    hub.rego_policies = Some(RegoWebhooks(webhooks));
    Ok(())
}

/// Removes Rego policies and documents from the controller that syncs.
pub(super) async fn disable(hub: &mut MeasuredHub) -> Result<()> {
    if let Some(RegoWebhooks(webhooks)) = hub.rego_policies.take() {
        webhooks.uninstall(&hub.client).await?;
        documents::clear(&hub.client, PODS, documents::namespaces()).await?;
    }
    Ok(())
}

/// A controller that reviews the apps of a namespace.
pub(super) struct Reviewer {
    pub(super) controller: Controller,
    webhooks: Webhooks,
    configuration: Value,
}

impl Reviewer {
    /// Starts the controller and registers its webhooks.
    pub(super) async fn start(
        hub: &MeasuredHub,
        namespace: &str,
        pods: usize,
        more: &[String],
    ) -> Result<Self> {
        apply(&hub.client, &fixtures::namespace(namespace)).await?;
        let webhooks = Webhooks::with_files(namespace)?;
        webhooks.install(&hub.client).await?;
        let arguments = [&webhooks.arguments(), more].concat();
        let controller = start(hub, pods, &arguments).await?;
        let configuration = webhooks.placement_of_deployments(namespace)?;
        apply(&hub.client, &configuration).await?;
        Ok(Self { controller, webhooks, configuration })
    }

    /// The port of the webhooks, and their CA certificate as PEM.
    pub(super) fn webhooks(&self) -> Result<(u16, String)> {
        Ok((self.webhooks.port(), self.webhooks.authority()?))
    }

    /// Deletes the webhook configurations and stops the controller.
    pub(super) async fn stop(self, hub: &MeasuredHub) -> Result<()> {
        delete(&hub.client, &self.configuration).await?;
        self.webhooks.uninstall(&hub.client).await?;
        self.controller.terminate().await.map(drop)
    }
}

/// Creates the Rego policies and the clusters.
pub(super) async fn set(hub: &MeasuredHub) -> Result<()> {
    set_policies(hub, &modules::with_placement(DENYING)).await?;
    let clusters: Vec<Value> = (0..CLUSTERS).map(documents::cluster).collect();
    apply_all(&hub.client, &clusters).await
}

/// The argument that exempts the namespaces of documents from reviews. Rows measure reviews only in other namespaces.
pub(super) fn exempt() -> String {
    format!("--exempt-namespaces={}", documents::PATTERN)
}

/// Replaces the Rego modules.
pub(super) async fn set_policies(hub: &MeasuredHub, modules: &[(String, String)]) -> Result<()> {
    let keys: Map<String, Value> =
        modules.iter().map(|(key, text)| (key.clone(), text.as_str().into())).collect();
    let carrier = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NAMESPACE, "namespace": NAMESPACE},
        "data": keys,
    });
    apply_all(&hub.client, &[fixtures::namespace(NAMESPACE), carrier]).await
}

/// Starts a controller, and waits until it has loaded the modules of [`set`] and this number of pods.
pub(super) async fn start(hub: &MeasuredHub, pods: usize, more: &[String]) -> Result<Controller> {
    let controller = start_with(hub, 1 + DENYING, more).await?;
    until_says(&controller, "policy_sync_rego_documents", ("kind", "pods"), pods).await?;
    Ok(controller)
}

/// Starts a controller, and waits until it has loaded this number of modules.
pub(super) async fn start_with(hub: &MeasuredHub, modules: usize, more: &[String]) -> Result<Controller> {
    let mut arguments =
        vec![format!("--controller-name={CONTROLLER_NAME}"), format!("--rego-namespace={NAMESPACE}")];
    if more.iter().all(|argument| !argument.starts_with("--webhook-bind-address")) {
        arguments.push("--webhook-bind-address=0".to_owned());
    }
    arguments.extend_from_slice(more);
    let (_, controller) = hub.start_with(&arguments).await?;
    until_says(&controller, "policy_sync_rego_modules", ("state", "loaded"), modules).await?;
    Ok(controller)
}

/// Waits until this metric of `controller` has the expected value for this label.
async fn until_says(
    controller: &Controller,
    metric: &str,
    label: (&str, &str),
    expected: usize,
) -> Result<()> {
    wait::until(&format!("{metric} is {expected}"), LIMIT, || async {
        let found = controller.metrics().await?.value(metric, &[label])?;
        ensure!(found == sample::count(expected), "it is {found}");
        Ok(())
    })
    .await
}
