//! `policy-sync controller`: runs the controller until SIGTERM or SIGINT.

mod election;
pub(super) mod external;
pub(super) mod opa;
pub(super) mod rego;
pub(super) mod webhooks;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use futures::future::OptionFuture;
use tokio_util::sync::CancellationToken;
use tracing::{Level, info, warn};

use self::election::ElectionArguments;
use self::rego::RegoArguments;
use self::webhooks::{ExemptArguments, WebhookArguments};
use super::hub::HubArguments;
use super::settings::SettingsArguments;
use super::{Outcome, duration, policies, shutdown_signal};
use crate::version;
use policy_sync_connections::{self as connections, Descriptors, Limits};
use policy_sync_controller::admission::auditing::{self, AuditMetrics, Auditing};
use policy_sync_controller::admission::auditor::PlacementViolation;
use policy_sync_controller::manager::Manager;
use policy_sync_controller::placement_policy::remediation::{self, Remediation, RemediationMetrics};
use policy_sync_controller::rego_loading::RegoMetrics;
use policy_sync_controller::server;
use policy_sync_controller::stored_topology::{self, StoredTopology, TopologyMetrics};
use policy_sync_controller::sync::metrics::HubMetrics;
use policy_sync_controller::webhook_config::WebhookConfigMetrics;
use policy_sync_hub::clock::Clock;
use policy_sync_hub::tasks::Tasks;
use policy_sync_hub::telemetry::logs;
use policy_sync_hub::telemetry::metrics::Metrics;
use policy_sync_hub::watch_client;
use policy_sync_sync::Mirror;

/// The maximum of `--status-window`. With a longer delay, users would assume that the status is not written.
const STATUS_WINDOW_LIMIT: Duration = Duration::from_secs(600);
/// The minimum of `--audit-interval`, because each audit evaluates all objects.
const AUDIT_INTERVAL_MINIMUM: Duration = Duration::from_secs(10);
/// The maximum of `--audit-interval`.
const AUDIT_INTERVAL_LIMIT: Duration = Duration::from_secs(24 * 3600);
/// How long running work may take after a request to stop.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(4);

pub(super) const EXAMPLES: &str = "\
Examples:
  # Next to the hub's controller, with another name and without ports
  policy-sync controller --controller-name example.com/trial \\
    --metrics-bind-address 0 --health-probe-bind-address 0

  # On free ports of this machine, which are logged, and with debug logs
  policy-sync controller --log-level debug --leader-elect=false \\
    --metrics-bind-address 127.0.0.1:0 --health-probe-bind-address 127.0.0.1:0";

/// Arguments of `policy-sync controller`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Address for metrics; without a host, all addresses. 0 disables them.
    #[arg(long, default_value = ":8080", value_parser = address, value_name = "ADDRESS")]
    metrics_bind_address: BindAddress,
    /// Address for health and readiness probes; without a host, all addresses. 0 disables them.
    #[arg(long, default_value = ":8081", value_parser = address, value_name = "ADDRESS")]
    health_probe_bind_address: BindAddress,
    #[command(flatten)]
    settings: SettingsArguments,
    #[command(flatten)]
    election: ElectionArguments,
    #[command(flatten)]
    rego: RegoArguments,
    /// Remediation of existing objects after placement policies, or objects that they read, have changed.
    #[arg(long, default_value_t, value_name = "MODE", requires = "rego_namespace")]
    remediate: remediation::Mode,
    /// Honor the annotation `kuadrant.io/remediate: manual` on objects and Namespaces. With `false`, users cannot keep
    /// an app on clusters that placement policies no longer select.
    #[arg(
        long,
        default_value_t = true,
        action = clap::ArgAction::Set,
        value_name = "BOOL",
        requires = "rego_namespace"
    )]
    allow_manual_remediation: bool,
    /// Interval between audits of existing objects; 0 disables audits.
    #[arg(
        long,
        default_value = "10m",
        value_parser = audit_interval,
        value_name = "DURATION",
        requires = "rego_namespace"
    )]
    audit_interval: Duration,
    #[command(flatten)]
    webhooks: WebhookArguments,
    #[command(flatten)]
    exempt: ExemptArguments,
    /// Publish the topology in the ConfigMap `topology` of the controller's namespace, and in metrics. This requires
    /// the rights to list and watch routes, ListenerSets, Services and other backends, Namespaces and ReferenceGrants.
    /// Kinds that cannot be listed are left out.
    #[arg(
        long,
        default_value_t = true,
        default_missing_value = "true",
        num_args = 0..=1,
        require_equals = true,
        action = clap::ArgAction::Set,
        value_name = "BOOL"
    )]
    topology: bool,
    /// With `--topology`: write to the status of each route whether it is attached to Gateways of this controller, and
    /// which policies affect it. With `false`, the controller removes its entries.
    #[arg(
        long,
        default_value_t = true,
        default_missing_value = "true",
        num_args = 0..=1,
        require_equals = true,
        action = clap::ArgAction::Set,
        value_name = "BOOL"
    )]
    route_status: bool,
    /// Time to collect changes of the spokes' status before the status of a policy is written.
    #[arg(long, default_value = "1s", value_parser = status_window, value_name = "DURATION")]
    status_window: Duration,
    /// Level of the messages to log; more severe messages are logged, too. RUST_LOG takes precedence.
    #[arg(long, default_value = "info", value_parser = levels(), value_name = "LEVEL")]
    log_level: Level,
}

