//! The tables and the index, and the effect of each change on both.

use crate::change::{Change, Changed};
use crate::index::{Cascade, Index};
use crate::source::Source;
use crate::table::Put;
use crate::tables::Tables;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::ObjectKey;

/// The content of a mirror.
#[derive(Clone, Debug)]
pub(crate) struct State<I> {
    pub(crate) tables: Tables,
    pub(crate) index: I,
}

impl<I: Index> State<I> {
    pub(crate) fn change(&mut self, change: Change, now: Moment) -> Vec<Changed> {
        match change {
            Change::Applied { source, mut key, version, mut row } => {
                self.index.complete(&self.tables, &source, &mut key, &mut row);
                match self.tables.entry(&source).apply(key.clone(), row, version) {
                    Put::Same => Vec::new(),
                    Put::Replaced(before) => self.changed(Changed::Object { source, key, before }, now),
                }
            }
            Change::Deleted { source, key, version } => self.delete(source, key, version, now),
            Change::Failing(source, failure) => self.tables.fail(source, failure, now).into_iter().collect(),
        }
    }

    fn delete(&mut self, source: Source, key: ObjectKey, version: u64, now: Moment) -> Vec<Changed> {
        match self.tables.get_mut(&source).and_then(|table| table.delete(&key, version)) {
            None => Vec::new(),
            before => self.changed(Changed::Object { source, key, before }, now),
        }
    }

    fn changed(&mut self, changed: Changed, now: Moment) -> Vec<Changed> {
        let cascades = self.index.changed(&self.tables, &changed, now);
        let mut all = vec![changed];
        all.extend(cascades.into_iter().flat_map(|cascade| self.cascade(cascade, now)));
        all
    }

    fn cascade(&mut self, cascade: Cascade, now: Moment) -> Vec<Changed> {
        match cascade {
            Cascade::Source(source) => {
                let mut table = self.tables.take(&source);
                let keys = table.iter().flat_map(|table| table.keys()).collect::<Vec<_>>();
                let gone = keys.into_iter().map(|key| {
                    let before = table.as_mut().and_then(|table| table.delete(&key, 0));
                    Changed::Object { source: source.clone(), key, before }
                });
                gone.flat_map(|gone| self.changed(gone, now)).collect()
            }
            Cascade::Replaced(source, key, row) => {
                match self.tables.get_mut(&source).and_then(|table| table.replace(&key, row)) {
                    None => Vec::new(),
                    before => self.changed(Changed::Object { source, key, before }, now),
                }
            }
            Cascade::Row(source, key) => {
                let changed = self.delete(source.clone(), key, 0, now);
                self.tables.take_if_empty(&source);
                changed
            }
        }
    }

    pub(crate) fn begin_resync(&mut self, source: &Source) {
        self.tables.entry(source).begin_resync();
    }

    pub(crate) fn end_resync(&mut self, source: &Source, version: u64, now: Moment) -> Vec<Changed> {
        let was_ready = self.ready();
        let first = self.tables.synced(source).is_none();
        // The index may have removed the source's rows during the listing; then the listing does not count.
        let Some(table) = self.tables.get_mut(source) else { return Vec::new() };
        let vanished = table.end_resync(version, now);
        let gone = vanished.into_iter().flat_map(|key| self.delete(source.clone(), key, version, now));
        let mut changed: Vec<Changed> = gone.collect();
        if first {
            changed.push(Changed::Listed(source.clone()));
        }
        if !was_ready && self.ready() { vec![Changed::Everything] } else { changed }
    }

    pub(crate) fn forget(&mut self, source: &Source, now: Moment) -> Vec<Changed> {
        self.tables.forget_failure(source);
        let mut changed = vec![Changed::Forgotten(source.clone())];
        changed.extend(self.cascade(Cascade::Source(source.clone()), now));
        let cascades = self.index.forgot(&self.tables, source);
        changed.extend(cascades.into_iter().flat_map(|cascade| self.cascade(cascade, now)));
        changed
    }

    pub(crate) fn ready(&self) -> bool {
        self.index.plans(&self.tables)
    }
}
