//! [`ReportMirror`]: a mirror of the hub objects that a report reads, and the items derived from it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::copy::{CopyReport, CopyRow};
use super::gateway::{GatewayReport, GatewayRow, GatewayWork};
use super::index::{ReportIndex, ReportView};
use super::item::Item;
use super::key::{ItemKey, Table};
use super::kinds::{COPIES, GATEWAY_WORKS, GATEWAYS, POLICIES};
use super::policy::{PolicyReport, PolicyRow};
use super::served::ServedKind;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, ControllerName, ObjectKey};
use policy_sync_api::object::HubObject;
use policy_sync_api::params::Role;
use policy_sync_mirror::{Mirror, MirrorChange, MirrorGuard, Scope, Source, Table as Rows, WatchedSources};

/// The objects that were read from a hub.
#[derive(Debug)]
pub struct ReportMirror {
    pub(super) mirror: Arc<Mirror<ReportIndex>>,
    pub(super) controller: ControllerName,
    /// The namespaces and names of the objects that the report includes.
    pub(super) scope: Scope,
    /// The GatewayClasses whose Gateways the report includes.
    pub(super) classes: BTreeSet<Arc<str>>,
    /// The kinds of policies that the user may read.
    pub(super) kinds: Vec<ServedKind>,
    /// Whether Gateways are requested and the user may read them.
    pub(super) gateways: bool,
    /// Whether the user may read the works of Gateways.
    pub(super) works: bool,
    /// Restricts the items to copies on one cluster.
    pub(super) cluster: Option<ClusterName>,
}

/// The time of all updates of the mirror. Items depend only on the hub's objects, not on the time.
pub(super) const NOW: Moment = Moment(0);

impl ReportMirror {
    /// An empty mirror for objects in `scope`.
    #[must_use]
    pub fn new(controller: ControllerName, scope: Scope) -> Self {
        Self {
            mirror: Arc::new(Mirror::new(controller.clone())),
            controller,
            scope,
            classes: BTreeSet::new(),
            kinds: Vec::new(),
            gateways: false,
            works: false,
            cluster: None,
        }
    }

    pub(super) fn gateways_source(&self) -> Source {
        GATEWAYS.all().within(self.scope.clone())
    }

    pub(super) fn policies_source(&self, kind: &ServedKind) -> Source {
        POLICIES.resource(kind.gvr.kind.clone()).within(self.scope.clone())
    }

    /// The works of one cluster.
    pub(super) fn copies_source(cluster: &ClusterName) -> Source {
        COPIES.all().within(Scope::Namespace(cluster.0.clone()))
    }

    /// The sources to watch: all sources that the report has read.
    #[must_use]
    pub fn sources(&self) -> WatchedSources {
        let policies = self.kinds.iter().map(|kind| (self.policies_source(kind), kind.gvr.clone()));
        let gateways = self.gateways.then(|| (self.gateways_source(), GATEWAYS.gvr()));
        // A report on one cluster uses the more detailed rows of `COPIES`, which include the works of Gateways.
        let works = self.works.then(|| (GATEWAY_WORKS.all(), GATEWAY_WORKS.gvr()));
        let copies = self.cluster.as_ref().map(|cluster| (Self::copies_source(cluster), COPIES.gvr()));
        policies.chain(gateways).chain(works).chain(copies).collect()
    }

    /// The `kind` of the objects of `source`.
    #[must_use]
    pub fn kind_of(&self, source: &Source) -> &str {
        let served = |kind: &&ServedKind| source.resource() == Some(&kind.gvr.kind);
        match self.kinds.iter().find(served) {
            Some(kind) => &kind.kind,
            None if source.is(&GATEWAYS) => "Gateway",
            None => "ManifestWork",
        }
    }

