//! Metrics of a hub in memory, for the tests of other crates.

#![allow(clippy::unwrap_used)]

use super::HubMetrics;
use policy_sync_api::names::Origin;
use policy_sync_hub::telemetry::metrics::Metrics;
use policy_sync_sync::status;
use policy_sync_sync::testing::world::World;

/// All metrics of `world`, as text, once the status of the policy or resource `origin` is planned.
pub fn measured(world: &World, origin: &Origin) -> String {
    let metrics = Metrics::new().unwrap();
    let hub = HubMetrics::new(&metrics).unwrap();
    world.see(|view| {
        hub.record_state(view, origin, status::policy::plan(view, &world.settings, origin).sync_state)
    });
    metrics.gather(|| world.see(|view| hub.measure(view, true)))
}
