//! Plans the status that the hub shows: the conditions of a GatewayClass, the annotations of a policy, and the status,
//! labels and annotation of a Gateway. Each aggregates the reports of the spokes.

mod answer;
pub mod class;
pub mod contest;
pub mod fare;
pub mod gateway;
mod notice;
pub(crate) mod overriding;
pub mod policy;
pub(crate) mod reason;

pub use notice::{Notice, STUCK};
pub use reason::{NoticeReason, RefusalReason};

#[cfg(test)]
mod tests;
