//! One kind's rows, with what is needed to take a full listing in page by page.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use crate::shrink::give_back;

/// A point in time, in milliseconds since 1970-01-01 UTC, by a clock that never runs backwards within a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Moment(pub i64);

impl Moment {
    /// The moment `duration` later.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// The same in whole seconds, which is what the API keeps.
    #[must_use]
    pub fn whole_seconds(self) -> Timestamp {
        Timestamp::from_second(self.0.div_euclid(1000)).unwrap_or(Timestamp::MAX)
    }

    /// The same as annotations have it: whole seconds, in RFC 3339.
    #[must_use]
    pub fn rfc3339(self) -> String {
        format!("{:.0}", self.whole_seconds())
    }

    /// The earlier of two moments, where there are any.
    #[must_use]
    pub fn earliest(left: Option<Self>, right: Option<Self>) -> Option<Self> {
        left.into_iter().chain(right).min()
    }

    /// The time from `earlier` to this moment, zero where it is not earlier.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or_default())
    }
}

#[derive(Clone, Debug)]
struct Entry<R> {
    row: R,
    listing: u64,
}

/// The rows of one kind.
#[derive(Clone, Debug)]
pub struct Table<K, R> {
    rows: HashMap<K, Entry<R>>,
    listing: u64,
    version: u64,
    synced: Option<Moment>,
}

impl<K, R> Default for Table<K, R> {
    fn default() -> Self {
        Self { rows: HashMap::new(), listing: 0, version: 0, synced: None }
    }
}

impl<K: Eq + Hash + Clone, R> Table<K, R> {
    /// Puts a row in and returns the one that was there.
    pub fn apply(&mut self, key: K, row: R, version: u64) -> Option<R> {
        self.version = self.version.max(version);
        self.rows.insert(key, Entry { row, listing: self.listing }).map(|entry| entry.row)
    }

    /// Takes a row out.
    pub fn delete<Q>(&mut self, key: &Q, version: u64) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.version = self.version.max(version);
        let entry = self.rows.remove(key);
        give_back(&mut self.rows);
        entry.map(|entry| entry.row)
    }

    /// Starts a full listing.
    pub fn begin_resync(&mut self) {
        self.listing += 1;
    }

    /// Ends a full listing and takes out the rows that it did not bring.
    pub fn end_resync(&mut self, version: u64, now: Moment) -> Vec<(K, R)> {
        self.bookmark(version);
        self.synced.get_or_insert(now);
        let listing = self.listing;
        self.rows
            .extract_if(|_, entry| entry.listing < listing)
            .map(|(key, entry)| (key, entry.row))
            .collect()
    }

    /// Notes that everything up to `version` was seen.
    pub fn bookmark(&mut self, version: u64) {
        self.version = self.version.max(version);
    }

    /// The row of `key`.
    #[must_use]
    pub fn get<Q>(&self, key: &Q) -> Option<&R>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.rows.get(key).map(|entry| &entry.row)
    }

    /// All rows, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &R)> {
        self.rows.iter().map(|(key, entry)| (key, &entry.row))
    }

    /// All rows, in no order, out of it.
    pub fn into_rows(self) -> impl Iterator<Item = (K, R)> {
        self.rows.into_iter().map(|(key, entry)| (key, entry.row))
    }

    /// The highest version that was seen.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// When the first full listing ended.
    #[must_use]
    pub fn synced(&self) -> Option<Moment> {
        self.synced
    }
}
