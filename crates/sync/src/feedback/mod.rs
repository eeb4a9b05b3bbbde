//! The status protocol between hub and spokes: which values an agent has to report about a copy, and how they are
//! read.
//!
//! ```text
//! asked ──names of values──▶ a work's feedback rules ──▶ agent ──▶ a work's status ──▶ answer
//! ancestors/rule ──▶ a work's condition rule, in CEL ──▶   "   ──▶       "        ──▶ ancestors
//! ```
//!
//! The names of the values are of one type, `ValueName`, so that the request and the report cannot differ.

pub mod ancestors;
mod answer;
mod asked;
mod condition;
mod defaults;
mod dropped;
mod gateway;
mod room;
mod value;

pub use ancestors::Ancestors;
pub use answer::Answer;
pub(crate) use answer::created;
pub(crate) use asked::{Feedback, of_gateway, of_policy};
pub use condition::{AnsweredCondition, TEXT_LIMIT};
pub(crate) use condition::{applied, as_revision};
pub(crate) use defaults::RECORD_CONDITIONS;
pub(crate) use defaults::{has_hosts, hosts, of_kind};
pub use gateway::{AnsweredListener, GatewayAnswer, ListenerCondition};
