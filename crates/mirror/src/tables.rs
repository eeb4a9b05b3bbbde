//! The tables of all sources.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};

use crate::change::{Changed, Failure, FailureKind};
use crate::failing::Failing;
use crate::kind::Family;
use crate::row::Row;
use crate::source::{Line, Registered, Source};
use crate::table::{AnyTable, Table};
use policy_sync_api::json::Hash;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{GroupResource, ObjectKey};

/// The rows of each source that is watched.
#[derive(Debug, Default)]
pub struct Tables {
    sources: HashMap<Source, Box<dyn AnyTable>>,
    failing: HashMap<Source, Failing>,
}

impl Clone for Tables {
    fn clone(&self) -> Self {
        let sources = self.sources.iter().map(|(source, table)| (source.clone(), table.copy())).collect();
        Self { sources, failing: self.failing.clone() }
    }
}

fn downcast<R: Row>(table: &dyn AnyTable) -> Option<&Table<R>> {
    let table: &dyn Any = table;
    table.downcast_ref()
}

impl Tables {
    /// The table of `source`, which is one of a kind whose rows are `R`; none before it is first listed.
    #[must_use]
    pub fn table<R: Row>(&self, source: &Source) -> Option<&Table<R>> {
        downcast(&**self.sources.get(source)?)
    }

    /// The row of `key` of `source`, which is one of a kind whose rows are `R`.
    #[must_use]
    pub fn row<R: Row>(&self, source: &Source, key: &ObjectKey) -> Option<&R> {
        self.table(source)?.get(key)
    }

    /// The row of `key` of a kind of which all objects are watched.
    #[must_use]
    pub fn get<K: Registered>(&self, kind: &'static K, key: &ObjectKey) -> Option<&K::Row> {
        self.row(&Source::from(kind.line()), key)
    }

    /// All rows of such a kind, in no order.
    pub fn rows<K: Registered>(&self, kind: &'static K) -> impl Iterator<Item = (&ObjectKey, &K::Row)> {
        self.table::<K::Row>(&Source::from(kind.line())).into_iter().flat_map(Table::iter)
    }

    /// The resources of a family of which there are tables, in no order, each with its table.
    pub fn resources<R: Row>(
        &self,
        kind: &'static Family<R>,
    ) -> impl Iterator<Item = (&GroupResource, &Table<R>)> {
        let sources = self.sources.iter();
        sources.filter_map(|(source, table)| Some((kind.resource_of(source)?, downcast(&**table)?)))
    }

    /// The row of `key` of `source` by the hash of what deletes are decided from.
    #[must_use]
    pub fn decides(&self, source: &Source, key: &ObjectKey) -> Option<Hash> {
        self.sources.get(source)?.decides(key)
    }

    /// Whether a listing of `source` has begun since it was forgotten last.
    #[must_use]
    pub fn has(&self, source: &Source) -> bool {
        self.sources.contains_key(source)
    }

    /// The highest version that `source` has seen, 0 before the first listing.
    #[must_use]
    pub fn version(&self, source: &Source) -> u64 {
        self.state(source).0
    }

    /// When `source` was first listed whole.
    #[must_use]
    pub fn synced(&self, source: &Source) -> Option<Moment> {
        self.state(source).1
    }

    fn state(&self, source: &Source) -> (u64, Option<Moment>) {
        self.sources.get(source).map(|table| table.state()).unwrap_or_default()
    }

    /// Whether each of `needed` has been listed whole.
    #[must_use]
    pub fn listed(&self, needed: &[&'static Line]) -> bool {
        needed.iter().all(|line| self.synced(&Source::from(*line)).is_some())
    }

    /// Whether it is known what there is of `source`, or that this cannot be known for now.
    #[must_use]
    pub fn is_settled(&self, source: &Source) -> bool {
        self.synced(source).is_some() || self.failure(source).is_some_and(|failing| failing.lasting)
    }

    /// What cannot be listed or watched, and why.
    #[must_use]
    pub fn failing(&self) -> BTreeMap<&Source, &str> {
        self.failing.iter().map(|(source, failing)| (source, failing.text.as_str())).collect()
    }

    /// Why `source` cannot be listed or watched, `None` where it can.
    #[must_use]
    pub fn failure(&self, source: &Source) -> Option<&Failing> {
        self.failing.get(source)
    }

    /// Why the hub refuses to have `source` listed or watched, `None` where it does not.
    #[must_use]
    pub fn refusal(&self, source: &Source) -> Option<&Failing> {
        self.failure(source).filter(|failing| failing.kind == FailureKind::Refused)
    }

    pub(crate) fn entry(&mut self, source: &Source) -> &mut dyn AnyTable {
        &mut **self.sources.entry(source.clone()).or_insert_with(|| source.new_table())
    }

    pub(crate) fn get_mut(&mut self, source: &Source) -> Option<&mut (dyn AnyTable + 'static)> {
        self.sources.get_mut(source).map(|table| &mut **table)
    }

    pub(crate) fn take(&mut self, source: &Source) -> Option<Box<dyn AnyTable>> {
        self.sources.remove(source)
    }

    /// A table that is empty and of nothing that is watched would be there for ever.
    pub(crate) fn take_if_empty(&mut self, source: &Source) {
        if self.sources.get(source).is_some_and(|table| table.keys().is_empty()) {
            self.sources.remove(source);
        }
    }

    /// Notes whether `source` can be listed and watched, and returns what that comes to.
    pub(crate) fn fail(&mut self, source: Source, failure: Option<Failure>, now: Moment) -> Option<Changed> {
        let before = self.failing.remove(&source);
        let after = failure.map(|failure| Failing::new(failure, before.as_ref(), now));
        if let Some(after) = &after {
            self.failing.insert(source.clone(), after.clone());
        }
        let toggled = before.is_some() != after.is_some();
        (before != after).then_some(Changed::Failing { source, toggled })
    }

    pub(crate) fn forget_failure(&mut self, source: &Source) {
        self.failing.remove(source);
    }
}
