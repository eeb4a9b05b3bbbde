//! Checks and evaluates Rego policies, which administrators write.
//!
//! ```text
//! text ──parse──▶ module ──check──▶ bundle ──edit──▶ engine ──query, input, data──▶ result
//!                   └──▶ the kinds of the hub that it reads
//! ```
//!
//! [`settle`] selects the texts in force, and queries are evaluated on a [`snapshot`]. The only Kubernetes objects here
//! are those that carry modules. Each nested literal doubles the time of the parser, and a recursive function overflows
//! the stack of the engine. Therefore a separate process ([`confined`]) checks a text before this process parses it.

pub mod advice;
pub mod asked;
pub mod builtins;
pub mod bundle;
pub mod called;
pub mod carrier;
pub mod check;
mod checking;
pub mod confined;
pub mod constraints;
pub mod contents;
pub mod culprits;
mod edit;
pub mod embedded;
pub mod enforcement;
pub mod engine;
pub mod engine_error;
mod engine_message;
pub mod evaluated_by;
mod evaluation_error;
pub mod exemptions;
mod extensions;
pub mod external;
pub mod fault;
pub mod incomplete;
mod joined;
pub mod limit;
pub mod loaded_module;
pub mod memory;
mod metadata;
pub mod module;
mod module_id;
mod names;
pub mod opa;
pub mod panics;
mod parentheses;
mod parts;
pub mod paths;
pub mod re2;
pub mod reads;
pub mod review;
mod rewrites;
pub mod secrets;
pub mod settle;
pub mod snapshot;
mod template_strings;
mod tree;
pub mod turns;
mod whole;
