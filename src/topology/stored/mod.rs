//! What is attached to what, kept on a hub for whoever looks: a ConfigMap, metrics, and the statuses of Gateways and routes.
//!
//! ```text
//! sync's mirror (classes, Gateways, policies) ─┐
//!                                              ├─▶ facts ─▶ graph ─▶ text ─▶ the ConfigMap
//! own mirror (routes, Services, …) ────────────┘     │         ╰─▶ what differs of statuses ─▶ a queue of its own
//!                                                    ╰─▶ what else is to be watched
//! ```
//!
//! Any change of a row is one key, taken at most once a second, and on a thread that gives way to all else. The graph is built anew
//! each time and dropped after use.

mod differs;
mod flow;
mod index;
mod key;
mod kinds;
mod metrics;
mod pace;
mod rows;
mod standing;
mod storer;
mod telling;
mod text;
mod watches;

pub use flow::{Settings, Stored};
pub use metrics::TopologyMetrics;
pub use text::{LIMIT, Text, text};
