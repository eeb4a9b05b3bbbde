//! The mirror as plans see it.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use super::kinds::{self, GATEWAYS, GRPC_ROUTES, HTTP_ROUTES, SERVICES, TCP_ROUTES, TLS_ROUTES, UDP_ROUTES};
use super::rows::{OfGrpc, OfHttp, OfKind, OfTcp, OfTls, OfUdp, Read, RouteRow, StoredText};
use super::standing::{GatewayStanding, Standing};
use super::telling::Key;
use crate::api::json::Hash;
use crate::api::moment::Moment;
use crate::api::names::{ControllerName, GroupVersionResource, ObjectKey};
use crate::hub::served::{SERVED, Served, served_key};
use crate::hub::{self, AnyRow, Changed, Family, Line, Row, Source, Tables};
use crate::topology::locator::{KindRef, LISTENER_SET, Locator, SERVICE};
use crate::topology::objects::{GRANT, NAMESPACE};
use crate::topology::rows::{Grant, ListenerSet, Namespace, Route, RouteKind, Service};
use crate::topology::show::ObjectFault;
use crate::topology::{Facts, Fault, Rows};

/// What routes have in common, once: it goes when all together has grown by a half.
#[derive(Clone, Debug)]
pub(super) struct Index {
    texts: HashSet<Arc<str>>,
    limit: usize,
}

/// So few texts are not worth looking for those that nobody uses any more.
const FEW: usize = 1024;

impl Index {
    fn intern(&mut self, text: &mut Arc<str>) {
        if let Some(known) = self.texts.get(&**text) {
            *text = known.clone();
            return;
        }
        if self.texts.len() >= self.limit {
            self.texts.retain(|text| Arc::strong_count(text) > 1);
            self.texts.shrink_to(2 * self.texts.len());
            self.limit = FEW.max(self.texts.len() * 3 / 2);
        }
        self.texts.insert(text.clone());
    }

    fn complete_route<K: OfKind>(&mut self, row: &mut AnyRow) -> bool {
        let Some(row) = row.get_mut::<RouteRow<K>>() else { return false };
        // Nobody else has it yet.
        if let Some(route) = row.read.as_mut().ok().and_then(Arc::get_mut) {
            route.intern(&mut |text| self.intern(text));
        }
        true
    }
}

impl hub::Index for Index {
    /// What is served, and what is referred to, has to be found out.
    const NEEDED: &'static [&'static Line] = &[];
    type View<'m> = View<'m>;

    fn new(_: ControllerName) -> Self {
        Self { texts: HashSet::new(), limit: FEW }
    }

    fn view<'m>(&'m self, tables: &'m Tables, _: Moment) -> View<'m> {
        View(tables)
    }

    fn complete(&mut self, _: &Tables, _: &Source, _: &mut ObjectKey, row: &mut AnyRow) {
        let _ = self.complete_route::<OfHttp>(row)
            || self.complete_route::<OfGrpc>(row)
            || self.complete_route::<OfTcp>(row)
            || self.complete_route::<OfTls>(row)
            || self.complete_route::<OfUdp>(row);
    }
}

/// The mirror at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'m>(&'m Tables);