    /// Replaces the objects of `source`.
    pub fn list<'o>(&self, source: &Source, objects: impl IntoIterator<Item = &'o HubObject>) {
        self.mirror.list(source, objects, &self.controller, NOW);
    }

    pub(super) fn read(&self) -> MirrorGuard<'_, ReportIndex> {
        self.mirror.read()
    }

    /// The keys of the items that a change may affect. `view` is the mirror just after the change.
    pub(super) fn affected(
        changed: &MirrorChange,
        view: ReportView<'_>,
        one_cluster: bool,
    ) -> BTreeSet<ItemKey> {
        let MirrorChange::Object { source, key, before } = changed else { return BTreeSet::new() };
        if let Some((_, before)) = changed.object_of(&GATEWAY_WORKS) {
            let now = view.tables.row::<GatewayWork>(source, key);
            let gateways = before.into_iter().chain(now).filter_map(|row| row.gateway.as_ref());
            return gateways.map(ItemKey::gateway).collect();
        }
        if source.is(&COPIES) {
            let now = view.tables.row::<CopyRow>(source, key);
            let before = before.as_ref().and_then(|before| before.get());
            return before.into_iter().chain(now).filter_map(CopyRow::key).collect();
        }
        let key = match source.resource() {
            Some(kind) => ItemKey::policy(&kind.to_string(), key),
            None => ItemKey::gateway(key),
        };
        [if one_cluster { key.on_cluster() } else { key }].into()
    }

    /// The item of `key`; `None` if it neither exists nor is planned.
    pub(super) fn item(&self, view: ReportView<'_>, key: &ItemKey) -> Option<Item> {
        match key.table {
            Table::Gateways => self.gateway(view, &key.object()).map(Item::from),
            Table::Policies => self.policy(view, key).map(Item::from),
            Table::Copies => self.copy(view, key).map(Item::from),
        }
    }

    fn gateway(&self, view: ReportView<'_>, key: &ObjectKey) -> Option<GatewayReport> {
        let row = view.tables.row::<GatewayRow>(&self.gateways_source(), key)?;
        self.classes.get(&*row.class)?;
        let copies = || view.works_of(key).map(|(cluster, work)| (cluster, work.copy.clone())).collect();
        Some(GatewayReport { key: key.clone(), row: row.clone(), copies: self.works.then(copies) })
    }

    fn policy(&self, view: ReportView<'_>, key: &ItemKey) -> Option<PolicyReport> {
        let kind = self.kinds.iter().find(|kind| kind.gvr.kind.to_string() == key.resource)?;
        let object = key.object();
        let row = view.tables.row::<PolicyRow>(&self.policies_source(kind), &object)?;
        // A resource without annotations of the controller is not synced, so it is not shown.
        if kind.role == Role::Resource && !row.is_annotated() {
            return None;
        }
        Some(PolicyReport::new(kind, object, row))
    }

    fn copy(&self, view: ReportView<'_>, key: &ItemKey) -> Option<CopyReport> {
        let cluster = self.cluster.as_ref()?;
        let work = view.copy(&Self::copies_source(cluster), key);
        let object = || {
            let gateway = self.gateway(view, &key.object()).map(Item::from);
            let gateway = gateway.filter(|gateway| gateway.key().resource == key.resource);
            gateway.or_else(|| self.policy(view, key).map(Item::from))
        };
        let desired = object().and_then(|object| object.desired_on(&cluster.0));
        match work {
            None => desired,
            Some(work) => Some(work.clone().with(desired)),
        }
    }

    /// All items, in print order.
    #[must_use]
    pub fn items(&self) -> Vec<Item> {
        let guard = self.read();
        let view = guard.view(NOW);
        let keys = self.keys(view);
        let mut items: Vec<Item> = keys.iter().filter_map(|key| self.item(view, key)).collect();
        // Policies are sorted by the displayed kind, not by its plural.
        items.sort_by_cached_key(|item| match item {
            Item::Gateway(_) | Item::Copy(_) => (item.key(), String::new()),
            Item::Policy(report) => {
                (ItemKey { resource: report.kind.clone(), ..item.key() }, report.origin.kind().to_string())
            }
        });
        items
    }

    fn keys(&self, view: ReportView<'_>) -> BTreeSet<ItemKey> {
        let gateways = view.tables.table::<GatewayRow>(&self.gateways_source());
        let gateways = gateways.into_iter().flat_map(Rows::iter).map(|(key, _)| ItemKey::gateway(key));
        let policies = self.kinds.iter().flat_map(|kind| {
            let table = view.tables.table::<PolicyRow>(&self.policies_source(kind));
            let resource = kind.gvr.kind.to_string();
            let keys = table.into_iter().flat_map(Rows::iter).map(|(key, _)| key);
            keys.map(|key| ItemKey::policy(&resource, key)).collect::<Vec<_>>()
        });
        let objects = gateways.chain(policies);
        match &self.cluster {
            None => objects.collect(),
            Some(_) => objects.map(ItemKey::on_cluster).chain(view.copies().cloned()).collect(),
        }
    }
}
