//! A hub whose API server sends requests of users and admission reviews to a controller, with the configuration
//! in the published manifests.

use anyhow::{Context, Result};
use kube::Client;
use policy_sync_testenv::Controller;
use policy_sync_testenv::apply::apply;
use policy_sync_testenv::authorization::Authorization;
use policy_sync_testenv::certificates::User;
use policy_sync_testenv::fixtures;
use policy_sync_testenv::rights::everything;
use policy_sync_testenv::webhooks::Webhooks;

use crate::hub::MeasuredHub;
use crate::rego_policies;

/// A controller that authorizes users and reviews writes.
pub(super) struct Authorizer {
    pub(super) controller: Controller,
    pub(super) webhooks: Webhooks,
    pub(super) files: Authorization,
}

impl Authorizer {
    /// Starts the controller, waits until it has loaded this number of modules, and configures the API server to
    /// use it.
    pub(super) async fn start(hub: &MeasuredHub, namespace: &str, modules: usize) -> Result<Self> {
        apply(&hub.client, &fixtures::namespace(namespace)).await?;
        let webhooks = Webhooks::with_files(namespace)?;
        webhooks.install(&hub.client).await?;
        let files = Authorization::new(&webhooks)?;
        let arguments = [webhooks.arguments(), vec![files.argument()]].concat();
        let controller = rego_policies::start_with(hub, modules, &arguments).await?;
        hub.hub().authorize_by(&files.configuration()).await?;
        Ok(Self { controller, webhooks, files })
    }

    /// Removes the configuration from the API server and stops the controller.
    pub(super) async fn stop(self, hub: &MeasuredHub) -> Result<()> {
        self.webhooks.uninstall(&hub.client).await?;
        hub.hub().authorize_by_roles().await?;
        self.controller.terminate().await.map(drop)
    }
}

/// A client of the user `name` with all rights.
pub(super) async fn client_of(hub: &MeasuredHub, name: &str) -> Result<Client> {
    apply(&hub.client, &everything(name)).await?;
    hub.hub().client_for(&User::new(name)).await.with_context(|| format!("creating a client of {name}"))
}