impl<'m> View<'m> {
    /// In which version `plural` is served; `None` where it is not, or that is not known yet.
    pub(super) fn served(&self, plural: &str) -> Option<&'m GroupVersionResource> {
        match self.0.get(&SERVED, &served_key(plural))? {
            Served::As(gvr) => Some(gvr),
            Served::Unlisted | Served::Nowhere | Served::Unknown(_) => None,
        }
    }

    /// Whether it was asked what `plural` is.
    pub(super) fn is_looked_up(&self, plural: &str) -> bool {
        self.0.get(&SERVED, &served_key(plural)).is_some()
    }

    /// Whether it is known of `source` what there is, or that this cannot be known.
    pub(super) fn is_settled(&self, source: &Source) -> bool {
        self.0.is_settled(source)
    }

    fn is_listed(&self, source: &Source) -> bool {
        self.0.synced(source).is_some()
    }

    /// Whether `source` was listed, and can be watched.
    pub(super) fn is_up(&self, source: &Source) -> bool {
        self.is_listed(source) && self.0.failure(source).is_none()
    }

    /// The ConfigMap `key`.
    pub(super) fn stored(&self, key: &ObjectKey) -> Option<&'m StoredText> {
        self.0.row(&kinds::config_map(key), key)
    }

    /// What a Gateway says of the policies that affect it.
    pub(super) fn gateway(&self, key: &ObjectKey) -> Option<&'m GatewayStanding> {
        self.0.get(&GATEWAYS, key)
    }

    /// The Gateway or the route that `changed`, and the hash of what it says now, where it is as before in all else.
    pub(super) fn says(&self, changed: &Changed) -> Option<(Key, Hash)> {
        self.gateway_says(changed)
            .or_else(|| self.route_says(&HTTP_ROUTES, changed))
            .or_else(|| self.route_says(&GRPC_ROUTES, changed))
            .or_else(|| self.route_says(&TCP_ROUTES, changed))
            .or_else(|| self.route_says(&TLS_ROUTES, changed))
            .or_else(|| self.route_says(&UDP_ROUTES, changed))
    }

    fn gateway_says(&self, changed: &Changed) -> Option<(Key, Hash)> {
        let (key, before) = changed.object_of(&GATEWAYS)?;
        let now = self.gateway(key)?;
        before.is_some_and(|before| before.is_as(now)).then(|| (Key::Gateway(key.clone()), now.said()))
    }

    fn route_says<K: OfKind>(
        &self,
        kind: &'static Family<RouteRow<K>>,
        changed: &Changed,
    ) -> Option<(Key, Hash)> {
        let (key, before) = changed.object_of(kind)?;
        let now: &RouteRow<K> = self.0.row(&kinds::source(K::KIND), key)?;
        let is_as_before = before.is_some_and(|before| before.is_as(now));
        is_as_before.then(|| (Key::Route(K::KIND, key.clone()), now.standing.said))
    }

    /// All that is known, for a graph that is built while the mirror goes on.
    pub(super) fn rows(&self) -> OwnRows {
        let mut faults = Vec::new();
        let gateways = self.0.rows(&GATEWAYS);
        let mut standings = Vec::new();
        self.standings::<OfGrpc>(&mut standings);
        self.standings::<OfHttp>(&mut standings);
        self.standings::<OfTcp>(&mut standings);
        self.standings::<OfTls>(&mut standings);
        self.standings::<OfUdp>(&mut standings);
        let version_of = |source: Source| self.0.version(&source);
        OwnRows {
            versions: Versions {
                gateways: version_of(GATEWAYS.all()),
                routes: RouteKind::ALL.map(|kind| version_of(kinds::source(kind))),
            },
            gateways: gateways.map(|(key, row)| (key.clone(), row.clone())).collect(),
            standings,
            sets: self.taken(&kinds::sets(), LISTENER_SET, &mut faults),
            services: self.taken(&SERVICES.all(), SERVICE, &mut faults),
            namespaces: self.taken(&kinds::namespaces(), NAMESPACE, &mut faults),
            grants: self.taken(&kinds::grants(), GRANT, &mut faults),
            routes: [
                self.routes::<OfGrpc>(&mut faults),
                self.routes::<OfHttp>(&mut faults),
                self.routes::<OfTcp>(&mut faults),
                self.routes::<OfTls>(&mut faults),
                self.routes::<OfUdp>(&mut faults),
            ],
            faults,
        }
    }

    fn routes<K: OfKind>(&self, faults: &mut Vec<ObjectFault>) -> Taken<Route> {
        self.take(&kinds::source(K::KIND), K::KIND.kind(), |row: &RouteRow<K>| row.read.as_ref(), faults)
    }

    fn standings<K: OfKind>(&self, standings: &mut Vec<(RouteKind, ObjectKey, Standing)>) {
        let table = self.0.table::<RouteRow<K>>(&kinds::source(K::KIND));
        let rows = table.into_iter().flat_map(hub::Table::iter);
        standings.extend(rows.map(|(key, row)| (K::KIND, key.clone(), row.standing)));
    }

    fn taken<T: Clone + fmt::Debug + PartialEq + Send + Sync + 'static>(
        &self,
        source: &Source,
        kind: KindRef<'static>,
        faults: &mut Vec<ObjectFault>,
    ) -> Taken<T> {
        self.take(source, kind, |row: &Read<T>| row.0.as_ref(), faults)
    }

    fn take<T, R: Row>(
        &self,
        source: &Source,
        kind: KindRef<'static>,
        read: impl Fn(&R) -> Result<&Arc<T>, &Fault>,
        faults: &mut Vec<ObjectFault>,
    ) -> Taken<T> {
        let mut objects = Vec::new();
        for (key, row) in self.0.table::<R>(source).into_iter().flat_map(hub::Table::iter) {
            match read(row) {
                Ok(found) => objects.push((key.clone(), found.clone())),
                Err(fault) => faults.push(ObjectFault::new(Locator::of(kind, key), fault)),
            }
        }
        Taken { known: self.is_listed(source), objects }
    }
}

/// The objects of a kind.
#[derive(Debug)]
struct Taken<T> {
    known: bool,
    objects: Vec<(ObjectKey, Arc<T>)>,
}

impl<T> Taken<T> {
    fn lend(&self) -> Rows<'_, T> {
        Rows { known: self.known, objects: self.objects.iter().map(|(key, row)| (key, &**row)).collect() }
    }
}

/// Up to which version each source has been seen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Versions {
    gateways: u64,
    /// In the order of [`RouteKind::ALL`].
    routes: [u64; 5],
}

impl Versions {
    /// All seen up to `version`.
    #[cfg(test)]
    pub(super) fn at(version: u64) -> Self {
        Self { gateways: version, routes: [version; 5] }
    }

    /// That of the source of `key`.
    pub(super) fn of(&self, key: &Key) -> u64 {
        match key {
            Key::Gateway(_) => self.gateways,
            Key::Route(kind, _) => self.routes[*kind as usize],
        }
    }
}

/// All that the mirror knows.
#[derive(Debug)]
pub(super) struct OwnRows {
    /// Which versions of the hub these are of.
    pub(super) versions: Versions,
    /// What Gateways say of the policies that affect them.
    pub(super) gateways: Vec<(ObjectKey, GatewayStanding)>,
    /// What routes say of their parents.
    pub(super) standings: Vec<(RouteKind, ObjectKey, Standing)>,
    sets: Taken<ListenerSet>,
    services: Taken<Service>,
    namespaces: Taken<Namespace>,
    grants: Taken<Grant>,
    routes: [Taken<Route>; 5],
    /// What cannot be read.
    pub(super) faults: Vec<ObjectFault>,
}

impl OwnRows {
    /// Adds it to `facts`.
    pub(super) fn lend<'r>(&'r self, facts: &mut Facts<'r>) {
        facts.sets = self.sets.lend();
        facts.services = self.services.lend();
        facts.namespaces = self.namespaces.lend();
        facts.grants = self.grants.lend();
        facts.routes = self.routes.each_ref().map(Taken::lend);
    }
}
