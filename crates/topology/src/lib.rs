//! Topology: what is attached to what, and which rules of which policies are in force along each path.
//!
//! ```text
//! facts ─▶ graph ─▶ paths ─▶ effective policies ─▶ what commands, conditions and pages show
//! ```
//!
//! Everything here is a function of [`Facts`]: plain rows, which the mirror of a hub lends as well as files do. No client, no
//! clock, no await. A *node* is an object or a section of one (a listener, a route's rule, a Service's port), a *stack* the
//! policies of one kind along a path.

mod attachment;
pub mod clusters;
pub mod conditions;
mod effective;
mod facts;
pub mod fault;
pub mod graph;
pub mod hostname;
pub mod locator;
mod node_id;
pub mod objects;
mod paths;
mod policies;
mod reason;
mod request;
pub mod rows;
pub mod rules;
pub mod show;

pub use effective::{Effective, EffectiveId, Entry, Folds};
pub use facts::{Facts, Needs, Rows};
pub use fault::Fault;
pub use graph::{Graph, NodeId};
pub use objects::Objects;
pub use paths::Path;
pub use policies::{AttachedTarget, PolicyNode};
pub use reason::{Reason, Unattached, Unresolved};
pub use request::{BadRequest, Choice, Choices, Criterion, NotEvaluated, Request, UnknownChoice};
