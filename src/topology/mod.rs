//! Topology: what is attached to what, and which rules of which policies are in force along each path.
//!
//! ```text
//! facts ─▶ graph ─▶ paths ─▶ effective policies ─▶ what commands, conditions and pages show
//! ```
//!
//! Everything here is a function of [`Facts`]: plain rows, which the mirror of a hub lends as well as files do. No client, no
//! clock, no await. A *node* is an object or a section of one (a listener, a route's rule, a Service's port), a *stack* the
//! policies of one kind along a path. Only two rooms are otherwise: `stored`, the capability that keeps what comes of it on a
//! hub, and `watched`, the rows of whoever looks.

mod attachment;
pub mod clusters;
pub mod conditions;
mod effective;
mod facts;
mod fault;
pub mod graph;
pub mod hostname;
mod lent;
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
pub mod stored;
pub mod watched;

pub use effective::{Effective, EffectiveId, Entry, Folds};
pub use facts::{Facts, Needs, Rows};
pub use fault::Fault;
pub use graph::{Graph, NodeId};
pub use lent::{Lent, OurGateway, bears_on};
pub use objects::Objects;
pub use paths::Path;
pub use policies::{AttachedTarget, PolicyNode};
pub use reason::{Reason, Unattached, Unresolved};
pub use request::{BadRequest, Choice, Choices, Criterion, NotEvaluated, Request, UnknownChoice};
