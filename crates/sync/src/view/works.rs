//! The works of a view.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::View;
use crate::index::SECOND;
use crate::index::same_target::Order;
use crate::key::{row_key, work_key};
use crate::kinds::WORKS;
use crate::rows::policy::Target;
use crate::rows::work::Work;
use crate::{PolicyKind, UnplacedRecord};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, ObjectKey, Origin, WorkName};

impl<'m> View<'m> {
    /// A work by its name.
    #[must_use]
    pub fn work(&self, name: &WorkName, cluster: &ClusterName) -> Option<&'m Work> {
        let key = ObjectKey { namespace: cluster.0.clone(), name: name.0.clone() };
        self.tables.get(&WORKS, &key)
    }

    /// The moment from which new copies on `cluster` get a later creation time, in whole seconds, than the copy in the
    /// work `name`. `None` if this moment has passed. Because the clocks of hub and spoke may differ, the moment is one
    /// second after this process first saw the creation time of the copy.
    #[must_use]
    pub fn copy_settles(&self, name: &WorkName, cluster: &ClusterName) -> Option<Moment> {
        let seen = self.index.copied.last(&(name.clone(), cluster.clone()));
        let settles = seen.max(self.synced(&WORKS.all()))?.after(SECOND);
        (settles > self.now).then_some(settles)
    }

    /// For each of `targets`, the policies of `kind` in `namespace` that have this target.
    pub(crate) fn same_target<'t>(
        &self,
        kind: &PolicyKind,
        namespace: &Arc<str>,
        targets: &'t [Target],
    ) -> impl Iterator<Item = (&'t Target, &'m Order)> {
        let (index, kind, namespace) = (self.index, kind.clone(), namespace.clone());
        targets
            .iter()
            .filter_map(move |target| Some((target, index.same_target.of(&kind, &namespace, target)?)))
    }

    /// The work of `origin` in `cluster`, with its name.
    pub(crate) fn named_work_of(
        &self,
        origin: &Origin,
        cluster: &ClusterName,
    ) -> Option<(&'m WorkName, &'m Work)> {
        let key = self.index.work_key_of(origin, cluster)?;
        Some((&key.0, self.tables.get(&WORKS, &row_key(key))?))
    }

    /// The works of `origin`, by cluster. A cluster can have more than one work only if the resource name of the kind
    /// has changed.
    pub fn works_of(
        &self,
        origin: &Origin,
    ) -> impl Iterator<Item = (&'m WorkName, &'m ClusterName, &'m Work)> {
        let works = self.tables.table::<Work>(&WORKS.all());
        let keys = self.index.works_of.get(origin).into_iter().flatten();
        keys.filter_map(move |key| Some((&key.0, &key.1, works?.get(&row_key(key))?)))
    }

    /// The origins of all works, whether or not the objects exist, in no order.
    pub fn origins(&self) -> impl Iterator<Item = &'m Arc<Origin>> {
        self.index.works_of.keys()
    }

    /// The work of `origin` in `cluster`.
    #[must_use]
    pub fn work_of(&self, origin: &Origin, cluster: &ClusterName) -> Option<&'m Work> {
        self.index.work_of(self.tables, origin, cluster)
    }

    /// When the watch last reported that a work of `origin` has been applied in its current generation; `None` if the
    /// watch has not reported this.
    #[must_use]
    pub fn last_applied(&self, origin: &Origin) -> Option<Moment> {
        self.index.applied.get(origin).copied()
    }

    /// The Gateways that the annotation of a policy's work names. Only Gateways that exist or have a work of this
    /// controller in `cluster` are returned.
    pub fn served(&self, cluster: &'m ClusterName, work: &'m Work) -> impl Iterator<Item = ObjectKey> + 'm {
        self.index.served(self.tables, cluster, work)
    }

    /// This process's record of a Gateway's work in a cluster that is not selected.
    #[must_use]
    pub fn unplaced_record(&self, name: &WorkName, cluster: &ClusterName) -> UnplacedRecord {
        self.index.unplaced.get(&(name.clone(), cluster.clone()))
    }

    /// All works, in no order.
    pub fn works(&self) -> impl Iterator<Item = (WorkName, ClusterName, &'m Work)> {
        self.tables.rows(&WORKS).map(|(key, work)| {
            let (name, cluster) = work_key(key);
            (name, cluster, work)
        })
    }

    /// The clusters that have works for Gateways, policies or resources, in no order.
    pub fn clusters_with_works(&self) -> impl Iterator<Item = &'m ClusterName> {
        self.index.kinds_in_works.keys()
    }

    /// The kinds that works of this controller in `cluster` contain, including works that are being deleted.
    #[must_use]
    pub fn kinds_in_works(&self, cluster: &ClusterName) -> BTreeSet<PolicyKind> {
        self.index
            .kinds_in_works
            .get(cluster)
            .map(|kinds| kinds.keys().cloned().collect())
            .unwrap_or_default()
    }

    /// The size of the interned texts of works in bytes, including texts that no work uses any more.
    #[cfg(test)]
    pub(crate) fn work_text_bytes(&self) -> usize {
        self.index.text_bytes()
    }

    /// The number of works by purpose and state, see [`GROUPS`](crate::counts::GROUPS).
    #[must_use]
    pub fn work_counts(&self) -> BTreeMap<(&'static str, &'static str), usize> {
        self.index.counts.all()
    }
}
