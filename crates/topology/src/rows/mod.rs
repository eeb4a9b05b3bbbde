//! Rows: the fields of objects that the graph reads. Reading validates as the API server does, and returns a
//! fault for an invalid object.

mod backend;
mod class;
pub mod expressions;
mod gateway;
mod grant;
mod listener;
pub mod matches;
pub mod namespace;
mod parent;
mod parent_status;
mod policy;
mod route;
mod route_kind;
mod secret;
mod service;
mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;

use policy_sync_api::moment::Moment;
use policy_sync_api::object::Metadata;

pub use backend::{Backend, BackendKind, BackendReference};
pub use class::Class;
pub use gateway::{Gateway, ListenerSet};
pub use grant::Grant;
pub use listener::{AllowedNamespaces, CertificateReference, Listener, Protocol};
pub use namespace::Namespace;
pub use parent::{Parent, ParentReference, SetKind};
pub use parent_status::{ConditionStatus, ParentStatus};
pub use policy::{Policy, Target, TargetSelector};
pub use route::Shared;
pub use route::{Route, Rule};
pub use route_kind::RouteKind;
pub use secret::Secret;
pub use service::{Service, ServicePort};

/// The labels of an object, for the target selectors of policies; `None` if they are not read.
pub type Labels = Option<Arc<BTreeMap<String, String>>>;

/// The labels in `metadata`.
fn labels(metadata: &Metadata) -> Labels {
    Some(Arc::new(metadata.labels.clone()))
}

/// The creation time of an object in whole seconds since 1970-01-01 UTC. An object without one, as in a file, is
/// younger than all others; so is the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Created(i64);

impl Created {
    /// The creation time in `metadata`.
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        metadata.created().into()
    }
}

/// Rounds the milliseconds of the [`Moment`] down to whole seconds.
impl From<Option<Moment>> for Created {
    fn from(created: Option<Moment>) -> Self {
        Self(created.map_or(i64::MAX, |moment| moment.0.div_euclid(1000)))
    }
}

impl Default for Created {
    fn default() -> Self {
        Self(i64::MAX)
    }
}
