//! The index of works by origin, and the counts that are derived from it.

use std::sync::Arc;

use super::Index;
use crate::PolicyKind;
use crate::key::{WorkKey, row_key};
use crate::kinds::{GATEWAYS, WORKS};
use crate::rows::work::{Purpose, Work};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, ObjectKey, Origin};
use policy_sync_api::shrink::shrink_if_sparse;
use policy_sync_mirror::Tables;

impl Index {
    /// Interns the parts of a new row that other rows are likely to contain, too.
    pub(super) fn share(&mut self, key: &mut ObjectKey, work: &mut Work) {
        key.name = self.strings.intern(key.name.clone());
        key.namespace = self.strings.intern(key.namespace.clone());
        if let Purpose::Copy(origin) = &mut work.purpose
            && let Some((known, _)) = self.works_of.get_key_value(origin)
        {
            *origin = known.clone();
        }
        work.revision = work.revision.take().map(|revision| self.strings.intern(revision));
        work.gateways = self.gateway_names.intern(work.gateways.clone());
        work.report = work.report.take().map(|report| self.reports.intern(report));
    }

    /// Updates the index after a work was created, changed or deleted. `before` is its old row.
    pub(super) fn work_changed(
        &mut self,
        tables: &Tables,
        key: &WorkKey,
        before: Option<&Work>,
        now: Moment,
    ) {
        let after = tables.get(&WORKS, &row_key(key));
        if let Some(after) = after {
            self.counts.add(after);
        }
        if let Some(before) = before {
            self.counts.take(before);
        }
        self.count_grants(&key.1, before, after.is_some_and(|after| after.grants));
        let same = before.filter(|before| after.is_some_and(|after| after.uid == before.uid));
        if same.is_none() {
            self.unplaced.forget(key);
        }
        if let Some(after) = after {
            let of_gateway = same.filter(|before| before.purpose == after.purpose);
            self.work_mark_changed(tables, key, after, of_gateway.map(|before| before.unplaced), now);
        }
        // If a spoke changes the creation time again and again, this causes no further delay.
        let was_copied = match same {
            Some(before) => before.copied.is_some(),
            // In an offline mirror, all works are listed at the moment 0.
            None => tables.synced(&WORKS.all()).is_none_or(|at| at == Moment::default()),
        };
        if !was_copied && after.is_some_and(|after| after.copied.is_some()) {
            self.copied.note(key.clone(), now);
        }
        let [was_for, is_for] = [before, after].map(|work| work.map(|work| &work.purpose));
        if was_for != is_for {
            was_for.into_iter().for_each(|purpose| self.unlink(key, purpose));
            is_for.into_iter().for_each(|purpose| self.link(key, purpose));
        }
        let was_applied = |after: &Work| {
            same.is_some_and(|before| before.is_applied() && before.generation == after.generation)
        };
        if let Some(after) = after.filter(|after| after.is_applied() && !was_applied(after))
            && let Some(origin) = after.origin()
        {
            self.applied.insert(origin.clone(), now);
        }
    }

    fn link(&mut self, key: &WorkKey, purpose: &Purpose) {
        if let Purpose::Copy(origin) = purpose {
            self.works_of.entry(origin.clone()).or_default().insert(key.clone());
            self.count_kind(&key.1, origin.kind(), true);
        }
    }

    fn unlink(&mut self, key: &WorkKey, purpose: &Purpose) {
        let Purpose::Copy(origin) = purpose else { return };
        if let Some(works) = self.works_of.get_mut(origin) {
            works.remove(key);
            if works.is_empty() {
                self.works_of.remove(origin);
                self.applied.remove(origin);
                shrink_if_sparse(&mut self.works_of);
                shrink_if_sparse(&mut self.applied);
            }
        }
        self.count_kind(&key.1, origin.kind(), false);
    }

    /// Updates the count of works in `cluster` that contain ReferenceGrants. `before` is the old row; `now` is whether
    /// the new row contains any.
    fn count_grants(&mut self, cluster: &ClusterName, before: Option<&Work>, now: bool) {
        if before.is_some_and(|before| before.grants) == now {
            return;
        }
        self.count_kind(cluster, &PolicyKind::reference_grants(), now);
    }

    /// Adds one to the count of works in `cluster` that contain `kind`, or subtracts one.
    fn count_kind(&mut self, cluster: &ClusterName, kind: &PolicyKind, more: bool) {
        let kinds = self.kinds_in_works.entry(cluster.clone()).or_default();
        let count = kinds.entry(kind.clone()).or_default();
        *count = if more { *count + 1 } else { count.saturating_sub(1) };
        kinds.retain(|_, count| *count > 0);
        if kinds.is_empty() {
            self.kinds_in_works.remove(cluster);
            self.last_labels.remove(cluster);
        }
    }

    /// The work of `origin` in `cluster`. All works of an origin have the same name, unless the resource name of its
    /// kind has changed.
    pub(crate) fn work_of<'t>(
        &self,
        tables: &'t Tables,
        origin: &Origin,
        cluster: &ClusterName,
    ) -> Option<&'t Work> {
        tables.get(&WORKS, &row_key(self.work_key_of(origin, cluster)?))
    }

    /// The key of the work of `origin` in `cluster`.
    pub(crate) fn work_key_of(&self, origin: &Origin, cluster: &ClusterName) -> Option<&WorkKey> {
        let keys = self.works_of.get(origin)?;
        let (first, last) = (keys.first()?, keys.last()?);
        if first.0 == last.0 {
            keys.get(&(first.0.clone(), cluster.clone()))
        } else {
            keys.iter().find(|(_, found)| found == cluster)
        }
    }

    /// The Gateways that the annotation of a policy's work names. Since a spoke may write any names, only Gateways that
    /// exist or have a work in `cluster` are returned.
    pub(crate) fn served<'t>(
        &'t self,
        tables: &'t Tables,
        cluster: &'t ClusterName,
        work: &'t Work,
    ) -> impl Iterator<Item = ObjectKey> + 't {
        let namespace = work.origin().map(|origin| origin.object().namespace.clone());
        let named = namespace.into_iter().flat_map(|namespace| {
            let key = move |name: &Arc<str>| ObjectKey { namespace: namespace.clone(), name: name.clone() };
            work.gateways.iter().map(key)
        });
        named.filter(move |key| {
            tables.get(&GATEWAYS, key).is_some()
                || self.work_of(tables, &Origin::Gateway(key.clone()), cluster).is_some()
        })
    }
}
