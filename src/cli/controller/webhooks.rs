//! The arguments of webhooks, and the start of their server.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{BindAddress, address};
use policy_sync_api::names::ControllerName;
use policy_sync_api::syntax::is_dns_label;
use policy_sync_connections::{Limits, listen, serve_tls};
use policy_sync_controller::manager::Manager;
use policy_sync_controller::rego_loading::{self, RegoLoading, RegoMetrics};
use policy_sync_controller::server::audit::{self, Audit};
use policy_sync_controller::server::authorize::{self, AuthorizationWebhook};
use policy_sync_controller::server::bearer::Tokens;
use policy_sync_controller::server::certificate_files::CertificateFiles;
use policy_sync_controller::server::webhooks::{
    self, AdmissionWebhooks, DenialEvents, Reporters, WebhookMetrics,
};
use policy_sync_controller::webhook_config::{Authority, FailurePolicy, Settings, Url, WebhookConfigWriter};
use policy_sync_hub::certificates::CertificateResolver;
use policy_sync_hub::clock::Clock;
use policy_sync_hub::reconcile::Events;
use policy_sync_rego::exemptions::Exemptions;

/// The heading of these options in `--help`.
const HEADING: &str = "Webhook options";

/// The arguments of webhooks.
#[derive(Debug, Args)]
pub(super) struct WebhookArguments {
    /// Address for webhooks; without a host, all addresses. 0 disables them.
    #[arg(
        long,
        default_value = ":9443",
        value_parser = address,
        value_name = "ADDRESS",
        requires = "rego_namespace",
        help_heading = HEADING
    )]
    webhook_bind_address: BindAddress,
    /// Directory with the certificate of the webhooks: tls.crt, tls.key, and its CA in ca.crt. Default: the controller
    /// creates a certificate.
    #[arg(long, value_name = "FOLDER", requires = "rego_namespace", help_heading = HEADING)]
    webhook_cert_dir: Option<PathBuf>,
    /// Name of the two webhook configurations. The Service and the Secret have this name with the suffix -webhook.
    #[arg(
        long,
        default_value = "policy-sync",
        value_parser = object_name,
        value_name = "NAME",
        requires = "rego_namespace",
        help_heading = HEADING
    )]
    webhook_name: String,
    /// URL at which the API server reaches the webhooks. Default: the Service in the controller's namespace.
    #[arg(long, value_name = "URL", requires = "rego_namespace", help_heading = HEADING)]
    webhook_url: Option<Url>,
    /// Result of writes while no replica responds.
    #[arg(long, default_value_t, value_name = "POLICY", requires = "rego_namespace", help_heading = HEADING)]
    webhook_failure_policy: FailurePolicy,
    /// Serve /authorize to clients with one of the bearer tokens in this file, one per line. Changes of the file take
    /// effect.
    #[arg(
        long,
        value_name = "FILE",
        requires = "rego_namespace",
        conflicts_with_all = ["placement_url", "admission_control_config_file"],
        help_heading = HEADING
    )]
    authorize_token_file: Option<PathBuf>,
}

/// The arguments that exempt objects from Rego policies.
#[derive(Debug, Args)]
pub(in crate::cli) struct ExemptArguments {
    /// Namespaces whose objects are never reviewed, in addition to the namespaces of the controller and of Rego
    /// policies. `*` matches any text. A value replaces the default.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "kube-*",
        value_parser = pattern,
        value_name = "PATTERN",
        requires = "rego_namespace"
    )]
    exempt_namespaces: Vec<String>,
}

impl ExemptArguments {
    /// The namespaces whose objects Rego policies do not review. `namespace` is the controller's own
    /// namespace, if it is known.
    pub(in crate::cli) fn exemptions(
        &self,
        namespace: Option<&str>,
        loading: &rego_loading::Settings,
    ) -> Exemptions {
        // Users disable the default with an empty pattern.
        let exempt = self.exempt_namespaces.iter().filter(|pattern| !pattern.is_empty());
        let own = namespace.map(str::to_owned).into_iter().chain(loading.namespaces.iter().cloned());
        Exemptions::new(own.chain(exempt.cloned()))
    }
}

fn object_name(text: &str) -> Result<String, String> {
    // The name of the Service has the strictest syntax: it is a DNS label.
    if is_dns_label(&format!("{text}-webhook")) && is_dns_label(text) {
        Ok(text.to_owned())
    } else {
        Err("expected a name of at most 55 characters: a-z, 0-9 and -".to_owned())
    }
}

