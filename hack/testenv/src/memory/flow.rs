//! The controller's flow on a server in memory, in the process of the test.

use std::time::Duration;

use anyhow::Result;
use policy_sync::api::names::ControllerName;
use policy_sync::apply::Leadership;
use policy_sync::flow::Flow;
use policy_sync::mirror::Mirror;
use policy_sync::plan::Settings;
use policy_sync::tasks::Tasks;
use policy_sync::telemetry::metrics::Metrics;

use super::{Interposer, MemoryServer};

impl MemoryServer {
    /// The flow of the controller `name` as its defaults have it, with no rivals, not started yet. It asks as `user`,
    /// and `interposer` decides on what it asks.
    ///
    /// # Errors
    ///
    /// Where metrics cannot be set up.
    pub fn flow_of(&self, user: &str, name: &str, interposer: impl Interposer) -> Result<Flow> {
        let (controller, metrics) = (ControllerName::new(name), Metrics::new()?);
        Ok(Flow {
            client: self.client_of(user, interposer),
            mirror: Mirror::new(controller.clone()).into(),
            controller,
            clock: self.clock(),
            tasks: Tasks::new(metrics.clone()),
            metrics,
            settings: Settings::default(),
            fold_window: Duration::from_secs(1),
            leadership: Leadership::always(),
            elector: None,
        })
    }
}
