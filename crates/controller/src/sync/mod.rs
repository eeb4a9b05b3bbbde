//! Applies the plans of [`policy_sync_sync`]: sends requests, checks whether kinds can be synced, and exports hub
//! metrics.

pub mod definitions;
pub mod metrics;
pub mod write;
