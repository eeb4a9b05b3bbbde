//! A read-only view of the mirror for plans, and a copy of the mirror's rows for a build.

use std::fmt;
use std::sync::Arc;

use super::gateway_status::GatewayStatus;
use super::key::StatusKey;
use super::kinds::{self, GATEWAYS, GRPC_ROUTES, HTTP_ROUTES, TCP_ROUTES, TLS_ROUTES, UDP_ROUTES};
use super::route_status::RouteStatus;
use super::rows::{
    GrpcRoutes, HttpRoutes, Parsed, RouteMarker, RouteRow, StoredConfigMap, TcpRoutes, TlsRoutes, UdpRoutes,
};
use policy_sync_api::json::Hash;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ControllerName, GroupVersionResource, ObjectKey};
use policy_sync_mirror::plurals::{RESOLVED_PLURALS, ResolvedPlural, plural_key};
use policy_sync_mirror::{AnyRow, Family, KindDeclaration, MirrorChange, Source, Tables};
use policy_sync_topology::locator::{KindRef, Locator};
use policy_sync_topology::objects::{GRANT, NAMESPACE};
use policy_sync_topology::rows::{
    BackendKind, Grant, ListenerSet, Namespace, Route, RouteKind, Service, SetKind, Shared,
};
use policy_sync_topology::show::ObjectFault;
use policy_sync_topology::{GraphInput, Rows};

/// Values shared between rows, to save memory.
#[derive(Clone, Debug, Default)]
pub struct Index(Shared);

impl Index {
    fn share<K: RouteMarker>(&mut self, row: &mut AnyRow) -> bool {
        let Some(row) = row.get_mut::<RouteRow<K>>() else { return false };
        // The row is not shared yet, so it can still be changed.
        if let Some(route) = row.read.as_mut().ok().and_then(Arc::get_mut) {
            route.share(&mut self.0);
        }
        true
    }
}

impl policy_sync_mirror::Index for Index {
    /// No kind is always required. Kinds are looked up by API discovery, or watched only if an object refers to them.
    const REQUIRED_KINDS: &'static [&'static KindDeclaration] = &[];
    type View<'m> = View<'m>;

    fn new(_: ControllerName) -> Self {
        Self::default()
    }

    fn view<'m>(&'m self, tables: &'m Tables, _: Moment) -> View<'m> {
        View(tables)
    }

    fn complete(&mut self, _: &Tables, _: &Source, key: &mut ObjectKey, row: &mut AnyRow) {
        key.namespace = self.0.texts.intern(key.namespace.clone());
        let _ = self.share::<HttpRoutes>(row)
            || self.share::<GrpcRoutes>(row)
            || self.share::<TcpRoutes>(row)
            || self.share::<TlsRoutes>(row)
            || self.share::<UdpRoutes>(row);
    }
}

/// The mirror at one moment.
#[derive(Clone, Copy, Debug)]
pub struct View<'m>(&'m Tables);

