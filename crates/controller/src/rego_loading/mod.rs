//! The capability that loads Rego policies. It watches their *carriers*, which are ConfigMaps and RegoPolicies with
//! Rego modules, and their *documents*, which are the objects that modules read. It publishes carriers and documents as
//! a [`Snapshot`](policy_sync_rego::snapshot::Snapshot) for evaluations.
//!
//! ```text
//! kinds ─▶ rows ─▶ index ─▶ View ──▶ plan: candidates, kinds to watch, status ────▶ loader ─▶ hub (leader only)
//!            ▲                                                                        │ ╰─▶ Snapshot (each replica)
//!   hub (API discovery)                                                 check (in a separate process)
//! ```
//!
//! This capability has its own mirror, because documents are many and large, and must not delay the sync of Gateway API
//! policies.

mod carrier_check;
mod followers;
mod index;
mod index_updates;
mod key;
mod kinds;
mod loaded;
mod loader;
mod metrics;
mod opa_pusher;
mod plan;
mod review_metadata;
mod rows;
mod settings;
mod setup;
mod shared;
mod shares;
mod sharing;
mod slow;
mod triggers;
mod usage;
mod verdict;
mod view;
mod weight;

pub use carrier_check::CarrierCheck;
pub use followers::{ChangeCause, DocumentEvent};
pub use loaded::Loaded;
pub use metrics::RegoMetrics;
pub use review_metadata::{AdmissionKinds, RegoUsage};
pub use rows::document;
pub use settings::{DEFAULT_ALIAS, Settings};
pub use setup::RegoLoading;
pub use shared::WebhookProblem;

#[cfg(test)]
mod tests;
