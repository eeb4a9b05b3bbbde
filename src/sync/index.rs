//! What the sync derives from rows as they come and go.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::counts::Counts;
use super::displaced::Displaced;
use super::found::{FOLLOWED, VERSIONS, WORK_SCHEMA};
use super::interned::Interned;
use super::kinds::{
    CLASSES, CLUSTERS, CONFIG_MAPS, DECISIONS, GATEWAYS, NEEDED, PLACEMENTS, POLICIES, WORKS,
};
use super::params::Departed;
use super::recent::Recent;
use super::rows::kind::{KindState, Resolution};
use super::rows::policy::Policy;
use super::rows::work::{Answer, Work};
use super::rows::{Seen, Strings};
use super::{PLACEMENT_SETTLES, PolicyKind, View};
use crate::api::names::{ClusterName, ControllerName, GroupVersionResource, ObjectKey, Parent, WorkName};
use crate::api::params::Params;
use crate::hub::mirror::Cascade;
use crate::hub::{self, AnyRow, Changed, Line, Moment, Source, Tables};

/// The key of a work: its name, the same in every cluster, and the cluster.
pub type WorkKey = (WorkName, ClusterName);

/// The key of its row.
pub(super) fn row_key(key: &WorkKey) -> ObjectKey {
    ObjectKey { namespace: key.1.0.clone(), name: key.0.0.clone() }
}

/// The work that a row of this key is of.
pub(super) fn work_key(key: &ObjectKey) -> WorkKey {
    (WorkName(key.name.clone()), ClusterName(key.namespace.clone()))
}

/// What is known of the hub beside its rows.
#[derive(Clone, Debug)]
pub struct Index {
    pub(super) controller: ControllerName,
    /// Classes of ours that were deleted a moment ago.
    pub(super) departed: HashMap<ObjectKey, Departed>,
    /// The last valid parameters of each class of ours.
    pub(super) known_params: HashMap<ObjectKey, Arc<Params>>,
    /// The labels last seen of ManagedClusters that are gone, as long as a work of ours is there.
    pub(super) last_labels: HashMap<ClusterName, Strings>,
    /// When the number of clusters that a Placement selects, or a decision of it, last changed.
    pub(super) placement_changed: Recent<ObjectKey>,
    pub(super) works_of: HashMap<Arc<Parent>, BTreeSet<WorkKey>>,
    /// How many works of each kind a cluster has, those that are being deleted included.
    pub(super) carried: HashMap<ClusterName, HashMap<PolicyKind, usize>>,
    pub(super) displaced: Displaced,
    pub(super) counts: Counts,
    pub(super) strings: Interned<str>,
    pub(super) gateway_names: Interned<[Arc<str>]>,
    pub(super) answers: Interned<Answer>,
}

