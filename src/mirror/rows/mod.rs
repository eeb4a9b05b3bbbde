//! What is kept of each kind, and how it is made from an object off the wire.
//!
//! A row has a resource version, which tells whether a read from the server shows the same state; two rows are equal
//! where everything else is, so that a change of the version alone affects nothing.

pub mod ancestors;
mod answer;
pub mod aside;
pub mod class;
pub mod cluster;
mod content;
mod dropped;
pub mod gateway;
pub mod gateway_answer;
pub mod grant;
pub mod kind;
pub mod policy;
mod room;
pub mod schema;
pub mod secret;
mod served;
pub mod told;
pub mod work;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Moment;
use crate::api::object::HubObject;

/// A resource version that takes no part in comparisons.
#[derive(Clone, Copy, Debug, Default)]
pub struct Version(pub u64);

impl PartialEq for Version {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// Since when something has been seen, which takes no part in comparisons.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen(pub Option<Moment>);

impl PartialEq for Seen {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// Labels or annotations.
pub type Strings = BTreeMap<String, String>;

/// The spec of a policy or of a Gateway: its text and nothing else, parsed only where a plan needs it.
pub type RawSpec = Arc<str>;

fn raw_spec(object: &HubObject) -> RawSpec {
    object.spec.as_ref().map_or("null", |spec| spec.get()).into()
}

#[cfg(test)]
mod tests;
