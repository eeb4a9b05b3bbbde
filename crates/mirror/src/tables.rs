//! The tables of all sources.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::change::{MirrorChange, WatchFailure, WatchFailureKind};
use crate::kind::Family;
use crate::row::Row;
use crate::source::{DeclaredKind, KindDeclaration, Source};
use crate::table::{AnyTable, Table};
use policy_sync_api::json::Hash;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{GroupResource, ObjectKey};

/// The time after which a repeated transient failure counts as lasting.
const PERSISTENT_AFTER: Duration = Duration::from_secs(5);

/// The rows of all watched sources, and the sources that are failing.
#[derive(Debug, Default)]
pub struct Tables {
    sources: HashMap<Source, Box<dyn AnyTable>>,
    failing: HashMap<Source, SourceFailure>,
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
    /// The table of `source`, whose rows are of type `R`; `None` before its first listing.
    #[must_use]
    pub fn table<R: Row>(&self, source: &Source) -> Option<&Table<R>> {
        downcast(&**self.sources.get(source)?)
    }

    /// The row of `key` in `source`, whose rows are of type `R`.
    #[must_use]
    pub fn row<R: Row>(&self, source: &Source, key: &ObjectKey) -> Option<&R> {
        self.table(source)?.get(key)
    }

    /// The row of `key`, for a kind that is watched without restrictions.
    #[must_use]
    pub fn get<K: DeclaredKind>(&self, kind: &'static K, key: &ObjectKey) -> Option<&K::Row> {
        self.row(&Source::from(kind.declaration()), key)
    }

    /// All rows of a kind that is watched without restrictions, in no particular order.
    pub fn rows<K: DeclaredKind>(&self, kind: &'static K) -> impl Iterator<Item = (&ObjectKey, &K::Row)> {
        self.table::<K::Row>(&Source::from(kind.declaration())).into_iter().flat_map(Table::iter)
    }

    /// Each resource of `kind` that has a table, with its table, in no particular order.
    pub fn resources<R: Row>(
        &self,
        kind: &'static Family<R>,
    ) -> impl Iterator<Item = (&GroupResource, &Table<R>)> {
        let sources = self.sources.iter();
        sources.filter_map(|(source, table)| Some((kind.resource_of(source)?, downcast(&**table)?)))
    }

    /// The hash [`Row::deletion_hash`] of the row of `key` in `source`.
    #[must_use]
    pub fn deletion_hash(&self, source: &Source, key: &ObjectKey) -> Option<Hash> {
        self.sources.get(source)?.deletion_hash(key)
    }

    /// Whether a listing of `source` has begun, and the source has not been removed since.
    #[must_use]
    pub fn has(&self, source: &Source) -> bool {
        self.sources.contains_key(source)
    }

    /// The latest resource version of `source`; 0 before the first listing.
    #[must_use]
    pub fn version(&self, source: &Source) -> u64 {
        self.state(source).0
    }

    /// The time of the first complete listing of `source`.
    #[must_use]
    pub fn synced(&self, source: &Source) -> Option<Moment> {
        self.state(source).1
    }

    fn state(&self, source: &Source) -> (u64, Option<Moment>) {
        self.sources.get(source).map(|table| table.state()).unwrap_or_default()
    }

    /// Whether each of `needed` has been listed completely.
    #[must_use]
    pub fn listed(&self, needed: &[&'static KindDeclaration]) -> bool {
        needed.iter().all(|declaration| self.synced(&Source::from(*declaration)).is_some())
    }

    /// Whether the objects of `source` are known, or are unlikely to become known soon because of a lasting failure.
    #[must_use]
    pub fn is_settled(&self, source: &Source) -> bool {
        self.synced(source).is_some() || self.failure(source).is_some_and(|failing| failing.persistent)
    }

    /// The failing sources, with their error messages.
    #[must_use]
    pub fn failing(&self) -> BTreeMap<&Source, &str> {
        self.failing.iter().map(|(source, failing)| (source, failing.text.as_str())).collect()
    }

    /// The current failure of `source`, if any.
    #[must_use]
    pub fn failure(&self, source: &Source) -> Option<&SourceFailure> {
        self.failing.get(source)
    }

    /// The current failure of `source`, if the hub has denied access.
    #[must_use]
    pub fn access_denial(&self, source: &Source) -> Option<&SourceFailure> {
        self.failure(source).filter(|failing| failing.kind == WatchFailureKind::Forbidden)
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

    /// Removes the table of `source` if it is empty. Otherwise the table of an unwatched source would remain forever.
    pub(crate) fn take_if_empty(&mut self, source: &Source) {
        if self.sources.get(source).is_some_and(|table| table.keys().is_empty()) {
            self.sources.remove(source);
        }
    }

    /// Records or clears a failure of `source`. Returns the resulting change, if any.
    pub(crate) fn fail(
        &mut self,
        source: Source,
        failure: Option<WatchFailure>,
        now: Moment,
    ) -> Option<MirrorChange> {
        let before = self.failing.remove(&source);
        let after = failure.map(|failure| SourceFailure::new(failure, before.as_ref(), now));
        if let Some(after) = &after {
            self.failing.insert(source.clone(), after.clone());
        }
        let toggled = before.is_some() != after.is_some();
        (before != after).then_some(MirrorChange::FailureChanged { source, toggled })
    }

    pub(crate) fn forget_failure(&mut self, source: &Source) {
        self.failing.remove(source);
    }
}

/// A source's current failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFailure {
    /// The hub's message if the hub sent one, otherwise the client's message.
    pub text: String,
    /// Whether a retry may succeed.
    pub kind: WatchFailureKind,
    since: Moment,
    /// Whether the failure needs a fix, or has recurred for 5 seconds.
    pub persistent: bool,
}

impl SourceFailure {
    /// A further failure after `before`, or the first failure.
    fn new(failure: WatchFailure, before: Option<&Self>, now: Moment) -> Self {
        let since = before.map_or(now, |before| before.since);
        let needs_fix =
            matches!(failure.kind, WatchFailureKind::Forbidden | WatchFailureKind::Unauthenticated);
        let persistent = needs_fix || since.after(PERSISTENT_AFTER) <= now;
        Self { text: failure.text, kind: failure.kind, since, persistent }
    }
}
