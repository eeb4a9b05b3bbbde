//! Audits from time to time, and says what they find: metrics, and reports where the hub has such a kind.
//!
//! ```text
//! interval, other policies ─▶ run (the leader) ─▶ findings ─▶ metrics
//!                                                    ╰─▶ reports that say something else than those that are there ─▶ hub
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
