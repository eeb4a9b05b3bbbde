//! The periodic audit: reviews all objects and publishes the violations as metrics, and as OpenReports
//! resources if the hub serves them.
//!
//! ```text
//! interval, policy change ─▶ run (leader only) ─▶ findings ─▶ metrics
//!                                                    ╰─▶ reports that differ from those on the hub ─▶ hub
//! ```

mod audit_runner;
mod metrics;
mod reconciler;
mod reports;
mod setup;

pub use audit_runner::AuditRunner;
pub use metrics::AuditMetrics;
pub use setup::{Auditing, Settings};
