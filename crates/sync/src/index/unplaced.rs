//! Records for each work of a Gateway since when its cluster is not selected by the Placement or by the Gateway's own
//! selector. Changes of works, Gateways, decisions and cluster labels update the records.

use std::collections::{BTreeSet, HashSet};

use super::Index;
use crate::key::WorkKey;
use crate::kinds::{DECISIONS, GATEWAYS};
use crate::rows::cluster::Decision;
use crate::rows::gateway::Gateway;
use crate::rows::work::Work;
use policy_sync_api::annotations::SELECTOR_ANNOTATIONS;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, ObjectKey, Origin};
use policy_sync_api::selector::ClusterSelector;
use policy_sync_mirror::{Index as _, Tables};

impl Index {
    /// Updates the record of the work `key` after the work was created or changed. `before` is the time in its
    /// annotation before the change; `None` if the work did not exist or belonged to another Gateway.
    pub(super) fn work_mark_changed(
        &mut self,
        tables: &Tables,
        key: &WorkKey,
        work: &Work,
        before: Option<Option<Moment>>,
        now: Moment,
    ) {
        let Some(gateway) = work.purpose.gateway() else {
            return self.unplaced.forget(key);
        };
        let moment = work.unplaced;
        // If this time has not changed, the record stays the same. Reports of the agent, for example, do not change it.
        if before == Some(moment) {
            return;
        }
        let selector = tables.get(&GATEWAYS, gateway).and_then(selector);
        let selected = placement_selects(tables, gateway, &key.1)
            && self.selects(tables, selector.as_ref(), gateway, &key.1);
        let known = self.unplaced.get(key).decided(selected, now);
        // A new work without the annotation does not count as a work whose annotation was removed.
        let written = before.is_some() || moment.is_some();
        self.unplaced.set(key, if written { known.written(moment, now) } else { known });
    }

    /// Updates the records after the decision `key` was created, changed or deleted at `now`. `before` is its old row.
    pub(super) fn decision_changed(
        &mut self,
        tables: &Tables,
        key: &ObjectKey,
        before: Option<&Decision>,
        now: Moment,
    ) {
        let [before, after] = [before, tables.get(&DECISIONS, key)]
            .map(|row| row.and_then(|row| Some((row.placement.as_deref()?, &*row.clusters))));
        let (was_of, is_of) = (before.map(|(name, _)| name), after.map(|(name, _)| name));
        let names = |found: Option<(&'_ str, &[ClusterName])>, of: &str| -> Vec<ClusterName> {
            found.filter(|(name, _)| *name == of).map(|(_, clusters)| clusters.to_vec()).unwrap_or_default()
        };
        let placements: BTreeSet<&str> = was_of.into_iter().chain(is_of).collect();
        for name in placements {
            let placement = ObjectKey::new(&key.namespace, name);
            self.decided_clusters_changed(tables, &placement, &names(before, name), &names(after, name), now);
            self.placement_changed.note(placement, now);
        }
    }

    /// Updates the records after the clusters in a decision for the Placement `placement` changed.
    fn decided_clusters_changed(
        &mut self,
        tables: &Tables,
        placement: &ObjectKey,
        before: &[ClusterName],
        after: &[ClusterName],
        now: Moment,
    ) {
        let (before, after): (HashSet<_>, HashSet<_>) = (before.iter().collect(), after.iter().collect());
        let changed: HashSet<ClusterName> =
            before.symmetric_difference(&after).map(|name| (*name).clone()).collect();
        if changed.is_empty() {
            return;
        }
        let selected = selected(tables, placement);
        let is_changed = |cluster: &ClusterName| changed.contains(cluster);
        let uses_placement = |(key, row): &(&ObjectKey, &Gateway)| {
            key.namespace == placement.namespace && row.placement() == Some(&*placement.name)
        };
        for (gateway, _) in tables.rows(&GATEWAYS).filter(uses_placement) {
            self.update_unplaced(tables, gateway, &selected, is_changed, now);
        }
    }