impl<'m> View<'m> {
    /// The served version of `plural`; `None` if it is not served or not known yet.
    pub(super) fn served(&self, plural: &str) -> Option<&'m GroupVersionResource> {
        match self.0.get(&RESOLVED_PLURALS, &plural_key(plural))? {
            ResolvedPlural::Resource(gvr) => Some(gvr),
            ResolvedPlural::NotWatchable | ResolvedPlural::NotServed | ResolvedPlural::DiscoveryFailed(_) => {
                None
            }
        }
    }

    /// Whether API discovery has a result for `plural`.
    pub(super) fn is_looked_up(&self, plural: &str) -> bool {
        self.0.get(&RESOLVED_PLURALS, &plural_key(plural)).is_some()
    }

    /// Whether `source` is listed, or is known to be unavailable.
    pub(super) fn is_settled(&self, source: &Source) -> bool {
        self.0.is_settled(source)
    }

    fn is_listed(&self, source: &Source) -> bool {
        self.0.synced(source).is_some()
    }

    /// Whether `source` is listed and its watch does not fail.
    pub(super) fn is_up(&self, source: &Source) -> bool {
        self.is_listed(source) && self.0.failure(source).is_none()
    }

    /// The ConfigMap `key`.
    #[must_use]
    pub fn stored(&self, key: &ObjectKey) -> Option<&'m StoredConfigMap> {
        self.0.row(&kinds::config_map(key), key)
    }

    /// The status of the Gateway `key`.
    #[must_use]
    pub fn gateway(&self, key: &ObjectKey) -> Option<&'m GatewayStatus> {
        self.0.get(&GATEWAYS, key)
    }

    /// The key and the status hash of the Gateway or route that `changed` concerns, if only its status changed.
    pub(super) fn changed_status(&self, changed: &MirrorChange) -> Option<(StatusKey, Hash)> {
        self.changed_gateway(changed)
            .or_else(|| self.changed_route(&HTTP_ROUTES, changed))
            .or_else(|| self.changed_route(&GRPC_ROUTES, changed))
            .or_else(|| self.changed_route(&TCP_ROUTES, changed))
            .or_else(|| self.changed_route(&TLS_ROUTES, changed))
            .or_else(|| self.changed_route(&UDP_ROUTES, changed))
    }

    fn changed_gateway(&self, changed: &MirrorChange) -> Option<(StatusKey, Hash)> {
        let (key, before) = changed.object_of(&GATEWAYS)?;
        let now = self.gateway(key)?;
        before
            .is_some_and(|before| before.equals_without_own_fields(now))
            .then(|| (StatusKey::Gateway(key.clone()), now.digest()))
    }

    fn changed_route<K: RouteMarker>(
        &self,
        kind: &'static Family<RouteRow<K>>,
        changed: &MirrorChange,
    ) -> Option<(StatusKey, Hash)> {
        let (key, before) = changed.object_of(kind)?;
        let now: &RouteRow<K> = self.0.row(&kinds::source(K::KIND), key)?;
        let is_unchanged = before.is_some_and(|before| before.equals_without_own_fields(now));
        is_unchanged.then(|| (StatusKey::Route(K::KIND, key.clone()), now.status.digest))
    }

    /// The highest resource version seen for the kind of `key`.
    pub(super) fn version_of(&self, key: &StatusKey) -> u64 {
        self.0.version(&match key {
            StatusKey::Gateway(_) => GATEWAYS.all(),
            StatusKey::Route(kind, _) => kinds::source(*kind),
        })
    }

    /// A copy of all rows, so that a build does not block the mirror.
    pub(super) fn rows(&self) -> OwnRows {
        let mut faults = Vec::new();
        let gateways = self.0.rows(&GATEWAYS);
        let version_of = |source: Source| self.0.version(&source);
        OwnRows {
            versions: Versions {
                gateways: version_of(GATEWAYS.all()),
                routes: RouteKind::ALL.map(|kind| version_of(kinds::source(kind))),
            },
            gateways: gateways.map(|(key, row)| (key.clone(), row.clone())).collect(),
            sets: SetKind::ALL.map(|kind| self.object_rows(&kinds::sets(kind), kind.kind(), &mut faults)),
            backends: BackendKind::ALL
                .map(|kind| self.object_rows(&kinds::backends(kind), kind.kind(), &mut faults)),
            namespaces: self.object_rows(&kinds::namespaces(), NAMESPACE, &mut faults),
            grants: self.object_rows(&kinds::grants(), GRANT, &mut faults),
            routes: [
                self.routes::<GrpcRoutes>(&mut faults),
                self.routes::<HttpRoutes>(&mut faults),
                self.routes::<TcpRoutes>(&mut faults),
                self.routes::<TlsRoutes>(&mut faults),
                self.routes::<UdpRoutes>(&mut faults),
            ],
            faults,
        }
    }

    fn routes<K: RouteMarker>(&self, faults: &mut Vec<ObjectFault>) -> RouteRows {
        let source = kinds::source(K::KIND);
        let table = self.0.table::<RouteRow<K>>(&source);
        let rows = table.into_iter().flat_map(policy_sync_mirror::Table::iter).map(|(key, row)| {
            let route = match &row.read {
                Ok(route) => Some(route.clone()),
                Err(fault) => {
                    faults.push(ObjectFault::new(Locator::of(K::KIND.kind(), key), fault));
                    None
                }
            };
            RouteWithStatus { key: key.clone(), route, status: row.status }
        });
        let mut all = Vec::with_capacity(table.map_or(0, policy_sync_mirror::Table::count));
        all.extend(rows);
        all.sort_unstable_by(|left, right| left.key.cmp(&right.key));
        RouteRows { known: self.is_listed(&source), all }
    }

    fn object_rows<T: Clone + fmt::Debug + PartialEq + Send + Sync + 'static>(
        &self,
        source: &Source,
        kind: KindRef<'static>,
        faults: &mut Vec<ObjectFault>,
    ) -> ObjectRows<T> {
        let table = self.0.table::<Parsed<T>>(source);
        let mut objects = Vec::with_capacity(table.map_or(0, policy_sync_mirror::Table::count));
        for (key, Parsed(read)) in table.into_iter().flat_map(policy_sync_mirror::Table::iter) {
            match read {
                Ok(found) => objects.push((key.clone(), found.clone())),
                Err(fault) => faults.push(ObjectFault::new(Locator::of(kind, key), fault)),
            }
        }
        ObjectRows { known: self.is_listed(source), objects }
    }
}

