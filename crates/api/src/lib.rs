//! The wire types that the controller reads and writes, and the types for names.
//!
//! Only the fields on which decisions depend are typed. Other data stays JSON, such as the spec of a policy or the
//! metadata of a Gateway. So fields that this version does not know reach the spokes.

pub mod access;
pub mod admission;
pub mod annotations;
pub mod cluster;
pub mod condition;
pub mod fair_queue;
pub mod gateway;
pub mod generators;
pub mod interned;
pub mod json;
pub mod moment;
pub mod names;
pub mod object;
pub mod params;
pub mod pause;
pub mod placed_by_policy;
pub mod policy_state;
pub mod rego_policy;
pub mod release;
pub mod schema;
pub mod secret;
pub mod selector;
pub mod shrink;
pub mod syntax;
pub mod tenant;
pub mod text;
pub mod work;
