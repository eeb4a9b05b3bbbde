//! Works: what they are for, and what is derived from that as they come, change and go.

use std::sync::Arc;

use super::rows::work::{Purpose, Work};
use super::tables::{Tables, WorkKey};
use super::{Moment, PolicyKind};
use crate::api::names::{ClusterName, ObjectKey, Parent, WorkName};
use crate::shrink::give_back;

impl Tables {
    /// Puts a work in and returns the one that was there.
    pub(super) fn apply_work(
        &mut self,
        key: &ObjectKey,
        mut row: Box<Work>,
        version: u64,
        now: Moment,
    ) -> Option<Box<Work>> {
        let key = self.work_key(key);
        if let Purpose::Parent(parent) = &mut row.purpose
            && let Some((known, _)) = self.works_of.get_key_value(parent)
        {
            *parent = known.clone();
        }
        row.revision = row.revision.take().map(|revision| self.strings.intern(revision));
        row.gateways = self.gateway_names.intern(row.gateways.clone());
        row.answer = row.answer.take().map(|answer| self.answers.intern(answer));
        let (purpose, uid, grants) = (row.purpose.clone(), row.uid.clone(), row.grants);
        self.counts.add(&row);
        let before = self.works.apply(key.clone(), row, version);
        if let Some(before) = &before {
            self.counts.take(before);
        }
        self.grants_counted(&key.1, before.as_deref(), grants);
        let same = before.as_ref().filter(|before| before.uid == uid);
        if before.is_some() && same.is_none() {
            self.displaced.forget(&key);
        }
        self.displacement_seen(&key, same.map(|before| before.displaced), now);
        if before.as_ref().is_none_or(|before| before.purpose != purpose) {
            if let Some(before) = &before {
                self.unlink(&key, &before.purpose);
            }
            self.link(&key, &purpose);
        }
        before
    }

    /// Takes a work out and returns it.
    pub(super) fn delete_work(&mut self, key: &ObjectKey, version: u64) -> Option<Box<Work>> {
        let key = self.work_key(key);
        self.works.bookmark(version);
        let before = self.works.delete(&key, version);
        if let Some(before) = &before {
            self.counts.take(before);
        }
        self.displaced.forget(&key);
        self.grants_counted(&key.1, before.as_deref(), false);
        let before = before?;
        self.unlink(&key, &before.purpose);
        Some(before)
    }

    /// Notes what the work `key` is for.
    fn link(&mut self, key: &WorkKey, purpose: &Purpose) {
        if let Purpose::Parent(parent) = purpose {
            self.works_of.entry(parent.clone()).or_default().insert(key.clone());
            self.carries(&key.1, &parent.kind, true);
        }
    }

    /// Forgets what the work `key` was for.
    fn unlink(&mut self, key: &WorkKey, purpose: &Purpose) {
        let Purpose::Parent(parent) = purpose else { return };
        if let Some(works) = self.works_of.get_mut(parent) {
            works.remove(key);
            if works.is_empty() {
                self.works_of.remove(parent);
                give_back(&mut self.works_of);
            }
        }
        self.carries(&key.1, &parent.kind, false);
    }

    /// Counts a work of `cluster` that was `before` among those that carry ReferenceGrants, where it is one now.
    fn grants_counted(&mut self, cluster: &ClusterName, before: Option<&Work>, now: bool) {
        if before.is_some_and(|before| before.grants) == now {
            return;
        }
        self.carries(cluster, &PolicyKind::reference_grants(), now);
    }

    /// Counts one work more of `cluster` that carries `kind`, or one less.
    fn carries(&mut self, cluster: &ClusterName, kind: &PolicyKind, more: bool) {
        let carried = self.carried.entry(cluster.clone()).or_default();
        let count = carried.entry(kind.clone()).or_default();
        *count = if more { *count + 1 } else { count.saturating_sub(1) };
        carried.retain(|_, count| *count > 0);
        if carried.is_empty() {
            self.carried.remove(cluster);
            self.last_labels.remove(cluster);
        }
    }

    /// The work that is for `parent` in `cluster`. All works of a parent have one name, but for those of a kind whose own
    /// name has changed.
    pub(super) fn work_of(&self, parent: &Parent, cluster: &ClusterName) -> Option<&Work> {
        let keys = self.works_of.get(parent)?;
        let (first, last) = (keys.first()?, keys.last()?);
        let key = if first.0 == last.0 {
            keys.get(&(first.0.clone(), cluster.clone()))
        } else {
            keys.iter().find(|(_, found)| found == cluster)
        };
        self.works.get(key?).map(|work| &**work)
    }

    /// The Gateways that the work `work` of a policy in `cluster` serves, by its own word, as far as there is anything to it:
    /// a spoke may write any names.
    pub(super) fn served<'t>(
        &'t self,
        cluster: &'t ClusterName,
        work: &'t Work,
    ) -> impl Iterator<Item = ObjectKey> + 't {
        let namespace = work.parent().map(|parent| parent.object.namespace.clone());
        let named = namespace.into_iter().flat_map(|namespace| {
            let key = move |name: &Arc<str>| ObjectKey { namespace: namespace.clone(), name: name.clone() };
            work.gateways.iter().map(key)
        });
        named.filter(move |key| {
            self.gateways.get(key).is_some() || self.work_of(&Parent::gateway(key.clone()), cluster).is_some()
        })
    }

    fn work_key(&mut self, key: &ObjectKey) -> WorkKey {
        let (name, cluster) = (key.name.clone(), key.namespace.clone());
        (WorkName(self.strings.intern(name)), ClusterName(self.strings.intern(cluster)))
    }
}
