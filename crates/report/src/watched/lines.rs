//! The kinds of objects that a topology watches, and the row that each object is pruned to.

use policy_sync_api::names::{ControllerName, GroupResource};
use policy_sync_api::object::HubObject;
use policy_sync_mirror::{Family, Pruner, Row, Source};
use policy_sync_topology::fault::Fault;
use policy_sync_topology::locator::{
    ENVOY_BACKEND, GATEWAY, GATEWAY_CLASS, GRPC_ROUTE, HTTP_ROUTE, KindRef, LISTENER_SET, SERVICE,
    SERVICE_IMPORT, TCP_ROUTE, TLS_ROUTE, UDP_ROUTE, X_LISTENER_SET,
};
use policy_sync_topology::objects::{self, GRANT, NAMESPACE};
use policy_sync_topology::rows::Shared;

/// The kinds that have their own node types in a graph.
const KINDS: [KindRef<'static>; 14] = [
    GATEWAY_CLASS,
    GATEWAY,
    LISTENER_SET,
    GRPC_ROUTE,
    HTTP_ROUTE,
    TCP_ROUTE,
    TLS_ROUTE,
    UDP_ROUTE,
    SERVICE,
    GRANT,
    NAMESPACE,
    X_LISTENER_SET,
    SERVICE_IMPORT,
    ENVOY_BACKEND,
];

/// The table of each kind, in the order of `KINDS`.
static LINES: [Family<WatchedRow>; KINDS.len()] = [
    Family::pruned_by::<KindPruner<0>>("gatewayclasses"),
    Family::pruned_by::<KindPruner<1>>("gateways"),
    Family::pruned_by::<KindPruner<2>>("listenersets"),
    Family::pruned_by::<KindPruner<3>>("grpcroutes"),
    Family::pruned_by::<KindPruner<4>>("httproutes"),
    Family::pruned_by::<KindPruner<5>>("tcproutes"),
    Family::pruned_by::<KindPruner<6>>("tlsroutes"),
    Family::pruned_by::<KindPruner<7>>("udproutes"),
    Family::pruned_by::<KindPruner<8>>("services"),
    Family::pruned_by::<KindPruner<9>>("referencegrants"),
    Family::pruned_by::<KindPruner<10>>("namespaces").of_metadata(),
    Family::pruned_by::<KindPruner<11>>("xlistenersets"),
    Family::pruned_by::<KindPruner<12>>("serviceimports"),
    Family::pruned_by::<KindPruner<13>>("backends"),
];

/// Policies of any kind.
pub(super) static POLICIES: Family<WatchedRow> = Family::pruned_by::<PolicyPruner>("policies");

/// The fields that a graph reads from an object, or why these fields cannot be parsed.
#[derive(Clone, Debug, PartialEq)]
pub struct WatchedRow(Result<objects::Row, Box<Fault>>);

impl Row for WatchedRow {}

impl WatchedRow {
    fn new(kind: KindRef<'_>, object: &HubObject) -> Self {
        Self(objects::Row::read(kind, object).map_err(Box::new))
    }

    /// The parsed fields.
    ///
    /// # Errors
    ///
    /// Why the object cannot be parsed.
    pub fn read(&self) -> Result<&objects::Row, &Fault> {
        self.0.as_ref().map_err(|fault| &**fault)
    }

    pub(super) fn share(&mut self, shared: &mut Shared) {
        if let Ok(row) = &mut self.0 {
            row.share(shared);
        }
    }
}

/// Parses objects of the kind at this index of `KINDS`.
struct KindPruner<const INDEX: usize>;

impl<const INDEX: usize> Pruner for KindPruner<INDEX> {
    type Row = WatchedRow;

    fn prune(object: &HubObject, _: &ControllerName) -> WatchedRow {
        WatchedRow::new(KINDS[INDEX], object)
    }
}

/// Parses policies.
struct PolicyPruner;

impl Pruner for PolicyPruner {
    type Row = WatchedRow;

    fn prune(object: &HubObject, _: &ControllerName) -> WatchedRow {
        // A graph treats all kinds of policies alike.
        WatchedRow::new(KindRef { group: "", kind: "" }, object)
    }
}

/// The table for objects of `kind`.
pub(super) fn line(kind: KindRef<'_>) -> &'static Family<WatchedRow> {
    KINDS.iter().zip(&LINES).find(|(known, _)| **known == kind).map_or(&POLICIES, |(_, line)| line)
}

/// The objects of `kind`, which are served as `resource`.
#[must_use]
pub fn source(kind: KindRef<'_>, resource: GroupResource) -> Source {
    line(kind).resource(resource)
}
