//! What the hub says of its clusters: conditions of a GatewayClass, the annotations of a policy, and the status, labels and
//! annotation of a Gateway, each folded from what the spokes answer.

mod answer;
pub mod class;
pub mod contest;
pub mod gateway;
mod notice;
pub mod policy;

pub use notice::Notice;

#[cfg(test)]
mod tests;
