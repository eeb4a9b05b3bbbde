//! The tables of all kinds, and what each change of them does.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::interned::Interned;
use super::rows::Seen;
use super::rows::class::{Class, ConfigMap};
use super::rows::cluster::{Cluster, Decision, Placement};
use super::rows::gateway::Gateway;
use super::rows::grant::Grant;
use super::rows::kind::{PolicyKindInfo, Resolution};
use super::rows::policy::Policy;
use super::rows::schema::WorkSchema;
use super::rows::secret::Secret;
use super::rows::work::{Answer, Purpose, Work};
use super::{Change, Keys, Moment, PolicyKind, Row, Source, Table};
use crate::api::names::{ClusterName, ControllerName, GroupVersionResource, ObjectKey, Parent, WorkName};
use crate::api::params::Params;

/// What is known of a kind that parameters list.
#[derive(Clone, Debug)]
pub struct KindState {
    /// Whether it can be synced.
    pub resolution: Resolution,
    /// What it was when it last could.
    pub known: Option<PolicyKindInfo>,
}

/// The key of a work: its name, the same in every cluster, and the cluster.
pub type WorkKey = (WorkName, ClusterName);

/// Everything that is known of the hub.
#[derive(Clone, Debug)]
pub struct Tables {
    pub(super) controller: ControllerName,
    pub(super) classes: Table<ObjectKey, Class>,
    pub(super) config_maps: HashMap<ObjectKey, Table<ObjectKey, ConfigMap>>,
    /// The last valid parameters of each class of ours.
    pub(super) known_params: HashMap<ObjectKey, Arc<Params>>,
    pub(super) gateways: Table<ObjectKey, Gateway>,
    pub(super) clusters: Table<ObjectKey, Cluster>,
    pub(super) placements: Table<ObjectKey, Placement>,
    pub(super) decisions: Table<ObjectKey, Decision>,
    /// When a Placement or a decision of it last changed.
    pub(super) placement_changed: HashMap<ObjectKey, Moment>,
    pub(super) policies: HashMap<PolicyKind, Table<ObjectKey, Arc<Policy>>>,
    pub(super) kinds: HashMap<GroupVersionResource, KindState>,
    pub(super) secrets: Table<ObjectKey, Secret>,
    pub(super) grants: Table<ObjectKey, Grant>,
    /// Boxed, because a table has room for more rows than there are.
    pub(super) works: Table<WorkKey, Box<Work>>,
    pub(super) works_of: HashMap<Arc<Parent>, BTreeSet<WorkKey>>,
    /// How many works of each kind a cluster has, those that are being deleted included.
    pub(super) carried: HashMap<ClusterName, HashMap<PolicyKind, usize>>,
    pub(super) work_schema: Option<WorkSchema>,
    pub(super) failing: HashMap<Source, String>,
    strings: Interned<str>,
    gateway_names: Interned<[Arc<str>]>,
    answers: Interned<Answer>,
}

impl Tables {
    pub(super) fn new(controller: ControllerName) -> Self {
        Self {
            controller,
            classes: Table::default(),
            config_maps: HashMap::new(),
            known_params: HashMap::new(),
            gateways: Table::default(),
            clusters: Table::default(),
            placements: Table::default(),
            decisions: Table::default(),
            placement_changed: HashMap::new(),
            policies: HashMap::new(),
            kinds: HashMap::new(),
            secrets: Table::default(),
            grants: Table::default(),
            works: Table::default(),
            works_of: HashMap::new(),
            carried: HashMap::new(),
            work_schema: None,
            failing: HashMap::new(),
            strings: Interned::default(),
            gateway_names: Interned::default(),
            answers: Interned::default(),
        }
    }

