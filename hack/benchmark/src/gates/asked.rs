//! A hub whose API server asks a controller about each request of a user, as the published manifests tell it to, and about what is
//! written.

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
use crate::policed;

/// A controller that is asked.
pub(super) struct AskedAboutUsers {
    pub(super) controller: Controller,
    pub(super) webhooks: Webhooks,
    pub(super) files: Authorization,
}

impl AskedAboutUsers {
    /// Starts it with so many modules, which are there, and has it asked.
    pub(super) async fn start(hub: &MeasuredHub, namespace: &str, modules: usize) -> Result<Self> {
        apply(&hub.client, &fixtures::namespace(namespace)).await?;
        let webhooks = Webhooks::with_files(namespace)?;
        webhooks.install(&hub.client).await?;
        let files = Authorization::new(&webhooks)?;
        let arguments = [webhooks.arguments(), vec![files.argument()]].concat();
        let controller = policed::start_with(hub, modules, &arguments).await?;
        hub.hub().authorize_by(&files.configuration()).await?;
        Ok(Self { controller, webhooks, files })
    }

    /// Has nobody asked any more, and stops it.
    pub(super) async fn stop(self, hub: &MeasuredHub) -> Result<()> {
        self.webhooks.uninstall(&hub.client).await?;
        hub.hub().authorize_by_roles().await?;
        self.controller.terminate().await.map(drop)
    }
}

/// A client of the user `name`, who may do everything.
pub(super) async fn client_of(hub: &MeasuredHub, name: &str) -> Result<Client> {
    apply(&hub.client, &everything(name)).await?;
    hub.hub().client_for(&User::new(name)).await.with_context(|| format!("a client of {name}"))
}