fn levels() -> impl TypedValueParser<Value = Level> {
    let names = ["error", "warn", "info", "debug", "trace"];
    PossibleValuesParser::new(names).try_map(|name| name.parse::<Level>())
}

fn status_window(text: &str) -> Result<Duration, String> {
    duration::parse(text, Duration::from_millis(1), &(Duration::ZERO..=STATUS_WINDOW_LIMIT))
}

fn audit_interval(text: &str) -> Result<Duration, String> {
    let interval = duration::parse(text, Duration::from_secs(1), &(Duration::ZERO..=AUDIT_INTERVAL_LIMIT))?;
    match interval {
        Duration::ZERO => Ok(interval),
        _ if interval < AUDIT_INTERVAL_MINIMUM => Err("expected 10s or more, or 0".to_owned()),
        _ => Ok(interval),
    }
}

/// The address to listen on; `None` if disabled.
#[derive(Clone, Copy, Debug)]
struct BindAddress(Option<SocketAddr>);

fn address(text: &str) -> Result<BindAddress, String> {
    if text == "0" {
        return Ok(BindAddress(None));
    }
    let full = if text.starts_with(':') { format!("[::]{text}") } else { text.to_owned() };
    full.parse()
        .map(|address| BindAddress(Some(address)))
        .map_err(|_| format!("{text:?} is not an address such as 127.0.0.1:8080"))
}

/// Converts a violation of placement policies for the audit.
fn placement_violation(placed: remediation::ObjectViolation) -> PlacementViolation {
    let remediation::ObjectViolation { kind, key, why, is_deferred } = placed;
    PlacementViolation { kind, key, why, is_warning: is_deferred }
}

