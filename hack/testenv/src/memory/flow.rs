//! The controller's flow on a server in memory, in the process of the test.

use anyhow::Result;
use policy_sync::flow::Flow;

use super::{Interposer, MemoryServer};
use crate::flow::flow;

impl MemoryServer {
    /// The flow of the controller `name` as its defaults have it, with no rivals, not started yet. It asks as `user`,
    /// and `interposer` decides on what it asks.
    ///
    /// # Errors
    ///
    /// Where metrics cannot be set up.
    pub fn flow_of(&self, user: &str, name: &str, interposer: impl Interposer) -> Result<Flow> {
        flow(self.client_of(user, interposer), name, self.clock())
    }
}