    pub(super) fn cluster_labels_changed(&mut self, tables: &Tables, cluster: &ClusterName, now: Moment) {
        let has_selector =
            |row: &Gateway| SELECTOR_ANNOTATIONS.iter().any(|key| row.annotations.contains_key(*key));
        let selecting = tables.rows(&GATEWAYS).filter(|(_, row)| has_selector(row)).map(|(key, _)| key);
        for gateway in selecting {
            if self.work_of(tables, &Origin::Gateway(gateway.clone()), cluster).is_some() {
                let selected = placement_selects(tables, gateway, cluster).then(|| cluster.clone());
                self.update_unplaced(
                    tables,
                    gateway,
                    &selected.into_iter().collect(),
                    |changed| changed == cluster,
                    now,
                );
            }
        }
    }

    /// Updates the records after the Gateway `gateway` was created, or changed its Placement or its cluster selector.
    pub(super) fn gateway_selection_changed(&mut self, tables: &Tables, gateway: &ObjectKey, now: Moment) {
        let placement = placement_of(tables, gateway);
        let selected = placement.map(|placement| selected(tables, &placement)).unwrap_or_default();
        self.update_unplaced(tables, gateway, &selected, |_| true, now);
    }

    fn update_unplaced(
        &mut self,
        tables: &Tables,
        gateway: &ObjectKey,
        selected: &HashSet<ClusterName>,
        changed: impl Fn(&ClusterName) -> bool,
        now: Moment,
    ) {
        let Some(works) = self.works_of.get(&Origin::Gateway(gateway.clone())) else { return };
        let works: Vec<WorkKey> = works.iter().filter(|(_, cluster)| changed(cluster)).cloned().collect();
        let selector = tables.get(&GATEWAYS, gateway).and_then(selector);
        for key in works {
            let is_selected =
                selected.contains(&key.1) && self.selects(tables, selector.as_ref(), gateway, &key.1);
            let known = self.unplaced.get(&key);
            self.unplaced.set(&key, known.decided(is_selected, now));
        }
    }

    /// Whether the `selector` of the Gateway `gateway` selects `cluster`. Without a valid selector, every cluster is
    /// selected.
    fn selects(
        &self,
        tables: &Tables,
        selector: Option<&ClusterSelector>,
        gateway: &ObjectKey,
        cluster: &ClusterName,
    ) -> bool {
        let (view, origin) = (self.view(tables, Moment::default()), Origin::Gateway(gateway.clone()));
        selector.is_none_or(|selector| view.selects(selector, &origin, cluster))
    }
}

fn selector(gateway: &Gateway) -> Option<ClusterSelector> {
    ClusterSelector::read(&gateway.annotations).ok()?
}

fn placement_of(tables: &Tables, gateway: &ObjectKey) -> Option<ObjectKey> {
    let name = tables.get(&GATEWAYS, gateway)?.placement()?;
    Some(ObjectKey { namespace: gateway.namespace.clone(), name: name.into() })
}

/// The clusters that the decisions for `placement` name.
fn selected(tables: &Tables, placement: &ObjectKey) -> HashSet<ClusterName> {
    decisions_of(tables, placement).flat_map(|decision| &decision.clusters).cloned().collect()
}

pub(crate) fn decisions_of<'t>(
    tables: &'t Tables,
    placement: &ObjectKey,
) -> impl Iterator<Item = &'t Decision> + use<'t> {
    let (namespace, name) = (placement.namespace.clone(), placement.name.clone());
    let is_of = move |(key, decision): &(&ObjectKey, &Decision)| {
        key.namespace == namespace && decision.placement.as_deref() == Some(&*name)
    };
    tables.rows(&DECISIONS).filter(is_of).map(|(_, decision)| decision)
}

/// Whether a decision for the Gateway's Placement names `cluster`.
fn placement_selects(tables: &Tables, gateway: &ObjectKey, cluster: &ClusterName) -> bool {
    placement_of(tables, gateway).is_some_and(|placement| {
        decisions_of(tables, &placement).any(|decision| decision.clusters.contains(cluster))
    })
}
