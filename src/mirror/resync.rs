//! Taking a full listing in, page by page: what it does not bring is gone.

use std::collections::BTreeSet;

use super::tables::Tables;
use super::{Changed, Moment, Source, Table};
use crate::api::names::ObjectKey;

impl Tables {
    pub(super) fn begin_resync(&mut self, source: &Source) {
        match source {
            Source::Classes => self.classes.begin_resync(),
            Source::ConfigMap(name) => self.config_maps.entry(name.clone()).or_default().begin_resync(),
            Source::Gateways => self.gateways.begin_resync(),
            Source::Clusters => self.clusters.begin_resync(),
            Source::Placements => self.placements.begin_resync(),
            Source::Decisions => self.decisions.begin_resync(),
            Source::Works => self.works.begin_resync(),
            Source::Policies(kind) => self.policies.entry(kind.clone()).or_default().begin_resync(),
            Source::Secrets => self.secrets.begin_resync(),
            Source::Grants => self.grants.begin_resync(),
        }
    }

    pub(super) fn end_resync(&mut self, source: &Source, version: u64, now: Moment) -> Vec<Changed> {
        let was_ready = self.ready();
        let first = self.synced(source).is_none();
        let mut changed = Vec::new();
        for key in self.vanished(source, version, now) {
            changed.extend(self.delete(source.clone(), key, version, now));
        }
        if first {
            changed.push(Changed::Listed(source.clone()));
        }
        if !was_ready && self.ready() { vec![Changed::Everything] } else { changed }
    }

    /// Ends the listing of one table and puts what it did not bring back for a moment, so that its going takes the
    /// same way as a deletion that was watched.
    fn vanished(&mut self, source: &Source, version: u64, now: Moment) -> Vec<ObjectKey> {
        fn restore<R>(table: &mut Table<ObjectKey, R>, version: u64, now: Moment) -> Vec<ObjectKey> {
            let gone = table.end_resync(version, now);
            gone.into_iter()
                .map(|(key, row)| {
                    table.apply(key.clone(), row, version);
                    key
                })
                .collect()
        }
        match source {
            Source::Classes => restore(&mut self.classes, version, now),
            Source::ConfigMap(name) => {
                self.config_maps.get_mut(name).map(|table| restore(table, version, now)).unwrap_or_default()
            }
            Source::Gateways => restore(&mut self.gateways, version, now),
            Source::Clusters => restore(&mut self.clusters, version, now),
            Source::Placements => restore(&mut self.placements, version, now),
            Source::Decisions => restore(&mut self.decisions, version, now),
            Source::Works => {
                let gone = self.works.end_resync(version, now);
                gone.into_iter()
                    .map(|(key, row)| {
                        self.works.apply(key.clone(), row, version);
                        ObjectKey { namespace: key.1.0, name: key.0.0 }
                    })
                    .collect()
            }
            Source::Policies(kind) => {
                self.policies.get_mut(kind).map(|table| restore(table, version, now)).unwrap_or_default()
            }
            Source::Secrets => restore(&mut self.secrets, version, now),
            Source::Grants => restore(&mut self.grants, version, now),
        }
    }

    pub(super) fn bookmark(&mut self, source: &Source, version: u64) {
        match source {
            Source::Classes => self.classes.bookmark(version),
            Source::ConfigMap(name) => self.config_maps.entry(name.clone()).or_default().bookmark(version),
            Source::Gateways => self.gateways.bookmark(version),
            Source::Clusters => self.clusters.bookmark(version),
            Source::Placements => self.placements.bookmark(version),
            Source::Decisions => self.decisions.bookmark(version),
            Source::Works => self.works.bookmark(version),
            Source::Policies(kind) => self.policies.entry(kind.clone()).or_default().bookmark(version),
            Source::Secrets => self.secrets.bookmark(version),
            Source::Grants => self.grants.bookmark(version),
        }
    }

    pub(super) fn forget(&mut self, source: &Source) -> Vec<Changed> {
        self.failing.remove(source);
        match source {
            Source::ConfigMap(name) => {
                self.config_maps.remove(name);
                Vec::new()
            }
            Source::Policies(kind) => {
                self.followed.remove(kind);
                // What was found out of versions that are listed still holds.
                let known = self.known_params.values();
                let known =
                    known.chain(self.departed.values().filter_map(|departed| departed.params.as_ref()));
                let listed: BTreeSet<_> = known
                    .flat_map(|params| &params.policies_to_sync)
                    .map(|policy| policy.gvr())
                    .filter(|gvr| gvr.kind == *kind)
                    .collect();
                self.kinds.retain(|gvr, _| gvr.kind != *kind || listed.contains(gvr));
                self.take_policies(kind)
            }
            // Nothing asks for them any more.
            Source::Secrets => {
                self.secrets = Table::default();
                Vec::new()
            }
            Source::Grants => {
                self.grants = Table::default();
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    pub(super) fn version(&self, source: &Source) -> u64 {
        self.state(source).0
    }

    pub(super) fn synced(&self, source: &Source) -> Option<Moment> {
        self.state(source).1
    }

    fn state(&self, source: &Source) -> (u64, Option<Moment>) {
        fn of<K: Eq + std::hash::Hash + Clone, R>(table: &Table<K, R>) -> (u64, Option<Moment>) {
            (table.version(), table.synced())
        }
        match source {
            Source::Classes => of(&self.classes),
            Source::ConfigMap(name) => self.config_maps.get(name).map(of).unwrap_or_default(),
            Source::Gateways => of(&self.gateways),
            Source::Clusters => of(&self.clusters),
            Source::Placements => of(&self.placements),
            Source::Decisions => of(&self.decisions),
            Source::Works => of(&self.works),
            Source::Policies(kind) => self.policies.get(kind).map(of).unwrap_or_default(),
            Source::Secrets => of(&self.secrets),
            Source::Grants => of(&self.grants),
        }
    }

    pub(super) fn ready(&self) -> bool {
        self.work_schema.is_some_and(|schema| schema.fault().is_none())
            && Source::FIXED.iter().all(|source| self.synced(source).is_some())
    }
}
