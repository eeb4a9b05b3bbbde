//! Loads the Rego policies of a hub for a command, with the user's rights.

use std::time::Duration;

use anyhow::{Context, bail};
use kube::Config;
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::hub::HubArguments;
use policy_sync_api::names::ControllerName;
use policy_sync_controller::placement_policy::by_hand::{Found, Look};
use policy_sync_controller::rego_loading::{Loaded, Loading, Settings};
use policy_sync_hub::clock::Clock;
use policy_sync_hub::reconcile::{Leadership, Parts};
use policy_sync_hub::tasks::Tasks;
use policy_sync_hub::telemetry::metrics::Metrics;
use policy_sync_hub::{HubClient, watching};
use policy_sync_rego::confined::Checker;
use policy_sync_rego::exemptions::Exemptions;
use policy_sync_rego::secrets;
use policy_sync_report::snapshot;
use policy_sync_sync::OfflineMirror;
use policy_sync_sync::desired::covered::covered;

/// The timeout for loading Rego policies.
pub(super) const WITHIN: Duration = Duration::from_secs(60);
/// The interval of checks for denied lists meanwhile.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A loader for the Rego policies of `controller`. It checks them in a child process of this program.
///
/// # Errors
///
/// If the path of this program is unknown, or no engine can be created.
pub(super) fn loading(
    controller: ControllerName,
    settings: Settings,
    clock: Clock,
) -> anyhow::Result<Loading> {
    let checker = Checker::this_program()?.evaluated(settings.evaluator.evaluates());
    let checker = checker.asking(settings.packages.clone()).with_secrets(secrets::names(&settings.aliases));
    let check = checker.into_check();
    Ok(Loading::new(controller, settings, clock, check)?)
}

/// Starts to load the Rego policies of the hub of `config`. Dropping the guard stops it.
///
/// # Errors
///
/// Those of [`loading`].
pub(super) fn start(
    hub: &HubArguments,
    config: Config,
    controller: ControllerName,
    settings: Settings,
) -> anyhow::Result<(Loaded, DropGuard)> {
    let metrics = Metrics::new().context("cannot set up metrics")?;
    let client = watching(config, &metrics, hub.request_timeout())?;
    let loading = loading(controller, settings, Clock::start())?;
    let (loaded, stop, tasks) = (loading.loaded(), CancellationToken::new(), Tasks::new(metrics.clone()));
    let leadership = Leadership::never();
    tokio::spawn(loading.start(Parts { client, leadership, metrics, tasks, stop: stop.clone() }));
    Ok((loaded, stop.drop_guard()))
}

/// Waits for `ready`. Returns `false` after a timeout.
///
/// # Errors
///
/// Immediately, if the hub denies listing Rego policies.
pub(super) async fn wait(loaded: &Loaded, ready: impl Future<Output = ()>) -> anyhow::Result<bool> {
    let refused = async {
        loop {
            let refused = loaded.refused();
            if !refused.is_empty() {
                return refused;
            }
            sleep(LOOK_AGAIN).await;
        }
    };
    tokio::select! {
        () = ready => Ok(true),
        refused = refused => bail!("policies are unknown: {}", refused.join("; ")),
        () = sleep(WITHIN) => Ok(false),
    }
}

/// Compares existing objects of `namespace`, or of all namespaces, with the placement policies. Only kinds
/// that the classes of `controller` cover are included.
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
) -> anyhow::Result<Vec<Found>> {
    let read = snapshot::read(client, controller).await?;
    let covered = covered(read.mirror.read().view(OfflineMirror::settled(Clock::start().now())));
    let covered = covered.context("the GatewayClasses are unknown")?;
    let look = Look::new(loaded.clone(), covered, exemptions);
    if !wait(&loaded, look.ready()).await?
        && let Some(missing) = look.missing()
    {
        bail!("still unknown after {} s: {missing}", WITHIN.as_secs());
    }
    let found = tokio::task::spawn_blocking(move || look.found(namespace.as_deref())).await?;
    found.map_err(anyhow::Error::msg)
}
