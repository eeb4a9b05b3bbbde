//! Remediation: objects that stand are asked about again when policies, or what these read, are otherwise, and go where they
//! belong now.
//!
//! ```text
//! policies, fleet ─▶ all kinds ─▶ pass over a kind ─┐                      ╭─▶ patch, with uid and version ─▶ hub (the leader)
//! objects ──────────────────────────────────────────┴─▶ object ─▶ compliance ┤
//!                                                                          ╰─▶ violations: Event, metric
//! ```
//!
//! What is covered is kept whole by [what loads policies](crate::rego::loading), while there is a policy, and after that until every
//! object is as its developer wants it. Only the process that leads does any of this.

mod causes;
mod error;
mod flapping;
mod flow;
mod judge;
mod key;
mod left;
mod metrics;
mod pass;
mod passes;
mod recent;
mod remediator;
mod settings;
mod violations;

pub(crate) use flow::Sources;
pub use flow::{Misplaced, Remediated, Remediation};
pub use metrics::RemediationMetrics;
pub use settings::{Mode, Settings};
