//! The pages of `policy-sync web`: functions from reports to markup, and the parsers of their query strings. They
//! perform no I/O; [`server`] serves them on this machine.
//!
//! Every text from a cluster passes through [`maud`], which escapes it, and every link through [`address`].

pub mod address;
mod cells;
mod cluster;
mod effective;
mod events;
mod fleet;
mod gateway;
mod layout;
mod links;
mod policy;
pub mod server;

pub use cluster::{ClusterPage, cluster};
pub use effective::{EffectivePage, EffectiveQuery, EffectiveResult, effective};
pub use events::event_paths;
pub use fleet::{FleetPage, FleetQuery, fleet};
pub use gateway::{GatewayPage, gateway};
pub use layout::{Notices, SCRIPT, STYLE, error};
pub use policy::{ClusterExplanation, PolicyOnHub, PolicyPage, policy};

#[cfg(test)]
mod tests;
