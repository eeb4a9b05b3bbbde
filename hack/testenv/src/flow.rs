//! Builds the controller inside a test process.

use std::time::Duration;

use anyhow::Result;
use kube::Client;
use policy_sync_api::names::ControllerName;
use policy_sync_controller::manager::Manager;
use policy_sync_controller::sync::metrics::HubMetrics;
use policy_sync_hub::clock::Clock;
use policy_sync_hub::reconcile::Leadership;
use policy_sync_hub::tasks::Tasks;
use policy_sync_hub::telemetry::metrics::Metrics;
use policy_sync_sync::{Mirror, Settings};

/// The controller `name` with default settings and without leader election. It is not started.
///
/// # Errors
///
/// Returns an error if the metrics cannot be registered.
pub fn flow(client: Client, name: &str, clock: Clock) -> Result<Manager> {
    let (controller, metrics) = (ControllerName::new(name), Metrics::new()?);
    let hub_metrics = HubMetrics::new(&metrics)?;
    Ok(Manager {
        client,
        mirror: Mirror::new(controller.clone()).into(),
        controller,
        clock,
        tasks: Tasks::new(metrics.clone()),
        metrics,
        hub_metrics,
        settings: Settings::default(),
        status_window: Duration::from_secs(1),
        leadership: Leadership::always(),
        elector: None,
        rego: None,
        remediation: None,
        auditing: None,
        topology: None,
        webhook_config: None,
    })
}
