//! An index over the mirror of a report: the works of each Gateway, and of each copy on one cluster.

use std::collections::{BTreeMap, BTreeSet};

use super::copy::{CopyReport, CopyRow};
use super::gateway::GatewayWork;
use super::key::ItemKey;
use super::kinds::{COPIES, GATEWAY_WORKS};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, ControllerName, ObjectKey};
use policy_sync_mirror::Cascade;
use policy_sync_mirror::{AnyRow, KindDeclaration, MirrorChange, Source, Tables};

/// An index over the rows.
#[derive(Clone, Debug)]
pub(super) struct ReportIndex {
    gateways: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// The works of each copy on the selected cluster. While a kind is being renamed, a copy has two works until the
    /// old one is deleted.
    copies: BTreeMap<ItemKey, BTreeSet<ObjectKey>>,
}

/// The rows of the mirror with their index.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReportView<'m> {
    pub(super) tables: &'m Tables,
    index: &'m ReportIndex,
}

impl policy_sync_mirror::Index for ReportIndex {
    const REQUIRED_KINDS: &'static [&'static KindDeclaration] = &[];

    type View<'m> = ReportView<'m>;

    fn new(_controller: ControllerName) -> Self {
        Self { gateways: BTreeMap::new(), copies: BTreeMap::new() }
    }

    fn view<'m>(&'m self, tables: &'m Tables, _now: Moment) -> ReportView<'m> {
        ReportView { tables, index: self }
    }

    fn changed(&mut self, tables: &Tables, changed: &MirrorChange, _now: Moment) -> Vec<Cascade> {
        let MirrorChange::Object { source, key, before } = changed else { return Vec::new() };
        if source.is(&GATEWAY_WORKS) {
            let gateway = |row: &GatewayWork| row.gateway.clone();
            let before = before.as_ref().and_then(AnyRow::get).and_then(gateway);
            let now = tables.row(source, key).and_then(gateway);
            move_work(&mut self.gateways, before, now, key);
        } else if source.is(&COPIES) {
            let before = before.as_ref().and_then(AnyRow::get).and_then(CopyRow::key);
            let now = tables.row(source, key).and_then(CopyRow::key);
            move_work(&mut self.copies, before, now, key);
        }
        Vec::new()
    }
}

/// Moves `work` from the entry `before` to the entry `now`.
fn move_work<K: Ord>(
    works: &mut BTreeMap<K, BTreeSet<ObjectKey>>,
    before: Option<K>,
    now: Option<K>,
    work: &ObjectKey,
) {
    if let Some(before) = before
        && let Some(others) = works.get_mut(&before)
    {
        others.remove(work);
        if others.is_empty() {
            works.remove(&before);
        }
    }
    if let Some(now) = now {
        works.entry(now).or_default().insert(work.clone());
    }
}

impl<'m> ReportView<'m> {
    pub(super) fn works_of(self, key: &ObjectKey) -> impl Iterator<Item = (ClusterName, &'m GatewayWork)> {
        let works = self.index.gateways.get(key).into_iter().flatten();
        works.filter_map(move |work| {
            Some((ClusterName(work.namespace.clone()), self.tables.get(&GATEWAY_WORKS, work)?))
        })
    }

    /// The copy `key`, as its work reports it.
    pub(super) fn copy(self, source: &Source, key: &ItemKey) -> Option<&'m CopyReport> {
        let work = self.index.copies.get(key)?.last()?;
        self.tables.row::<CopyRow>(source, work)?.0.as_ref()
    }

    /// The copies that have works.
    pub(super) fn copies(self) -> impl Iterator<Item = &'m ItemKey> {
        self.index.copies.keys()
    }
}
