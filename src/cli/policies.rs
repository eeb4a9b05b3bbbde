//! Loads the Rego policies of a hub for a command, with the user's rights.

use std::time::Duration;

use anyhow::{Context, bail};
use kube::Config;
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::hub::HubArguments;
use policy_sync_api::names::ControllerName;
use policy_sync_controller::placement_policy::compliance_check::{ComplianceCheck, NonCompliantObject};
use policy_sync_controller::rego_loading::{Loaded, RegoLoading, Settings};
use policy_sync_hub::clock::Clock;
use policy_sync_hub::reconcile::{CapabilityContext, Leadership};
use policy_sync_hub::tasks::Tasks;
use policy_sync_hub::telemetry::metrics::Metrics;
use policy_sync_hub::{HubClient, watch_client};
use policy_sync_rego::confined::Checker;
use policy_sync_rego::exemptions::Exemptions;
use policy_sync_rego::secrets;
use policy_sync_report::snapshot;
use policy_sync_sync::OfflineMirror;
use policy_sync_sync::desired::covered::covered;

/// The timeout for loading Rego policies.
pub(super) const LOAD_TIMEOUT: Duration = Duration::from_secs(60);
/// The interval at which a wait checks whether the hub has denied a list.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A loader for the Rego policies of `controller`. The loader checks Rego policies in a child process of this program.
///
/// # Errors
///
/// If the path of this program is unknown, or no engine can be created.
pub(super) fn loading(
    controller: ControllerName,
    settings: Settings,
    clock: Clock,
) -> anyhow::Result<RegoLoading> {
    let checker = Checker::this_program()?.with_evaluator(settings.evaluator.engine_kind());
    let checker =
        checker.with_packages(settings.packages.clone()).with_secrets(secrets::names(&settings.aliases));
    let check = checker.into_check();
    Ok(RegoLoading::new(controller, settings, clock, check)?)
}

/// Starts to load the Rego policies of the hub of `config`. Dropping the returned guard stops the loading.
///
/// # Errors
///
/// The errors of [`loading`].
pub(super) fn start(
    hub: &HubArguments,
    config: Config,
    controller: ControllerName,
    settings: Settings,
) -> anyhow::Result<(Loaded, DropGuard)> {
    let metrics = Metrics::new().context("cannot set up metrics")?;
    let client = watch_client(config, &metrics, hub.request_timeout())?;
    let loading = loading(controller, settings, Clock::start())?;
    let (loaded, stop, tasks) = (loading.loaded(), CancellationToken::new(), Tasks::new(metrics.clone()));
    let leadership = Leadership::never();
    tokio::spawn(loading.start(CapabilityContext { client, leadership, metrics, tasks, stop: stop.clone() }));
    Ok((loaded, stop.drop_guard()))
}

/// Waits for `ready`. Returns `false` after a timeout.
///
/// # Errors
///
/// If the hub denies listing Rego policies. The error is returned immediately.
pub(super) async fn wait(loaded: &Loaded, ready: impl Future<Output = ()>) -> anyhow::Result<bool> {
    let refused = async {
        loop {
            let refused = loaded.refused();
            if !refused.is_empty() {
                return refused;
            }
            sleep(POLL_INTERVAL).await;
        }
    };
    tokio::select! {
        () = ready => Ok(true),
        refused = refused => bail!("policies are unknown: {}", refused.join("; ")),
        () = sleep(LOAD_TIMEOUT) => Ok(false),
    }
}

/// Compares existing objects of `namespace`, or of all namespaces, with the placement policies. Only Gateways of the
/// GatewayClasses of `controller`, and objects of the kinds in the parameters of these classes, are included.
///
/// # Errors
///
/// If the classes or the objects cannot be read, or a Rego policy cannot be evaluated.
pub(super) async fn placement(
    client: &HubClient,
    controller: &ControllerName,
    loaded: Loaded,
    exemptions: Exemptions,
    namespace: Option<String>,
) -> anyhow::Result<Vec<NonCompliantObject>> {
    let read = snapshot::read(client, controller).await?;
    let covered = covered(read.mirror.read().view(OfflineMirror::settled(Clock::start().now())));
    let covered = covered.context("the GatewayClasses are unknown")?;
    let check = ComplianceCheck::new(loaded.clone(), covered, exemptions);
    if !wait(&loaded, check.ready()).await?
        && let Some(missing) = check.not_ready_reason()
    {
        bail!("still unknown after {} s: {missing}", LOAD_TIMEOUT.as_secs());
    }
    let found = tokio::task::spawn_blocking(move || check.non_compliant(namespace.as_deref())).await?;
    found.map_err(anyhow::Error::msg)
}
