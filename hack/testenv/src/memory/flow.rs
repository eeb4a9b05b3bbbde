//! Builds the controller inside a test process, on a server in memory.

use anyhow::Result;
use policy_sync_controller::manager::Manager;

use super::{Interposer, MemoryServer};
use crate::flow::flow;

impl MemoryServer {
    /// The controller `name` with default settings and without leader election. It is not started. Its requests
    /// come from `user`, and `interposer` decides their outcomes.
    ///
    /// # Errors
    ///
    /// Returns an error if the metrics cannot be registered.
    pub fn flow_of(&self, user: &str, name: &str, interposer: impl Interposer) -> Result<Manager> {
        flow(self.client_of(user, interposer), name, self.clock())
    }
}
