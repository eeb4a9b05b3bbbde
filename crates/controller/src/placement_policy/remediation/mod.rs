//! Remediation: evaluates existing objects again when placement policies or the data that they read change, and patches
//! objects that do not comply.
//!
//! ```text
//! policies, data ─▶ all kinds ─▶ pass over a kind ─┐                           ╭─▶ patch, with uid and version ─▶ hub
//! objects ─────────────────────────────────────────┴─▶ object ─▶ compliance ───┤
//!                                                                              ╰─▶ violations: Event, metric
//! ```
//!
//! While there is a placement policy, the [loader of Rego policies](crate::rego_loading) keeps the covered objects in
//! memory. After the last placement policy is deleted, the loader keeps these objects until each is again as its
//! developer wrote it. Only the leader remediates.

mod causes;
mod evaluate;
mod flapping;
mod key;
mod metrics;
mod pass;
mod passes;
mod recent_patches;
mod remediator;
mod settings;
mod setup;
mod traces;
mod violations;

pub use metrics::RemediationMetrics;
pub use settings::{Mode, Settings};
pub(crate) use setup::Sources;
pub use setup::{ObjectViolation, Remediation, RemediationStatus};