pub(in crate::cli) fn pattern(text: &str) -> Result<String, String> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '*');
    if text.chars().all(is_part) {
        Ok(text.to_owned())
    } else {
        Err("expected a namespace name, in which * matches any text".to_owned())
    }
}

/// Webhooks that are configured, but not served yet.
#[derive(Debug)]
pub(super) struct PreparedWebhooks {
    certificates: Arc<CertificateResolver>,
    files: Option<CertificateFiles>,
    tokens: Option<Tokens>,
    namespaces: BTreeSet<String>,
    address: std::net::SocketAddr,
}

impl WebhookArguments {
    /// The name of the webhook configurations.
    pub(super) fn name(&self) -> &str {
        &self.webhook_name
    }

    /// Prepares the server of webhooks and the writer of their configurations. The controller is in `namespace`, and
    /// has the Rego settings `loading`. Returns `None` if webhooks are disabled.
    ///
    /// # Errors
    ///
    /// If the folder contains no certificate, or the file no token.
    pub(super) fn prepare(
        &self,
        controller: &ControllerName,
        namespace: &str,
        (loading, exemptions): (&rego_loading::Settings, Exemptions),
        clock: Clock,
    ) -> anyhow::Result<Option<(PreparedWebhooks, WebhookConfigWriter)>> {
        let BindAddress(Some(address)) = self.webhook_bind_address else { return Ok(None) };
        let certificates = Arc::new(CertificateResolver::default());
        let folder = self.webhook_cert_dir.as_deref();
        let files = folder.map(|folder| CertificateFiles::read(folder, certificates.clone())).transpose()?;
        let tokens = self.authorize_token_file.as_deref().map(Tokens::read).transpose()?;
        let name = &self.webhook_name;
        let settings = Settings {
            name: name.clone(),
            namespace: namespace.to_owned(),
            url: match &self.webhook_url {
                Some(url) => url.clone(),
                None => Url::of_service(&format!("{name}-webhook"), namespace),
            },
            failure_policy: self.webhook_failure_policy,
            exemptions,
            policy_namespaces: loading.namespaces.clone(),
            authority: files.as_ref().map_or(Authority::Own, |files| Authority::File(files.authority())),
        };
        let registration =
            WebhookConfigWriter::new(controller.clone(), settings, clock, certificates.clone());
        let namespaces = loading.namespaces.clone();
        Ok(Some((PreparedWebhooks { certificates, files, tokens, namespaces, address }, registration)))
    }
}

impl PreparedWebhooks {
    /// Serves webhooks that evaluate the policies of `loading`, until `stop`. The task of the returned handle ends when
    /// all requests in progress are done.
    ///
    /// # Errors
    ///
    /// If the address cannot be opened.
    pub(super) fn serve(
        self,
        flow: &Manager,
        (loading, rego_metrics): &(RegoLoading, RegoMetrics),
        limits: Limits,
        stop: &CancellationToken,
    ) -> anyhow::Result<JoinHandle<Option<()>>> {
        let Self { certificates, files, tokens, namespaces, address } = self;
        let metrics =
            WebhookMetrics::new(&flow.metrics, tokens.is_some()).context("cannot set up metrics")?;
        let (tasks, client) = (&flow.tasks, flow.client.clone());
        let events = |action| Events::start(client.clone(), tasks, flow.metrics.clone(), action);
        let reporters = Reporters {
            rejection_events: DenialEvents::of_placement(events("Place")),
            denial_events: DenialEvents::of_admission(events("Admit")),
        };
        let listener = listen(address).with_context(|| format!("cannot listen on {address}"))?;
        info!(address = %listener.local_addr()?, "listening for reviews");
        let policies = (loading.loaded(), rego_metrics.clone());
        let mut router =
            webhooks::router(AdmissionWebhooks::new(policies.clone(), reporters, metrics.clone()));
        if let Some(auditing) = &flow.auditing {
            let audit =
                Audit::new(auditing.audit_runner(), flow.client.clone(), flow.leadership.clone(), flow.clock);
            router = router.merge(audit::router(audit));
        }
        if let Some(tokens) = tokens {
            tokio::spawn(tasks.clone().watch("tokens", tokens.clone().follow(stop.clone())));
            router = router
                .merge(authorize::router(AuthorizationWebhook::new(policies, tokens, namespaces, metrics)));
        }
        if let Some(files) = files {
            tokio::spawn(tasks.clone().watch("certificates", files.follow(stop.clone())));
        }
        let serving = serve_tls(listener, certificates, router, limits, stop.clone());
        Ok(tokio::spawn(tasks.clone().watch("webhooks", serving)))
    }
}
