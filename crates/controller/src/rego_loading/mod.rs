//! The capability that loads Rego policies: it watches their carriers and the objects that they read, and
//! publishes both as a [`Snapshot`](policy_sync_rego::snapshot::Snapshot) for evaluations.
//!
//! ```text
//! kinds ─▶ rows ─▶ index ─▶ View ──▶ plan: candidates, kinds to watch, status ────▶ loader ─▶ hub (leader only)
//!            ▲                                                                        │ ╰─▶ Snapshot (each replica)
//!   hub (API discovery)                                                 settle (checks in a separate process)
//! ```
//!
//! It has its own mirror: documents are many and large, and must not delay the sync of policies.

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
pub use rows::document;
pub use settings::{DEFAULT_ALIAS, Settings};
pub use shared::Unregistered;
pub use written::Written;

#[cfg(test)]
mod tests;
