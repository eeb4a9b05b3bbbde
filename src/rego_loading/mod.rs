//! From the hub to what is in force: carriers of policies and documents are watched, what fits is loaded, and who asks gets one
//! [`Snapshot`](policy_sync_rego::snapshot::Snapshot) of both.
//!
//! ```text
//! kinds ─▶ rows ─▶ index ─▶ View ──▶ plan: candidates, kinds to watch, what is told ──▶ loader ─▶ hub (the leader)
//!            ▲                                                                           │ ╰─▶ Snapshot (each replica)
//!   hub (what a plural is)                                                settle (checks in a process of their own)
//! ```
//!
//! It has a mirror of its own: documents are many and large, and the sync must not wait for them.

mod charges;
mod flow;
mod following;
mod gating;
mod in_use;
mod index;
mod key;
mod kinds;
mod loaded;
mod loader;
mod metrics;
mod plan;
mod pushing;
mod rows;
mod settings;
mod shared;
mod shares;
mod sharing;
mod slow;
mod status_request;
mod triggers;
mod upkeep;
mod verdict;
mod view;
mod weight;
mod written;

pub use flow::Loading;
pub use following::{Moved, MovedBy};
pub use in_use::{Gated, InUse};
pub use loaded::Loaded;
pub use metrics::RegoMetrics;
pub(crate) use rows::document;
pub use settings::{DEFAULT_ALIAS, Settings};
pub use shared::Unregistered;
pub use written::Written;

#[cfg(test)]
mod tests;
