//! Rows: the fields that are kept of each watched object, and how they are read from it.
//!
//! Rows have no resource version. If only the resource version of an object changes, the rows are equal and no plan is
//! affected.

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
pub mod work;

use std::collections::BTreeMap;
use std::sync::Arc;

use policy_sync_api::object::HubObject;

/// Labels or annotations.
pub type Strings = BTreeMap<String, String>;

/// The spec of a policy or Gateway as JSON text. It is parsed only when a plan needs it.
pub type RawSpec = Arc<str>;

fn raw_spec(object: &HubObject) -> RawSpec {
    object.spec.as_ref().map_or("null", |spec| spec.get()).into()
}

#[cfg(test)]
mod tests;
