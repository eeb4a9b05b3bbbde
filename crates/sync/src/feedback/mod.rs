//! The status protocol between hub and spokes: which values an agent has to report about a copy, and how the hub reads
//! them.
//!
//! ```text
//! rules ──names of values──▶ a work's feedback rules ──▶ agent ──▶ a work's status ──▶ report
//! ancestors/rule ──▶ a work's condition rule, in CEL ──▶   "   ──▶       "        ──▶ ancestors
//! ```
//!
//! The names of the values are of one type, `ValueName`, so that the request and the report cannot differ.

pub mod ancestors;
mod budget;
mod condition;
mod defaults;
mod gateway;
mod report;
mod rules;
mod value;

pub use ancestors::Ancestors;
pub use condition::{ReportedCondition, TEXT_LIMIT};
pub(crate) use condition::{applied, as_revision};
pub(crate) use defaults::RECORD_CONDITIONS;
pub(crate) use defaults::{has_hosts, hosts, of_kind};
pub use gateway::{ListenerCondition, ReportedGateway, ReportedListener};
pub use report::AgentReport;
pub(crate) use report::created;
pub(crate) use rules::{Feedback, of_gateway, of_policy};