/// The objects of a kind, and whether they are completely listed.
#[derive(Debug)]
struct ObjectRows<T> {
    known: bool,
    objects: Vec<(ObjectKey, Arc<T>)>,
}

impl<T> ObjectRows<T> {
    fn references(&self) -> Rows<'_, T> {
        Rows { known: self.known, objects: self.objects.iter().map(|(key, row)| (key, &**row)).collect() }
    }
}

/// A route with its status. `route` is `None` if the route cannot be parsed.
#[derive(Debug)]
pub(super) struct RouteWithStatus {
    pub(super) key: ObjectKey,
    route: Option<Arc<Route>>,
    pub(super) status: RouteStatus,
}

/// The routes of a kind, sorted by key.
#[derive(Debug)]
pub(super) struct RouteRows {
    known: bool,
    pub(super) all: Vec<RouteWithStatus>,
}

impl RouteRows {
    fn references(&self) -> Rows<'_, Route> {
        let read = self.all.iter().filter_map(|row| Some((&row.key, &**row.route.as_ref()?)));
        Rows { known: self.known, objects: read.collect() }
    }

    /// The index of a route in `all`.
    pub(super) fn position(&self, namespace: &str, name: &str) -> Option<usize> {
        self.all.binary_search_by(|row| (&*row.key.namespace, &*row.key.name).cmp(&(namespace, name))).ok()
    }
}

/// The highest resource version seen from each source.
#[derive(Clone, Copy, Debug, Default)]
pub struct Versions {
    gateways: u64,
    /// The versions of routes, in the order of `RouteKind::ALL`.
    routes: [u64; 5],
}

impl Versions {
    /// Returns versions that are all equal to `version`.
    #[cfg(test)]
    pub(super) fn at(version: u64) -> Self {
        Self { gateways: version, routes: [version; 5] }
    }

    /// The version of the source of `key`.
    pub(super) fn of(&self, key: &StatusKey) -> u64 {
        match key {
            StatusKey::Gateway(_) => self.gateways,
            StatusKey::Route(kind, _) => self.routes[*kind as usize],
        }
    }
}

/// A copy of all rows of the topology's own mirror.
#[derive(Debug)]
pub struct OwnRows {
    /// The resource versions of the rows.
    pub(super) versions: Versions,
    /// The statuses of Gateways.
    pub(super) gateways: Vec<(ObjectKey, GatewayStatus)>,
    /// ListenerSets, in the order of [`SetKind::ALL`].
    sets: [ObjectRows<ListenerSet>; 2],
    /// Backends, in the order of [`BackendKind::ALL`].
    backends: [ObjectRows<Service>; 3],
    namespaces: ObjectRows<Namespace>,
    grants: ObjectRows<Grant>,
    /// Routes, in the order of [`RouteKind::ALL`].
    pub(super) routes: [RouteRows; 5],
    /// Objects that cannot be parsed.
    pub(super) faults: Vec<ObjectFault>,
}

impl OwnRows {
    /// Adds the rows to `graph_input`, by reference.
    pub(super) fn add_references<'r>(&'r self, graph_input: &mut GraphInput<'r>) {
        graph_input.sets = self.sets.each_ref().map(ObjectRows::references);
        graph_input.backends = self.backends.each_ref().map(ObjectRows::references);
        graph_input.namespaces = self.namespaces.references();
        graph_input.grants = self.grants.references();
        graph_input.routes = self.routes.each_ref().map(RouteRows::references);
    }
}
