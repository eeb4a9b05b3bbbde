//! Plans the status that the hub shows: the conditions of a GatewayClass, the annotations of a policy, and the status,
//! labels and annotation of a Gateway. The status of policies and Gateways aggregates the reports of the spokes.

pub mod class;
pub mod contest;
pub mod gateway;
mod notice;
pub(crate) mod overriding;
pub mod policy;
pub(crate) mod reason;
mod report;
pub mod sync_state;

pub use notice::{Notice, STUCK};
pub use reason::{NoticeReason, RejectionReason};

#[cfg(test)]
mod tests;