/// Runs the controller until it is stopped. Logs `deprecation` as a warning.
///
/// # Errors
///
/// If an argument is invalid, no hub is configured, an address cannot be opened, or a task panics.
pub async fn run(
    hub: &HubArguments,
    arguments: Arguments,
    deprecation: Option<String>,
) -> anyhow::Result<Outcome> {
    logs::start(arguments.log_level)?;
    if let Some(warning) = deprecation {
        warn!("{warning}");
    }
    // Signals are handled before the slow start, so that the process can be stopped while it starts.
    let shutdown = shutdown_signal()?;
    let descriptors = Descriptors::raise();
    let settings = arguments.settings.settings()?;
    let controller = arguments.settings.controller()?;
    let config = hub.config().await?;
    let namespace = config.default_namespace.clone();
    let metrics = Metrics::new().context("cannot set up metrics")?;
    version::export(&metrics).context("cannot set up metrics")?;
    let hub_metrics = HubMetrics::new(&metrics).context("cannot set up metrics")?;
    let client = watch_client(config, &metrics, hub.request_timeout())?;
    let stop = CancellationToken::new();
    let clock = Clock::start();
    let mirror = Arc::new(Mirror::new(controller.clone()));

    let tasks = Tasks::new(metrics.clone());
    let name = controller.as_str().to_owned();
    let mut prepared = None;
    let mut registration = None;
    let mut remediation = None;
    let mut auditing = None;
    let rego = match arguments.rego.settings(Some(&metrics))? {
        Some(settings) => {
            let exemptions = arguments.exempt.exemptions(Some(&namespace), &settings);
            let exemptions = exemptions.with_own(arguments.webhooks.name());
            let remediated = RemediationMetrics::new(&metrics).context("cannot set up metrics")?;
            let remediating = remediation::Settings {
                mode: arguments.remediate,
                allows_manual: arguments.allow_manual_remediation,
                exemptions: exemptions.clone(),
            };
            let remediates = Remediation::new(controller.clone(), remediating, clock, remediated);
            let remediated = remediates.remediation_status();
            remediation = Some(remediates);
            if let Some((serving, registering)) =
                arguments.webhooks.prepare(&controller, &namespace, (&settings, exemptions.clone()), clock)?
            {
                let metrics = WebhookConfigMetrics::new(&metrics).context("cannot set up metrics")?;
                (prepared, registration) = (Some(serving), Some((registering, metrics)));
            }
            let audits = AuditMetrics::new(&metrics).context("cannot set up metrics")?;
            let metrics = RegoMetrics::new(&metrics).context("cannot set up metrics")?;
            let loading = policies::loading(controller.clone(), settings, clock)?;
            let interval = arguments.audit_interval;
            let audited = auditing::Settings {
                interval: (!interval.is_zero()).then_some(interval),
                is_served: prepared.is_some(),
                name: arguments.webhooks.name().to_owned(),
            };
            let placement_violations =
                move || remediated.placement_violations().into_iter().map(placement_violation).collect();
            let policies_and_exemptions = (loading.loaded(), exemptions);
            auditing = Some(Auditing::new(
                policies_and_exemptions,
                placement_violations,
                audited,
                controller.clone(),
                clock,
                audits,
            ));
            Some((loading, metrics))
        }
        None => None,
    };
    let topology = if arguments.topology {
        let own = TopologyMetrics::new(&metrics).context("cannot set up metrics")?;
        let stored =
            stored_topology::Settings::new(arguments.election.namespace(&namespace), arguments.route_status);
        Some(StoredTopology::new(controller.clone(), stored, clock, &metrics, own))
    } else {
        None
    };
    let (elector, leadership) = arguments.election.leadership(&client, &controller, namespace, clock);
    let flow = Manager {
        client,
        mirror,
        controller,
        clock,
        metrics,
        hub_metrics,
        settings,
        status_window: arguments.status_window,
        leadership,
        elector,
        tasks: tasks.clone(),
        rego,
        remediation,
        auditing,
        topology,
        webhook_config: registration,
    };
    let answering = match (prepared, &flow.rego) {
        (Some(prepared), Some(rego)) => {
            Some(prepared.serve(&flow, rego, Limits::webhooks(descriptors), &stop)?)
        }
        _ => None,
    };
    let served = flow.server_state();
    let servers = [
        (arguments.metrics_bind_address, server::metrics(served.clone())),
        (arguments.health_probe_bind_address, server::probes(served)),
    ];
    let mut serving = tokio::task::JoinSet::new();
    for (BindAddress(address), router) in servers {
        let Some(address) = address else { continue };
        let listener = connections::listen(address).with_context(|| format!("cannot listen on {address}"))?;
        info!(address = %listener.local_addr()?, "listening");
        let server =
            connections::serve(listener, router, Limits::metrics_and_probes(descriptors), stop.clone());
        serving.spawn(tasks.clone().watch("server", server));
    }

    let working = flow.start(stop.clone());
    info!(controller = name, "started");
    tokio::select! {
        () = shutdown => {}
        () = tasks.ended() => {}
    }
    info!("stopping");
    stop.cancel();
    let ended = futures::future::join(working, OptionFuture::from(answering));
    if tokio::time::timeout(SHUTDOWN_TIMEOUT, ended).await.is_err() {
        info!("cancelled running requests: the next start continues from the state of the hub");
    }
    tasks.check()?;
    Ok(Outcome::Positive)
}
