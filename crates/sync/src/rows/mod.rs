//! What is kept of each kind, and how it is made from an object off the wire.
//!
//! No row has its object's resource version: two are equal where only that differs, so that such a change affects nothing.

pub mod aside;
pub mod class;
pub mod cluster;
mod content;
pub mod gateway;
pub mod gateway_fields;
pub mod grant;
pub mod kind;
pub mod owners;
pub mod policy;
pub mod purpose;
pub mod schema;
pub mod secret;
mod served;
pub mod work;

use std::collections::BTreeMap;
use std::sync::Arc;

use policy_sync_api::object::HubObject;

/// Labels or annotations.
pub type Strings = BTreeMap<String, String>;

/// The spec of a policy or of a Gateway: its text and nothing else, parsed only where a plan needs it.
pub type RawSpec = Arc<str>;

fn raw_spec(object: &HubObject) -> RawSpec {
    object.spec.as_ref().map_or("null", |spec| spec.get()).into()
}

#[cfg(test)]
mod tests;
