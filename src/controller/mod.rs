//! Applies the plans of [`policy_sync_sync`]: requests, checks whether kinds can be synced, and metrics of the hub.

pub(crate) mod definitions;
pub mod metrics;
pub mod write;
