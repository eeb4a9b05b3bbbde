//! The tables and the index, and the effect of each change on both.

use crate::change::{MirrorChange, SourceEvent};
use crate::index::{Cascade, Index};
use crate::source::Source;
use crate::table::ApplyOutcome;
use crate::tables::Tables;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::ObjectKey;

/// The content of a mirror.
#[derive(Clone, Debug)]
pub(crate) struct MirrorState<I> {
    pub(crate) tables: Tables,
    pub(crate) index: I,
}

impl<I: Index> MirrorState<I> {
    pub(crate) fn change(&mut self, change: SourceEvent, now: Moment) -> Vec<MirrorChange> {
        match change {
            SourceEvent::Applied { source, mut key, version, mut row } => {
                self.index.complete(&self.tables, &source, &mut key, &mut row);
                match self.tables.entry(&source).apply(key.clone(), row, version) {
                    ApplyOutcome::Unchanged => Vec::new(),
                    ApplyOutcome::Replaced(before) => {
                        self.changed(MirrorChange::Object { source, key, before }, now)
                    }
                }
            }
            SourceEvent::Deleted { source, key, version } => self.delete(source, key, version, now),
            SourceEvent::FailureChanged(source, failure) => {
                self.tables.fail(source, failure, now).into_iter().collect()
            }
        }
    }

    fn delete(&mut self, source: Source, key: ObjectKey, version: u64, now: Moment) -> Vec<MirrorChange> {
        match self.tables.get_mut(&source).and_then(|table| table.delete(&key, version)) {
            None => Vec::new(),
            before => self.changed(MirrorChange::Object { source, key, before }, now),
        }
    }

    fn changed(&mut self, changed: MirrorChange, now: Moment) -> Vec<MirrorChange> {
        let cascades = self.index.changed(&self.tables, &changed, now);
        let mut all = vec![changed];
        all.extend(cascades.into_iter().flat_map(|cascade| self.cascade(cascade, now)));
        all
    }

    fn cascade(&mut self, cascade: Cascade, now: Moment) -> Vec<MirrorChange> {
        match cascade {
            Cascade::RemoveSource(source) => {
                let mut table = self.tables.take(&source);
                let keys = table.iter().flat_map(|table| table.keys()).collect::<Vec<_>>();
                let removed = keys.into_iter().map(|key| {
                    let before = table.as_mut().and_then(|table| table.delete(&key, 0));
                    MirrorChange::Object { source: source.clone(), key, before }
                });
                removed.flat_map(|removed| self.changed(removed, now)).collect()
            }
            Cascade::ReplaceRow(source, key, row) => {
                match self.tables.get_mut(&source).and_then(|table| table.replace(&key, row)) {
                    None => Vec::new(),
                    before => self.changed(MirrorChange::Object { source, key, before }, now),
                }
            }
            Cascade::RemoveRow(source, key) => {
                let changed = self.delete(source.clone(), key, 0, now);
                self.tables.take_if_empty(&source);
                changed
            }
        }
    }

    pub(crate) fn begin_resync(&mut self, source: &Source) {
        self.tables.entry(source).begin_resync();
    }

    pub(crate) fn end_resync(&mut self, source: &Source, version: u64, now: Moment) -> Vec<MirrorChange> {
        let was_ready = self.ready();
        let first = self.tables.synced(source).is_none();
        // The index may have removed the source's rows during the listing. In that case, the listing is ignored.
        let Some(table) = self.tables.get_mut(source) else { return Vec::new() };
        let missing_keys = table.end_resync(version, now);
        let removed = missing_keys.into_iter().flat_map(|key| self.delete(source.clone(), key, version, now));
        let mut changed: Vec<MirrorChange> = removed.collect();
        if first {
            changed.push(MirrorChange::Listed(source.clone()));
        }
        if !was_ready && self.ready() { vec![MirrorChange::Everything] } else { changed }
    }

    pub(crate) fn forget(&mut self, source: &Source, now: Moment) -> Vec<MirrorChange> {
        self.tables.forget_failure(source);
        let mut changed = vec![MirrorChange::Unwatched(source.clone())];
        changed.extend(self.cascade(Cascade::RemoveSource(source.clone()), now));
        let cascades = self.index.source_removed(&self.tables, source);
        changed.extend(cascades.into_iter().flat_map(|cascade| self.cascade(cascade, now)));
        changed
    }

    pub(crate) fn ready(&self) -> bool {
        self.index.can_plan(&self.tables)
    }
}