    pub(super) fn change(&mut self, change: Change, now: Moment) -> Keys {
        match change {
            Change::Applied { source, key, version, row } => self.apply(source, key, version, row, now),
            Change::Deleted { source, key, version } => self.delete(&source, &key, version, now),
            Change::Resolved(gvr, resolution) => self.resolve(gvr, resolution),
            Change::WorkSchema(schema) => {
                let changed = self.work_schema.replace(schema) != Some(schema);
                if changed && self.ready() { self.everything() } else { Keys::new() }
            }
            Change::Failing(source, fault) => {
                let before = match fault.clone() {
                    Some(fault) => self.failing.insert(source.clone(), fault),
                    None => self.failing.remove(&source),
                };
                if before == fault {
                    Keys::new()
                } else {
                    self.failing_changed(&source, before.is_some() != fault.is_some())
                }
            }
        }
    }

    fn apply(&mut self, source: Source, key: ObjectKey, version: u64, row: Row, now: Moment) -> Keys {
        match (source, row) {
            (Source::Classes, Row::Class(row)) => {
                let before = self.classes.apply(key.clone(), row, version);
                self.class_changed(&key, before.as_ref())
            }
            (Source::ConfigMap(_), Row::ConfigMap(row)) => {
                let table = self.config_maps.entry(key.clone()).or_default();
                let before = table.apply(key.clone(), row, version);
                let changed = before.as_ref() != self.config_map(&key);
                if changed { self.params_changed() } else { Keys::new() }
            }
            (Source::Gateways, Row::Gateway(row)) => {
                let before = self.gateways.apply(key.clone(), *row, version);
                self.gateway_changed(&key, before.as_ref())
            }
            (Source::Clusters, Row::Cluster(row)) => {
                let before = self.clusters.apply(key.clone(), row, version);
                let changed = before.as_ref() != self.clusters.get(&key);
                if changed { self.cluster_changed() } else { Keys::new() }
            }
            (Source::Placements, Row::Placement(row)) => {
                let before = self.placements.apply(key.clone(), row, version);
                let changed = before.is_none_or(|before| before.version.0 != version);
                if changed { self.placement_changed(key, now) } else { Keys::new() }
            }
            (Source::Decisions, Row::Decision(row)) => {
                let placement = row.placement.clone();
                let before = self.decisions.apply(key.clone(), row, version);
                if before.as_ref().is_some_and(|before| before.version.0 == version) {
                    return Keys::new();
                }
                let mut keys = self.decision_changed(&key, placement.as_deref(), now);
                keys.extend(self.decision_changed(
                    &key,
                    before.and_then(|row| row.placement).as_deref(),
                    now,
                ));
                keys
            }
            (Source::Works, Row::Work(row)) => self.apply_work(&key, row, version),
            (Source::Policies(kind), Row::Policy(mut row)) => {
                let table = self.policies.entry(kind.clone()).or_default();
                row.changed = match table.get(&key) {
                    Some(before) if before.generation == row.generation && before.uid == row.uid => {
                        before.changed
                    }
                    // What the first listing brings may have changed at any time before.
                    _ => Seen(table.synced().map(|_| now)),
                };
                if let Some(before) = table.get(&key) {
                    row.replaces(before);
                }
                let before = table.apply(key.clone(), Arc::from(row), version);
                let changed = before.as_ref() != table.get(&key);
                if changed { self.policy_changed(kind, key) } else { Keys::new() }
            }
            (Source::Secrets, Row::Secret(row)) => {
                let before = self.secrets.apply(key.clone(), row, version);
                self.secret_changed(&key, before.as_ref())
            }
            (Source::Grants, Row::Grant(row)) => {
                let before = self.grants.apply(key.clone(), row, version);
                self.grant_changed(&key, before.as_ref())
            }
            // A row is pruned by its source, so the two always agree.
            _ => Keys::new(),
        }
    }

