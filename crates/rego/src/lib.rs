//! Checks and evaluates Rego policies, which administrators write.
//!
//! ```text
//! text ──parse──▶ module ──check──▶ bundle ──edit──▶ engine ──query, input, data──▶ result
//!                   └──▶ the kinds of the hub that it reads
//! ```
//!
//! [`selection`] selects the texts in force, and queries are evaluated on a [`snapshot`]. The only Kubernetes objects
//! here are those that contain modules. Each nested literal doubles the time of the parser, and a recursive function
//! overflows the stack of the engine. Therefore a separate process ([`confined`]) checks a text before this process
//! parses it.
//!
//! Terms in this crate:
//!
//! - *policy*: a Rego policy, never a policy of Gateway API.
//! - *text*: the source of a module. A text *in force* is loaded; a *good* text has passed the check.
//! - *carrier*: a ConfigMap or a RegoPolicy with modules or data.
//! - *engine* or *embedded engine*: [regorus](https://docs.rs/regorus), which evaluates Rego in this process. Only in
//!   [`external`], *engine* means an external engine.
//! - *fault*: an error in a module, or a warning about it, with its *place*: a line and a column.
//! - *kind*: a kind of Kubernetes objects by its plural, as Rego policies name it: `pods`, `deployments.apps`.

pub mod advice;
pub mod builtins;
pub mod bundle;
mod bundle_check;
pub mod carrier;
pub mod check;
pub mod confined;
pub mod constraints;
pub mod contents;
pub mod culprits;
mod edit;
pub mod embedded;
pub mod enforcement;
pub mod engine;
mod engine_message;
mod evaluation_error;
pub mod evaluation_slots;
pub mod exemptions;
mod extensions;
pub mod external;
pub mod fault;
mod joined;
pub mod limit;
pub mod loaded_module;
pub mod memory;
mod metadata;
pub mod module;
mod names;
pub mod omitted_documents;
pub mod opa;
mod package_preludes;
mod package_texts;
pub mod panics;
mod parentheses;
pub mod paths;
pub mod prefixed_rules;
pub mod queries;
pub mod re2;
pub mod reads;
pub mod review;
mod rewrites;
pub mod secrets;
pub mod selection;
pub mod snapshot;
mod template_strings;
mod tree;
