//! Rows: the fields of objects that the graph reads. Reading validates as the API server does, and returns a
//! fault for an invalid object.

mod backend;
pub mod expressions;
mod gateway;
mod grant;
mod listener;
pub mod matches;
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
use policy_sync_api::object::{HubObject, Metadata};

pub use backend::{Backend, BackendKind, BackendReference};
pub use gateway::{Gateway, ListenerSet};
pub use grant::Grant;
pub use listener::{AllowedNamespaces, CertificateReference, Listener, Protocol};
pub use parent::{Parent, ParentReference, SetKind};
pub use parent_status::{ConditionStatus, ParentStatus};
pub use policy::{Policy, Target, TargetSelector};
pub use route::Shared;
pub use route::{Route, Rule};
pub use route_kind::RouteKind;
pub use secret::Secret;
pub use service::{Service, ServicePort};

/// The label that the API server adds to each Namespace, with the Namespace's name.
pub(super) const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// A GatewayClass. The graph reads only that it exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Class;

/// A Namespace: its labels, by which listeners select routes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespace {
    /// The labels of the Namespace.
    pub labels: BTreeMap<String, String>,
}

impl Namespace {
    /// Reads the row from `object`.
    #[must_use]
    pub fn read(object: &HubObject) -> Self {
        Self { labels: object.metadata.labels.clone() }
    }
}

/// The labels that every Namespace with this name has.
pub(super) fn name_label(name: &str) -> BTreeMap<String, String> {
    [(NAME_LABEL.to_owned(), name.to_owned())].into()
}

/// The labels of an object, for the target selectors of policies; `None` if they are not read.
pub type Labels = Option<Arc<BTreeMap<String, String>>>;

/// The labels in `metadata`.
fn labels(metadata: &Metadata) -> Labels {
    Some(Arc::new(metadata.labels.clone()))
}

/// The creation time of an object in whole seconds since 1970-01-01 UTC. The default is no creation time, as for an
/// object from a file. An object without a creation time is younger than all objects with a creation time.
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
