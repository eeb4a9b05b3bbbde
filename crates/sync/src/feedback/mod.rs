//! The status protocol: what a spoke's agent is asked to feed back of a copy, and how its answer is read.
//!
//! ```text
//! asked ──names of values──▶ a work's feedback rules ──▶ agent ──▶ a work's status ──▶ answer
//! ancestors/rule ──▶ a work's condition rule, in CEL ──▶   "   ──▶       "        ──▶ ancestors
//! ```
//!
//! The names of values are of one type, `ValueName`: what is asked for is read back as the same.

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
