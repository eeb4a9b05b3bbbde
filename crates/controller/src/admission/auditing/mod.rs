//! The periodic audit: reviews all objects and publishes the violations as metrics, and as OpenReports
//! resources if the hub serves them.
//!
//! ```text
//! interval, policy change ─▶ run (leader only) ─▶ findings ─▶ metrics
//!                                                    ╰─▶ reports that differ from those on the hub ─▶ hub
//! ```

mod audited;
mod flow;
mod inspector;
mod key;
mod metrics;
mod reports;
mod settings;

pub use audited::Audited;
pub use flow::Auditing;
pub use metrics::AuditMetrics;
pub use settings::Settings;