    pub(super) fn delete(&mut self, source: &Source, key: &ObjectKey, version: u64, now: Moment) -> Keys {
        match source {
            Source::Classes => {
                let before = self.classes.delete(key, version);
                self.class_changed(key, before.as_ref())
            }
            Source::ConfigMap(name) => {
                if let Some(table) = self.config_maps.get_mut(name) {
                    table.delete(key, version);
                }
                self.params_changed()
            }
            Source::Gateways => {
                let before = self.gateways.delete(key, version);
                self.gateway_changed(key, before.as_ref())
            }
            Source::Clusters => {
                self.clusters.delete(key, version);
                self.cluster_changed()
            }
            Source::Placements => {
                self.placements.delete(key, version);
                self.placement_changed(key.clone(), now)
            }
            Source::Decisions => {
                let before = self.decisions.delete(key, version);
                self.decision_changed(key, before.and_then(|row| row.placement).as_deref(), now)
            }
            Source::Works => {
                let key = self.work_key(key);
                self.works.bookmark(version);
                let before = self.works.delete(&key, version);
                self.grants_counted(&key.1, before.as_deref(), false);
                before.map(|row| self.work_gone(&key, &row)).unwrap_or_default()
            }
            Source::Policies(kind) => {
                if let Some(table) = self.policies.get_mut(kind) {
                    table.delete(key, version);
                }
                self.policy_changed(kind.clone(), key.clone())
            }
            Source::Secrets => {
                let before = self.secrets.delete(key, version);
                self.secret_changed(key, before.as_ref())
            }
            Source::Grants => {
                let before = self.grants.delete(key, version);
                self.grant_changed(key, before.as_ref())
            }
        }
    }

    fn apply_work(&mut self, key: &ObjectKey, mut row: Box<Work>, version: u64) -> Keys {
        let key = self.work_key(key);
        if let Purpose::Parent(parent) = &mut row.purpose
            && let Some((known, _)) = self.works_of.get_key_value(parent)
        {
            *parent = known.clone();
        }
        row.revision = row.revision.take().map(|revision| self.strings.intern(revision));
        row.gateways = self.gateway_names.intern(row.gateways.clone());
        row.answer = row.answer.take().map(|answer| self.answers.intern(answer));
        let after = (row.purpose.clone(), row.content, row.deleting, row.answer.clone(), row.uid.clone());
        let (displaced, applied_since, grants) = (row.displaced, row.applied_since, row.grants);
        let before = self.works.apply(key.clone(), row, version);
        self.grants_counted(&key.1, before.as_deref(), grants);
        let mut keys = Keys::new();
        if before.as_ref().is_none_or(|before| before.purpose != after.0) {
            if let Some(before) = &before {
                keys.extend(self.work_gone(&key, before));
            }
            keys.extend(self.work_appeared(&key, &after.0));
            keys.extend(self.after(&key));
        } else if let Some(before) = &before {
            let plan_changed = before.content != after.1
                || before.deleting != after.2
                || before.uid != after.4
                || before.displaced != displaced;
            let answer_changed = before.answer != after.3;
            keys.extend(self.work_changed(&key, &after.0, plan_changed, plan_changed || answer_changed));
            if plan_changed || before.applied_since != applied_since {
                keys.extend(self.after(&key));
            }
        }
        keys
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

    fn work_key(&mut self, key: &ObjectKey) -> WorkKey {
        let (name, cluster) = (key.name.clone(), key.namespace.clone());
        (WorkName(self.strings.intern(name)), ClusterName(self.strings.intern(cluster)))
    }

    fn resolve(&mut self, gvr: GroupVersionResource, resolution: Resolution) -> Keys {
        let state = self
            .kinds
            .entry(gvr.clone())
            .or_insert_with(|| KindState { resolution: Resolution::Unknown(String::new()), known: None });
        // That the server did not say for once changes nothing that it said before.
        let unsaid = matches!(resolution, Resolution::Unknown(_))
            && !matches!(state.resolution, Resolution::Unknown(_));
        if unsaid || state.resolution == resolution {
            return Keys::new();
        }
        match &resolution {
            Resolution::Resolved(info) => state.known = Some(info.clone()),
            Resolution::Gone => state.known = None,
            _ => {}
        }
        let gone = resolution == Resolution::Gone;
        state.resolution = resolution;
        let mut keys = self.kind_changed(&gvr.kind);
        if gone {
            self.policies.remove(&gvr.kind);
            keys.extend(self.kind_changed(&gvr.kind));
        }
        keys
    }

    pub(super) fn config_map(&self, key: &ObjectKey) -> Option<&ConfigMap> {
        self.config_maps.get(key)?.get(key)
    }
}
