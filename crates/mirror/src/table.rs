//! The rows of one source, with the state of a paginated listing.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;

use crate::row::{AnyRow, Row};
use policy_sync_api::json::Hash;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::ObjectKey;
use policy_sync_api::shrink::shrink_if_sparse;

#[derive(Clone, Debug)]
struct Entry<R> {
    /// Boxed, so that unused slots of the hash table are small.
    row: Box<R>,
    listing: u64,
}

/// The rows of one source.
#[derive(Clone, Debug)]
pub struct Table<R> {
    rows: HashMap<ObjectKey, Entry<R>>,
    listing: u64,
    version: u64,
    synced: Option<Moment>,
}

impl<R> Default for Table<R> {
    fn default() -> Self {
        Self { rows: HashMap::new(), listing: 0, version: 0, synced: None }
    }
}

impl<R> Table<R> {
    /// The row of `key`.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<&R> {
        self.rows.get(key).map(|entry| &*entry.row)
    }

    /// The number of rows.
    #[must_use]
    pub fn count(&self) -> usize {
        self.rows.len()
    }

    /// All rows, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &R)> {
        self.rows.iter().map(|(key, entry)| (key, &*entry.row))
    }
}

/// The result of storing a row.
#[derive(Debug)]
pub(crate) enum ApplyOutcome {
    /// The existing row is equal. It is kept, because it may hold cached or shared data.
    Unchanged,
    /// The previous row, if any.
    Replaced(Option<AnyRow>),
}

/// A table with the type of its rows erased.
pub(crate) trait AnyTable: Any + fmt::Debug + Send + Sync {
    /// Adds or replaces a row.
    fn apply(&mut self, key: ObjectKey, row: AnyRow, version: u64) -> ApplyOutcome;

    /// Replaces an existing row and returns the previous row; `None` if there is no row.
    fn replace(&mut self, key: &ObjectKey, row: AnyRow) -> Option<AnyRow>;

    /// Removes a row.
    fn delete(&mut self, key: &ObjectKey, version: u64) -> Option<AnyRow>;

    /// Starts a full listing.
    fn begin_resync(&mut self);

    /// Ends a full listing. Returns the keys of rows that the listing did not contain. These rows are not removed yet.
    fn end_resync(&mut self, version: u64, now: Moment) -> Vec<ObjectKey>;

    /// Records that the table is up to date with `version`.
    fn bookmark(&mut self, version: u64);

    /// The latest resource version, and the time of the first complete listing.
    fn state(&self) -> (u64, Option<Moment>);

    /// See [`Row::deletion_hash`].
    fn deletion_hash(&self, key: &ObjectKey) -> Option<Hash>;

    /// The keys of all rows.
    fn keys(&self) -> Vec<ObjectKey>;

    /// An independent copy of the table.
    fn copy(&self) -> Box<dyn AnyTable>;
}

impl<R: Row> AnyTable for Table<R> {
    fn apply(&mut self, key: ObjectKey, row: AnyRow, version: u64) -> ApplyOutcome {
        self.bookmark(version);
        // All rows of a table come from one source, so they have the same type.
        let Some(row) = row.into_box::<R>() else { return ApplyOutcome::Unchanged };
        let listing = self.listing;
        if let Some(entry) = self.rows.get_mut(&key).filter(|entry| entry.row == row) {
            entry.listing = listing;
            return ApplyOutcome::Unchanged;
        }
        let before = self.rows.insert(key, Entry { row, listing });
        ApplyOutcome::Replaced(before.map(|entry| AnyRow::boxed(entry.row)))
    }

    fn replace(&mut self, key: &ObjectKey, row: AnyRow) -> Option<AnyRow> {
        let (entry, row) = (self.rows.get_mut(key)?, row.into_box::<R>()?);
        Some(AnyRow::boxed(std::mem::replace(&mut entry.row, row)))
    }

    fn delete(&mut self, key: &ObjectKey, version: u64) -> Option<AnyRow> {
        self.bookmark(version);
        let entry = self.rows.remove(key);
        shrink_if_sparse(&mut self.rows);
        entry.map(|entry| AnyRow::boxed(entry.row))
    }

    fn begin_resync(&mut self) {
        self.listing += 1;
    }

    fn end_resync(&mut self, version: u64, now: Moment) -> Vec<ObjectKey> {
        self.bookmark(version);
        self.synced.get_or_insert(now);
        let old = self.rows.iter().filter(|(_, entry)| entry.listing < self.listing);
        old.map(|(key, _)| key.clone()).collect()
    }

    fn bookmark(&mut self, version: u64) {
        self.version = self.version.max(version);
    }

    fn state(&self) -> (u64, Option<Moment>) {
        (self.version, self.synced)
    }

    fn deletion_hash(&self, key: &ObjectKey) -> Option<Hash> {
        self.get(key)?.deletion_hash()
    }

    fn keys(&self) -> Vec<ObjectKey> {
        self.rows.keys().cloned().collect()
    }

    fn copy(&self) -> Box<dyn AnyTable> {
        Box::new(self.clone())
    }
}
