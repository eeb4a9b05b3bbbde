//! The rows of the topology's mirror: the fields of each object that the graph uses, or the parse error. Labels are
//! dropped to save memory, so `targetSelectors` of policies are not evaluated.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::route_status::RouteStatus;
use policy_sync_api::annotations::{CONTROLLER, MANAGED_BY, MANAGED_BY_US, TOPOLOGY, TOPOLOGY_DETAIL};
use policy_sync_api::json::Hash;
use policy_sync_api::names::ControllerName;
use policy_sync_api::object::HubObject;
use policy_sync_mirror::{ObjectRow, Pruner, Row};
use policy_sync_topology::fault::Fault;
use policy_sync_topology::rows::{Grant, ListenerSet, Namespace, Route, RouteKind, Service, SetKind};

/// The fields of an object that the graph uses, or the parse error.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed<T>(pub(super) Result<Arc<T>, Box<Fault>>);

impl<T: Clone + fmt::Debug + PartialEq + Send + Sync + 'static> Row for Parsed<T> {}

impl ObjectRow for Parsed<ListenerSet> {
    fn prune(object: &HubObject, _: &ControllerName) -> Self {
        read_set(SetKind::Standard, object)
    }
}

fn read_set(kind: SetKind, object: &HubObject) -> Parsed<ListenerSet> {
    let set = ListenerSet::read(kind, object).map(|set| Arc::new(ListenerSet { labels: None, ..set }));
    Parsed(set.map_err(Box::new))
}

/// Parses XListenerSets.
pub(super) struct ExperimentalSets;

impl Pruner for ExperimentalSets {
    type Row = Parsed<ListenerSet>;

    fn prune(object: &HubObject, _: &ControllerName) -> Parsed<ListenerSet> {
        read_set(SetKind::Experimental, object)
    }
}

impl ObjectRow for Parsed<Service> {
    fn prune(object: &HubObject, _: &ControllerName) -> Self {
        Self(Service::read(object).map(Arc::new).map_err(Box::new))
    }
}

impl ObjectRow for Parsed<Grant> {
    fn prune(object: &HubObject, _: &ControllerName) -> Self {
        Self(Grant::read(object).map(Arc::new).map_err(Box::new))
    }
}

impl ObjectRow for Parsed<Namespace> {
    fn prune(object: &HubObject, _: &ControllerName) -> Self {
        Self(Ok(Arc::new(Namespace::read(object))))
    }
}

/// Represents a kind of routes as a type.
pub trait RouteMarker: Clone + fmt::Debug + PartialEq + Send + Sync + 'static {
    /// The value that this type represents.
    const KIND: RouteKind;
}

macro_rules! kinds {
    ($($name:ident = $kind:ident),+) => {
        $(
            #[doc = concat!("Routes of the kind ", stringify!($kind), ".")]
            #[derive(Clone, Debug, PartialEq)]
            pub struct $name;

            impl RouteMarker for $name {
                const KIND: RouteKind = RouteKind::$kind;
            }
        )+
    };
}

kinds!(GrpcRoutes = Grpc, HttpRoutes = Http, TcpRoutes = Tcp, TlsRoutes = Tls, UdpRoutes = Udp);

/// A route of a kind.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteRow<K> {
    /// The parsed route, or the error.
    pub(super) read: Result<Arc<Route>, Box<Fault>>,
    /// The status of the route.
    pub(super) status: RouteStatus,
    kind: PhantomData<K>,
}

impl<K: RouteMarker> Row for RouteRow<K> {}

impl<K: RouteMarker> RouteRow<K> {
    /// Whether `other` is equal except for fields that this controller writes.
    pub fn equals_without_own_fields(&self, other: &Self) -> bool {
        let key = |row: &Self| (row.status.uid, row.status.generation, row.status.others);
        key(self) == key(other) && self.read == other.read
    }
}

impl<K: RouteMarker> ObjectRow for RouteRow<K> {
    fn prune(object: &HubObject, controller: &ControllerName) -> Self {
        let read = Route::read(K::KIND, object).map(|route| Arc::new(Route { labels: None, ..route }));
        let read = read.map_err(Box::new);
        Self { read, status: RouteStatus::of(object, controller), kind: PhantomData }
    }
}

/// The stored ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredConfigMap {
    pub(super) uid: String,
    /// Whether the ConfigMap's labels name this controller.
    pub(super) is_ours: bool,
    /// The hash of the ConfigMap's text.
    pub(super) text: Hash,
    /// The level of detail of the text, from the annotation.
    pub(super) detail: String,
}

impl Row for StoredConfigMap {}

impl ObjectRow for StoredConfigMap {
    fn prune(object: &HubObject, controller: &ControllerName) -> Self {
        let metadata = &object.metadata;
        let is = |key: &str, value: &str| metadata.labels.get(key).is_some_and(|found| found == value);
        let data: BTreeMap<String, String> = object.data_as();
        Self {
            uid: metadata.uid.clone(),
            is_ours: is(MANAGED_BY, MANAGED_BY_US)
                && is(CONTROLLER, controller.hash())
                && is(TOPOLOGY, "true"),
            text: Hash::of_text(data.get(super::text::KEY).map(String::as_str).unwrap_or_default()),
            detail: metadata.annotations.get(TOPOLOGY_DETAIL).cloned().unwrap_or_default(),
        }
    }
}
