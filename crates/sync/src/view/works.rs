//! The works that a plan sees.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::View;
use crate::index::SECOND;
use crate::index::same_target::Order;
use crate::key::{row_key, work_key};
use crate::kinds::WORKS;
use crate::rows::policy::Target;
use crate::rows::work::Work;
use crate::{PolicyKind, UnplacedSince};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, ObjectKey, Origin, WorkName};

impl<'m> View<'m> {
    /// A work by its name.
    #[must_use]
    pub fn work(&self, name: &WorkName, cluster: &ClusterName) -> Option<&'m Work> {
        let key = ObjectKey { namespace: cluster.0.clone(), name: name.0.clone() };
        self.tables.get(&WORKS, &key)
    }

    /// From when on copies that `cluster` creates are younger than the copy in the work `name` there, in whole seconds; `None` if
    /// they are already. The clocks of hub and spoke may differ, so that this counts from when the creation time was seen.
    #[must_use]
    pub fn copy_settles(&self, name: &WorkName, cluster: &ClusterName) -> Option<Moment> {
        let seen = self.index.copied.last(&(name.clone(), cluster.clone()));
        let settles = seen.max(self.synced(&WORKS.all()))?.after(SECOND);
        (settles > self.now).then_some(settles)
    }

    /// The policies of `kind` in `namespace` that have one of `targets`, by target.
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

    /// The work that is for `origin` in `cluster`, with its name.
    pub(crate) fn named_work_of(
        &self,
        origin: &Origin,
        cluster: &ClusterName,
    ) -> Option<(&'m WorkName, &'m Work)> {
        let key = self.index.work_key_of(origin, cluster)?;
        Some((&key.0, self.tables.get(&WORKS, &row_key(key))?))
    }

    /// The works that are for `origin`, by cluster. There can be more than one in a cluster only where a kind's
    /// name changed.
    pub fn works_of(
        &self,
        origin: &Origin,
    ) -> impl Iterator<Item = (&'m WorkName, &'m ClusterName, &'m Work)> {
        let works = self.tables.table::<Work>(&WORKS.all());
        let keys = self.index.works_of.get(origin).into_iter().flatten();
        keys.filter_map(move |key| Some((&key.0, &key.1, works?.get(&row_key(key))?)))
    }

    /// The Gateways and policies that there are works for, whether or not they exist, in no order.
    pub fn origins(&self) -> impl Iterator<Item = &'m Arc<Origin>> {
        self.index.works_of.keys()
    }

    /// The work that is for `origin` in `cluster`.
    #[must_use]
    pub fn work_of(&self, origin: &Origin, cluster: &ClusterName) -> Option<&'m Work> {
        self.index.work_of(self.tables, origin, cluster)
    }

    /// When the watch last brought that a work of `origin` is applied as it is now; `None` where it has brought none.
    #[must_use]
    pub fn last_applied(&self, origin: &Origin) -> Option<Moment> {
        self.index.applied.get(origin).copied()
    }

    /// The Gateways of its policy's namespace that the work `work` in `cluster` serves, by its own word: those that exist, or
    /// have a work of ours there.
    pub fn served(&self, cluster: &'m ClusterName, work: &'m Work) -> impl Iterator<Item = ObjectKey> + 'm {
        self.index.served(self.tables, cluster, work)
    }

    /// What this process has seen of a Gateway's work in a cluster that is not chosen.
    #[must_use]
    pub fn displacement(&self, name: &WorkName, cluster: &ClusterName) -> UnplacedSince {
        self.index.unplaced.get(&(name.clone(), cluster.clone()))
    }

    /// All works and what they are for, in no order.
    pub fn works(&self) -> impl Iterator<Item = (WorkName, ClusterName, &'m Work)> {
        self.tables.rows(&WORKS).map(|(key, work)| {
            let (name, cluster) = work_key(key);
            (name, cluster, work)
        })
    }

    /// The clusters that have works for Gateways or policies, in no order.
    pub fn carrying(&self) -> impl Iterator<Item = &'m ClusterName> {
        self.index.carried.keys()
    }

    /// The kinds that works of ours in `cluster` carry, those that are being deleted included.
    #[must_use]
    pub fn carried(&self, cluster: &ClusterName) -> BTreeSet<PolicyKind> {
        self.index.carried.get(cluster).map(|kinds| kinds.keys().cloned().collect()).unwrap_or_default()
    }

    /// How many bytes of works' texts are kept, those that no work has any more included.
    #[cfg(test)]
    pub(crate) fn work_text_bytes(&self) -> usize {
        self.index.text_bytes()
    }

    /// How many works there are, by what they are for and by the state they are in.
    #[must_use]
    pub fn work_counts(&self) -> BTreeMap<(&'static str, &'static str), usize> {
        self.index.counts.all()
    }
}
