//! Updates the index after each change of a row.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Index;
use crate::found::{VERSIONS, WATCHED_VERSIONS, WORK_SCHEMA};
use crate::key::work_key;
use crate::kinds::{
    self, CLASSES, CLUSTERS, CONFIG_MAPS, DECISIONS, GATEWAYS, NEEDED, PLACEMENTS, WORKS, objects,
};
use crate::rows::kind::{KindState, Resolution};
use crate::rows::policy::Policy;
use crate::rows::work::Work;
use crate::{PolicyKind, View};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, ControllerName, GroupVersionResource, ObjectKey, Origin};
use policy_sync_api::params::Role;
use policy_sync_api::shrink;
use policy_sync_mirror::Cascade;
use policy_sync_mirror::{AnyRow, KindDeclaration, MirrorChange, Source, Tables};

impl policy_sync_mirror::Index for Index {
    const REQUIRED_KINDS: &'static [&'static KindDeclaration] = &NEEDED;

    type View<'m> = View<'m>;

    fn new(controller: ControllerName) -> Self {
        Self::empty(controller)
    }

    fn view<'m>(&'m self, tables: &'m Tables, now: Moment) -> View<'m> {
        View::new(tables, self, now)
    }

    /// Plans require some features of the ManifestWork schema. `WorkSchema::fault` checks these features.
    fn ready(&self, tables: &Tables) -> bool {
        tables.rows(&WORK_SCHEMA).any(|(_, schema)| schema.fault().is_none())
    }

    fn complete(&mut self, tables: &Tables, source: &Source, key: &mut ObjectKey, row: &mut AnyRow) {
        if source.is(&CLASSES) {
            self.class_recreated(key);
        } else if source.is(&CLUSTERS) {
            self.last_labels.remove(&*key.name);
        } else if let Some(work) = row.get_mut::<Work>() {
            self.share(key, work);
        } else if let Some(policy) = row.get_mut::<Arc<Policy>>() {
            if let Some(before) = tables.row::<Arc<Policy>>(source, key) {
                Arc::make_mut(policy).take_caches(before);
            }
        } else if let Some(state) = row.get_mut::<KindState>() {
            state.carry_over(tables.row(source, key));
        }
    }

    fn changed(&mut self, tables: &Tables, changed: &MirrorChange, now: Moment) -> Vec<Cascade> {
        if let Some((key, before)) = changed.object_of(&CLASSES) {
            if tables.get(&CLASSES, key).is_none() {
                self.class_deleted(key, before, now);
            }
            self.class_changed(tables, key, before);
        } else if changed.object_of(&CONFIG_MAPS).is_some() {
            self.remember_params(tables);
        } else if let Some((key, before)) = changed.object_of(&GATEWAYS) {
            if let Some(after) = tables.get(&GATEWAYS, key)
                && before.is_none_or(|before| before.selection_inputs() != after.selection_inputs())
            {
                self.gateway_selection_changed(tables, key, now);
            }
        } else if let Some((key, before)) = changed.object_of(&CLUSTERS) {
            let name = ClusterName(key.name.clone());
            let after = tables.get(&CLUSTERS, key);
            if after.is_none()
                && let Some(before) = before.filter(|_| self.kinds_in_works.contains_key(&name))
            {
                self.last_labels.insert(name.clone(), before.labels.clone());
            }
            if before.map(|row| &row.labels) != after.map(|row| &row.labels) {
                self.cluster_labels_changed(tables, &name, now);
            }
        } else if let Some((key, _)) = changed.object_of(&PLACEMENTS) {
            self.placement_changed.note(key.clone(), now);
        } else if let Some((key, before)) = changed.object_of(&DECISIONS) {
            self.decision_changed(tables, key, before, now);
        } else if let Some((key, before)) = changed.object_of(&WORKS) {
            self.work_changed(tables, &work_key(key), before, now);
        } else if let MirrorChange::Object { source, key, before } = changed
            && let Some((_, kind)) = kinds::role_of(source)
        {
            let before = before.as_ref().and_then(AnyRow::get::<Arc<Policy>>);
            self.policy_changed(tables, source, kind, key, before.map(|before| &**before), now);
        } else if let MirrorChange::Object { source, key, .. } = changed
            && let Some(kind) = VERSIONS.resource_of(source)
            && let Some(state) = tables.row::<KindState>(source, key)
            && state.resolution == Resolution::Gone
        {
            return Role::ALL.into_iter().map(|role| Cascade::RemoveSource(objects(role, kind))).collect();
        }
        Vec::new()
    }

    fn source_removed(&mut self, tables: &Tables, source: &Source) -> Vec<Cascade> {
        let Some((_, kind)) = kinds::role_of(source) else { return Vec::new() };
        self.policies_changed.retain(|origin, _| origin.kind() != kind);
        // The results of discovery remain valid for versions that are still listed.
        let known = self.known_params.values();
        let known = known.chain(self.deleted_classes.values().filter_map(|deleted| deleted.params.as_ref()));
        let listed: BTreeSet<GroupVersionResource> = known
            .flat_map(|params| params.all_listed().map(|(_, gvr)| gvr))
            .filter(|gvr| gvr.kind == *kind)
            .collect();
        let versions = VERSIONS.resource(kind.clone());
        let states = tables.table::<KindState>(&versions);
        let unlisted: Vec<ObjectKey> = states
            .into_iter()
            .flat_map(policy_sync_mirror::Table::iter)
            .filter(|(_, state)| !listed.contains(&state.gvr))
            .map(|(key, _)| key.clone())
            .collect();
        let gone = unlisted.into_iter().map(|key| Cascade::RemoveRow(versions.clone(), key));
        gone.chain([Cascade::RemoveSource(WATCHED_VERSIONS.resource(kind.clone()))]).collect()
    }
}

impl Index {
    /// Records when the current generation of a policy was first seen. The policy `object` of `source` was created,
    /// changed or deleted at `now`; `before` is its old row.
    fn policy_changed(
        &mut self,
        tables: &Tables,
        source: &Source,
        kind: &PolicyKind,
        object: &ObjectKey,
        before: Option<&Policy>,
        now: Moment,
    ) {
        let origin = Origin::new(kind.clone(), object.clone());
        let after = tables.row::<Arc<Policy>>(source, object);
        if kinds::role_of(source).is_some_and(|(role, _)| role == Role::Policy) {
            self.same_target.changed(kind, object, before, after.map(|policy| &**policy));
        }
        let Some(after) = after else {
            self.policies_changed.remove(&origin);
            return shrink::shrink_if_sparse(&mut self.policies_changed);
        };
        // Objects in the first list may have changed at any time before the list.
        let is_known = tables.synced(source).is_some();
        let is_same = |before: &Policy| match kinds::role_of(source) {
            Some((Role::Resource, _)) => before.has_same_content(after),
            _ => before.is_generation_of(after),
        };
        if is_known && !before.is_some_and(is_same) {
            self.policies_changed.insert(origin, now);
        }
    }
}

#[cfg(test)]
mod tests;
