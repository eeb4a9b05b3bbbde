//! The index and the view of the mirror that graphs are built from, and the Gateways that a change affects.

use std::collections::BTreeSet;

use super::lines::{POLICIES, WatchedRow, line};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ControllerName, GroupResource, ObjectKey};
use policy_sync_mirror::{AnyRow, KindDeclaration, MirrorChange, Source, Table, Tables};
use policy_sync_topology::locator::{GATEWAY, Locator};
use policy_sync_topology::objects::Row;
use policy_sync_topology::rows::{Parent, ParentReference, Route, Shared};

/// The index of the mirror: the values that several rows share.
#[derive(Clone, Debug, Default)]
pub struct TopologyIndex(Shared);

impl policy_sync_mirror::Index for TopologyIndex {
    /// No source is required, because the kinds are only known after discovery.
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
        if let Some(row) = row.get_mut::<WatchedRow>() {
            row.share(&mut self.0);
        }
    }
}

/// The mirror at one moment.
#[derive(Clone, Copy, Debug)]
pub struct View<'m>(&'m Tables);

impl<'m> View<'m> {
    /// The rows of `source`; `None` if it is not watched.
    #[must_use]
    pub fn table(&self, source: &Source) -> Option<&'m Table<WatchedRow>> {
        self.0.table(source)
    }

    /// The Gateways whose topology may differ after `changed`; `None` if all Gateways may be affected.
    #[must_use]
    pub fn gateways(&self, changed: &MirrorChange) -> Option<BTreeSet<ObjectKey>> {
        let MirrorChange::Object { source, key, before } = changed else { return None };
        let before = before.as_ref().and_then(AnyRow::get::<WatchedRow>);
        let now = self.0.row::<WatchedRow>(source, key);
        let mut gateways = BTreeSet::new();
        for row in before.into_iter().chain(now) {
            self.of_row(key, row.read().ok()?, &mut gateways)?;
        }
        Some(gateways)
    }

    /// The policy in `changed`; `None` if the changed object is not a policy.
    #[must_use]
    pub fn policy<'c>(&self, changed: &'c MirrorChange) -> Option<(&'c GroupResource, &'c ObjectKey)> {
        let MirrorChange::Object { source, key, .. } = changed else { return None };
        Some((POLICIES.resource_of(source)?, key))
    }

    /// Adds the Gateways that the object `key` may be attached to; `None` if the object may be attached to any Gateway.
    fn of_row(&self, key: &ObjectKey, row: &Row, gateways: &mut BTreeSet<ObjectKey>) -> Option<()> {
        let own = &*key.namespace;
        match row {
            Row::Gateway(_) => drop(gateways.insert(key.clone())),
            Row::ListenerSet(_, set) => gateways.extend(self.of_parent(&set.parent, own)),
            Row::Route(_, route) => gateways.extend(self.of_parents(route, own)),
            Row::Policy(policy) => {
                if !policy.selectors.is_empty() {
                    return None;
                }
                for target in &policy.targets {
                    let locator = target.locator(own);
                    let key = ObjectKey::new(locator.namespace, locator.name);
                    match (locator.kind, self.row(locator)) {
                        (GATEWAY, _) => drop(gateways.insert(key)),
                        (_, Some(Row::ListenerSet(_, set))) => {
                            gateways.extend(self.of_parent(&set.parent, locator.namespace));
                        }
                        (_, Some(Row::Route(_, route))) => {
                            gateways.extend(self.of_parents(route, locator.namespace));
                        }
                        // A Service may be the backend of any route.
                        _ => return None,
                    }
                }
            }
            Row::Class | Row::Backend(..) | Row::Secret(_) | Row::Namespace(_) | Row::Grant(_) => {
                return None;
            }
        }
        Some(())
    }

    fn of_parents(&self, route: &Route, own: &str) -> impl Iterator<Item = ObjectKey> {
        route.parents.iter().filter_map(move |parent| self.of_parent(parent, own))
    }

    /// The Gateway to which `parent` attaches an object in the namespace `own`, directly or through a ListenerSet.
    fn of_parent(&self, parent: &ParentReference, own: &str) -> Option<ObjectKey> {
        let locator = parent.locator(own);
        match (&parent.parent, self.row(locator)) {
            (Parent::Gateway, _) => Some(ObjectKey::new(locator.namespace, locator.name)),
            (Parent::ListenerSet(_), Some(Row::ListenerSet(_, set)))
                if set.parent.parent == Parent::Gateway =>
            {
                let of = set.parent.locator(locator.namespace);
                Some(ObjectKey::new(of.namespace, of.name))
            }
            _ => None,
        }
    }

    /// The parsed row of an object; `None` if it is absent or cannot be parsed.
    fn row(&self, locator: Locator<'_>) -> Option<&'m Row> {
        let key = ObjectKey::new(locator.namespace, locator.name);
        let mut tables = self.0.resources(line(locator.kind)).map(|(_, table)| table);
        tables.find_map(|table| table.get(&key))?.read().ok()
    }
}
