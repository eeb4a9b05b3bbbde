//! The arguments of webhooks.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{Bind, address};
use crate::flow::Flow;
use crate::placement::refusals::Refusals;
use crate::reconcile::Events;
use crate::server::listen;
use crate::server::tls::{self, Certificates};
use crate::server::webhooks::{self, WebhookMetrics, Webhooks};

/// Where policies are asked.
#[derive(Debug, Args)]
pub(super) struct WebhookArguments {
    /// Serve webhooks here, with no host on all addresses; 0 switches them off.
    #[arg(
        long,
        default_value = ":9443",
        value_parser = address,
        value_name = "ADDRESS",
        requires = "policy_namespace"
    )]
    webhook_bind_address: Bind,
    /// Serve them with the certificate of this folder, tls.crt and tls.key; without it there are no webhooks.
    #[arg(long, value_name = "FOLDER", requires = "policy_namespace")]
    webhook_cert_dir: Option<PathBuf>,
}

impl WebhookArguments {
    /// Serves the webhooks that ask what `flow` loads, until `stop`; the handle ends once all that was asked is answered.
    ///
    /// # Errors
    ///
    /// Where there is no certificate, or the address cannot be opened.
    pub(super) fn serve(
        &self,
        flow: &Flow,
        stop: &CancellationToken,
    ) -> anyhow::Result<Option<JoinHandle<Option<()>>>> {
        let (Some(folder), Some((loading, _))) = (&self.webhook_cert_dir, &flow.rego) else {
            return Ok(None);
        };
        let Bind(Some(address)) = self.webhook_bind_address else { return Ok(None) };
        let certificates = Arc::new(Certificates::read(folder)?);
        let metrics = WebhookMetrics::new(&flow.metrics).context("cannot set metrics up")?;
        let (tasks, client) = (&flow.tasks, flow.client.clone());
        let refusals = Refusals::new(Events::start(client, tasks, flow.metrics.clone(), "Place"));
        let listener = listen(address).with_context(|| format!("cannot listen on {address}"))?;
        info!(address = %listener.local_addr()?, "listening for reviews");
        let router = webhooks::router(Webhooks::new(loading.loaded(), refusals, metrics));
        let following = certificates.clone().follow(stop.clone());
        tokio::spawn(tasks.clone().watch("certificates", following));
        let serving = tls::serve(listener, certificates, router, stop.clone());
        Ok(Some(tokio::spawn(tasks.clone().watch("webhooks", serving))))
    }
}
