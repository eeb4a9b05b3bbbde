//! Which works say something of what is shown.

use std::collections::{BTreeMap, BTreeSet};

use super::copy::{CopyReport, CopyRow};
use super::gateway::GatewayWork;
use super::key::ItemKey;
use super::kinds::{COPIES, GATEWAY_WORKS};
use crate::api::moment::Moment;
use crate::api::names::{ClusterName, ControllerName, ObjectKey};
use crate::hub::mirror::Cascade;
use crate::hub::{self, Changed, Line, Source, Tables};

/// What is derived from the rows.
#[derive(Clone, Debug)]
pub(super) struct Index {
    /// The works of each Gateway.
    gateways: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// The works of each copy on the one cluster: two where the name of its kind has changed, until the old one is gone.
    copies: BTreeMap<ItemKey, BTreeSet<ObjectKey>>,
}

/// The rows, and what is derived from them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look<'m> {
    pub(super) tables: &'m Tables,
    index: &'m Index,
}

impl hub::Index for Index {
    const NEEDED: &'static [&'static Line] = &[];

    type View<'m> = Look<'m>;

    fn new(_controller: ControllerName) -> Self {
        Self { gateways: BTreeMap::new(), copies: BTreeMap::new() }
    }

    fn view<'m>(&'m self, tables: &'m Tables, _now: Moment) -> Look<'m> {
        Look { tables, index: self }
    }

    fn changed(&mut self, tables: &Tables, changed: &Changed, _now: Moment) -> Vec<Cascade> {
        if let Some((key, before)) = changed.of(&GATEWAY_WORKS) {
            let gateway = |row: Option<&GatewayWork>| row.and_then(|row| row.gateway.clone());
            if let Some(before) = gateway(before)
                && let Some(works) = self.gateways.get_mut(&before)
            {
                works.remove(key);
                if works.is_empty() {
                    self.gateways.remove(&before);
                }
            }
            if let Some(gateway) = gateway(tables.get(&GATEWAY_WORKS, key)) {
                self.gateways.entry(gateway).or_default().insert(key.clone());
            }
        } else if let Some((key, before)) = changed.of(&COPIES) {
            if let Some(before) = before.and_then(CopyRow::key)
                && let Some(works) = self.copies.get_mut(&before)
            {
                works.remove(key);
                if works.is_empty() {
                    self.copies.remove(&before);
                }
            }
            let row = changed.source().and_then(|source| tables.row(source, key));
            if let Some(now) = row.and_then(CopyRow::key) {
                self.copies.entry(now).or_default().insert(key.clone());
            }
        }
        Vec::new()
    }
}

impl<'m> Look<'m> {
    /// The works of the Gateway `key`.
    pub(super) fn works_of(self, key: &ObjectKey) -> impl Iterator<Item = (ClusterName, &'m GatewayWork)> {
        let works = self.index.gateways.get(key).into_iter().flatten();
        works.filter_map(move |work| {
            Some((ClusterName(work.namespace.clone()), self.tables.get(&GATEWAY_WORKS, work)?))
        })
    }

    /// What the work of the copy `key` says.
    pub(super) fn copy(self, source: &Source, key: &ItemKey) -> Option<&'m CopyReport> {
        let work = self.index.copies.get(key)?.last()?;
        self.tables.row::<CopyRow>(source, work)?.0.as_ref()
    }

    /// The copies of which there are works.
    pub(super) fn copies(self) -> impl Iterator<Item = &'m ItemKey> {
        self.index.copies.keys()
    }
}
