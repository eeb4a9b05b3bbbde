//! What the hub says of its clusters: conditions of a GatewayClass, the annotations of a policy, and the status, labels and
//! annotation of a Gateway, each folded from what the spokes answer.

mod answer;
pub mod class;
pub mod contest;
pub mod fare;
pub mod gateway;
mod notice;
pub(in crate::sync) mod overriding;
pub mod policy;
pub(in crate::sync) mod reason;

pub use notice::Notice;
pub(in crate::sync) use notice::STUCK;
pub use reason::NoticeReason;

#[cfg(test)]
mod tests;
