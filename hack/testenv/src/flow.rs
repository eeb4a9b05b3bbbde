//! The controller's flow in the process of a test.

use std::time::Duration;

use anyhow::Result;
use kube::Client;
use policy_sync::controller::metrics::HubMetrics;
use policy_sync::flow::Flow;
use policy_sync_api::names::ControllerName;
use policy_sync_hub::clock::Clock;
use policy_sync_hub::reconcile::Leadership;
use policy_sync_hub::tasks::Tasks;
use policy_sync_hub::telemetry::metrics::Metrics;
use policy_sync_sync::{Mirror, Settings};

/// The flow of the controller `name` as its defaults have it, with no rivals, not started yet.
///
/// # Errors
///
/// Where metrics cannot be set up.
pub fn flow(client: Client, name: &str, clock: Clock) -> Result<Flow> {
    let (controller, metrics) = (ControllerName::new(name), Metrics::new()?);
    let hub_metrics = HubMetrics::new(&metrics)?;
    Ok(Flow {
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
        registration: None,
    })
}