impl hub::Index for Index {
    const NEEDED: &'static [&'static Line] = &NEEDED;

    type View<'m> = View<'m>;

    fn new(controller: ControllerName) -> Self {
        Self {
            controller,
            departed: HashMap::new(),
            known_params: HashMap::new(),
            last_labels: HashMap::new(),
            placement_changed: Recent::within(PLACEMENT_SETTLES),
            works_of: HashMap::new(),
            carried: HashMap::new(),
            displaced: Displaced::default(),
            counts: Counts::default(),
            strings: Interned::default(),
            gateway_names: Interned::default(),
            answers: Interned::default(),
        }
    }

    fn view<'m>(&'m self, tables: &'m Tables, now: Moment) -> View<'m> {
        View::new(tables, self, now)
    }

    /// Works have to be able to say what they must.
    fn ready(&self, tables: &Tables) -> bool {
        tables.rows(&WORK_SCHEMA).any(|(_, schema)| schema.fault().is_none())
    }

    fn complete(
        &mut self,
        tables: &Tables,
        source: &Source,
        key: &mut ObjectKey,
        row: &mut AnyRow,
        now: Moment,
    ) {
        if source.is(&CLASSES) {
            self.returned(key);
        } else if source.is(&CLUSTERS) {
            self.last_labels.remove(&*key.name);
        } else if let Some(work) = row.get_mut::<Work>() {
            self.share(key, work);
        } else if let Some(policy) = row.get_mut::<Arc<Policy>>() {
            let table = tables.table::<Arc<Policy>>(source);
            let before = table.and_then(|table| table.get(key));
            let policy = Arc::make_mut(policy);
            policy.changed = match before {
                Some(before) if before.generation == policy.generation && before.uid == policy.uid => {
                    before.changed
                }
                // What the first listing brings may have changed at any time before.
                _ => Seen(tables.synced(source).map(|_| now)),
            };
            if let Some(before) = before {
                policy.replaces(before);
            }
        } else if let Some(state) = row.get_mut::<KindState>() {
            state.follows(tables.table(source).and_then(|table| table.get(key)));
        }
    }

    fn changed(&mut self, tables: &Tables, changed: &Changed, now: Moment) -> Vec<Cascade> {
        if let Some((key, before)) = changed.of(&CLASSES) {
            if tables.get(&CLASSES, key).is_none() {
                self.departed(key, before, now);
            }
            self.class_changed(tables, key, before);
        } else if changed.of(&CONFIG_MAPS).is_some() {
            self.remember_params(tables);
        } else if let Some((key, before)) = changed.of(&GATEWAYS) {
            if let Some(after) = tables.get(&GATEWAYS, key)
                && before.is_none_or(|before| before.placement() != after.placement())
            {
                self.displacements_asked(tables, key, now);
            }
        } else if let Some((key, before)) = changed.of(&CLUSTERS) {
            let name = ClusterName(key.name.clone());
            if tables.get(&CLUSTERS, key).is_none()
                && let Some(before) = before.filter(|_| self.carried.contains_key(&name))
            {
                self.last_labels.insert(name, before.labels.clone());
            }
        } else if let Some((key, _)) = changed.of(&PLACEMENTS) {
            self.placement_changed.note(key.clone(), now);
        } else if let Some((key, before)) = changed.of(&DECISIONS) {
            self.decides(tables, key, before, now);
        } else if let Some((key, before)) = changed.of(&WORKS) {
            self.work_changed(tables, &work_key(key), before, now);
        } else if let Changed::Object { source, key, .. } = changed
            && let Some(kind) = VERSIONS.resource_of(source)
            && let Some(state) = tables.table::<KindState>(source).and_then(|table| table.get(key))
            && state.resolution == Resolution::Gone
        {
            return vec![Cascade::Source(POLICIES.resource(kind.clone()))];
        }
        Vec::new()
    }

    fn forgot(&mut self, tables: &Tables, source: &Source) -> Vec<Cascade> {
        let Some(kind) = POLICIES.resource_of(source) else { return Vec::new() };
        // What was found out of versions that are listed still holds.
        let known = self.known_params.values();
        let known = known.chain(self.departed.values().filter_map(|departed| departed.params.as_ref()));
        let listed: BTreeSet<GroupVersionResource> = known
            .flat_map(|params| &params.policies_to_sync)
            .map(|policy| policy.gvr())
            .filter(|gvr| gvr.kind == *kind)
            .collect();
        let versions = VERSIONS.resource(kind.clone());
        let states = tables.table::<KindState>(&versions);
        let unlisted: Vec<ObjectKey> = states
            .into_iter()
            .flat_map(hub::Table::iter)
            .filter(|(_, state)| !listed.contains(&state.gvr))
            .map(|(key, _)| key.clone())
            .collect();
        let gone = unlisted.into_iter().map(|key| Cascade::Row(versions.clone(), key));
        gone.chain([Cascade::Source(FOLLOWED.resource(kind.clone()))]).collect()
    }
}

impl Index {
    #[cfg(test)]
    pub(super) fn text_bytes(&self) -> usize {
        self.strings.held() + self.gateway_names.held() + self.answers.held()
    }
}
