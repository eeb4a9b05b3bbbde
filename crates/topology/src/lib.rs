#![doc = include_str!("../README.md")]

mod attachment;
pub mod clusters;
pub mod conditions;
mod effective;
pub mod fault;
pub mod graph;
mod graph_input;
pub mod hostname;
pub mod locator;
pub mod merge;
pub mod object;
pub mod objects;
mod paths;
mod policies;
mod reason;
mod request;
pub mod rows;
pub mod rules;
pub mod show;
pub mod topology;

pub use effective::{Effective, EffectiveCache, EffectiveId};
pub use fault::Fault;
pub use graph::{Graph, NodeId};
pub use graph_input::{GraphInput, Needs, Rows};
pub use merge::{EffectivePolicy, Entry, MergeStrategy};
pub use object::{Object, Policy, Targetable};
pub use objects::Objects;
pub use paths::Path;
pub use policies::{AttachedTarget, PolicyNode};
pub use policy_sync_api::json::Hash;
pub use policy_sync_api::moment::Moment;
pub use policy_sync_api::names::ObjectKey;
pub use policy_sync_api::object::HubObject;
pub use reason::{Reason, Unattached, Unresolved};
pub use request::{BadRequest, Choice, Choices, Criterion, NotEvaluated, Request, UnknownChoice};
pub use topology::{BuildError, Node, PolicyId, Topology, TopologyBuilder};
