//! The tables of all kinds, and what each change of them does.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::counts::Counts;
use super::displaced::Displaced;
use super::failing::Failing;
use super::interned::Interned;
use super::params::Departed;
use super::recent::Recent;
use super::rows::class::{Class, ConfigMap};
use super::rows::cluster::{Cluster, Decision, Placement};
use super::rows::gateway::Gateway;
use super::rows::grant::Grant;
use super::rows::kind::{PolicyKindInfo, Resolution};
use super::rows::policy::Policy;
use super::rows::schema::WorkSchema;
use super::rows::secret::Secret;
use super::rows::work::{Answer, Purpose, Work};
use super::rows::{Seen, Strings};
use super::{Change, Keys, Moment, PLACEMENT_SETTLES, PolicyKind, Row, Source, Table};
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
    /// Classes of ours that were deleted a moment ago.
    pub(super) departed: HashMap<ObjectKey, Departed>,
    /// The last valid parameters of each class of ours.
    pub(super) known_params: HashMap<ObjectKey, Arc<Params>>,
    pub(super) gateways: Table<ObjectKey, Gateway>,
    pub(super) clusters: Table<ObjectKey, Cluster>,
    /// The labels last seen of ManagedClusters that are gone, as long as a work of ours is there.
    pub(super) last_labels: HashMap<ClusterName, Strings>,
    pub(super) placements: Table<ObjectKey, Placement>,
    pub(super) decisions: Table<ObjectKey, Decision>,
    /// When the number of clusters that a Placement selects, or a decision of it, last changed.
    pub(super) placement_changed: Recent<ObjectKey>,
    pub(super) policies: HashMap<PolicyKind, Table<ObjectKey, Arc<Policy>>>,
    pub(super) kinds: HashMap<GroupVersionResource, KindState>,
    /// In which version the policies of a kind are read.
    pub(super) followed: HashMap<PolicyKind, GroupVersionResource>,
    pub(super) secrets: Table<ObjectKey, Secret>,
    pub(super) grants: Table<ObjectKey, Grant>,
    /// Boxed, because a table has room for more rows than there are.
    pub(super) works: Table<WorkKey, Box<Work>>,
    pub(super) works_of: HashMap<Arc<Parent>, BTreeSet<WorkKey>>,
    /// How many works of each kind a cluster has, those that are being deleted included.
    pub(super) carried: HashMap<ClusterName, HashMap<PolicyKind, usize>>,
    pub(super) displaced: Displaced,
    pub(super) counts: Counts,
    pub(super) work_schema: Option<WorkSchema>,
    pub(super) failing: HashMap<Source, Failing>,
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
            departed: HashMap::new(),
            known_params: HashMap::new(),
            gateways: Table::default(),
            clusters: Table::default(),
            last_labels: HashMap::new(),
            placements: Table::default(),
            decisions: Table::default(),
            placement_changed: Recent::within(PLACEMENT_SETTLES),
            policies: HashMap::new(),
            kinds: HashMap::new(),
            followed: HashMap::new(),
            secrets: Table::default(),
            grants: Table::default(),
            works: Table::default(),
            works_of: HashMap::new(),
            carried: HashMap::new(),
            displaced: Displaced::default(),
            counts: Counts::default(),
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
            Change::Followed(gvr) => {
                self.followed.insert(gvr.kind.clone(), gvr);
                Keys::new()
            }
            Change::WorkSchema(schema) => {
                let changed = self.work_schema.replace(schema) != Some(schema);
                if changed && self.ready() { self.everything() } else { Keys::new() }
            }
            Change::Failing(source, failure) => {
                let before = self.failing.remove(&source);
                let after = failure.map(|failure| Failing::of(failure, before.as_ref(), now));
                if let Some(after) = &after {
                    self.failing.insert(source.clone(), after.clone());
                }
                if before == after {
                    Keys::new()
                } else {
                    self.failing_changed(&source, before.is_some() != after.is_some())
                }
            }
        }
    }

    fn apply(&mut self, source: Source, key: ObjectKey, version: u64, row: Row, now: Moment) -> Keys {
        match (source, row) {
            (Source::Classes, Row::Class(row)) => {
                self.returned(&key);
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
                let placement = self.gateways.get(&key).and_then(Gateway::placement);
                if before.as_ref().is_none_or(|before| before.placement() != placement) {
                    self.displacements_asked(&key, now);
                }
                self.gateway_changed(&key, before.as_ref())
            }
            (Source::Clusters, Row::Cluster(row)) => {
                self.last_labels.remove(&*key.name);
                let before = self.clusters.apply(key.clone(), row, version);
                self.cluster_changed(&key, before.as_ref())
            }
            (Source::Placements, Row::Placement(row)) => {
                let before = self.placements.apply(key.clone(), row, version);
                // Whoever writes anything else of it delays nothing.
                let changed = before.as_ref() != self.placements.get(&key);
                if changed { self.placement_changed(key, now) } else { Keys::new() }
            }
            (Source::Decisions, Row::Decision(row)) => {
                let placement = row.placement.clone();
                let clusters = row.clusters.clone();
                let before = self.decisions.apply(key.clone(), row, version);
                if before.as_ref() == self.decisions.get(&key) {
                    return Keys::new();
                }
                self.decides(&key, before.as_ref(), placement.as_deref().map(|name| (name, &*clusters)), now);
                let mut keys = self.decision_changed(&key, placement.as_deref(), now);
                keys.extend(self.decision_changed(
                    &key,
                    before.and_then(|row| row.placement).as_deref(),
                    now,
                ));
                keys
            }
            (Source::Works, Row::Work(row)) => self.apply_work(&key, row, version, now),
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
                self.departed(key, before.as_ref(), now);
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
                let name = ClusterName(key.name.clone());
                let before = self.clusters.delete(key, version);
                if let Some(before) = before.as_ref().filter(|_| self.carried.contains_key(&name)) {
                    self.last_labels.insert(name, before.labels.clone());
                }
                self.cluster_changed(key, before.as_ref())
            }
            Source::Placements => {
                self.placements.delete(key, version);
                self.placement_changed(key.clone(), now)
            }
            Source::Decisions => {
                let before = self.decisions.delete(key, version);
                self.decides(key, before.as_ref(), None, now);
                self.decision_changed(key, before.and_then(|row| row.placement).as_deref(), now)
            }
            Source::Works => {
                let key = self.work_key(key);
                self.works.bookmark(version);
                let before = self.works.delete(&key, version);
                if let Some(before) = &before {
                    self.counts.take(before);
                }
                self.displaced.forget(&key);
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

    fn apply_work(&mut self, key: &ObjectKey, mut row: Box<Work>, version: u64, now: Moment) -> Keys {
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
        self.counts.add(&row);
        let before = self.works.apply(key.clone(), row, version);
        if let Some(before) = &before {
            self.counts.take(before);
        }
        self.grants_counted(&key.1, before.as_deref(), grants);
        if before.as_ref().is_some_and(|before| before.uid != after.4) {
            self.displaced.forget(&key);
        }
        let same = before.as_ref().filter(|before| before.uid == after.4);
        self.displacement_seen(&key, same.map(|before| before.displaced), now);
        let mut keys = Keys::new();
        if before.as_ref().is_none_or(|before| before.purpose != after.0) {
            if let Some(before) = &before {
                keys.extend(self.work_gone(&key, before));
            }
            keys.extend(self.work_appeared(&key, &after.0));
            keys.extend(self.after(&key, applied_since.is_some()));
        } else if let Some(before) = &before {
            let plan_changed = before.content != after.1
                || before.deleting != after.2
                || before.uid != after.4
                || before.displaced != displaced;
            let answer_changed = before.answer != after.3;
            keys.extend(self.work_changed(&key, &after.0, plan_changed, plan_changed || answer_changed));
            if plan_changed || before.applied_since != applied_since {
                let applied = applied_since.is_some() && before.applied_since != applied_since;
                keys.extend(self.after(&key, applied));
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

    #[cfg(test)]
    pub(super) fn text_bytes(&self) -> usize {
        self.strings.held() + self.gateway_names.held() + self.answers.held()
    }

    pub(super) fn config_map(&self, key: &ObjectKey) -> Option<&ConfigMap> {
        self.config_maps.get(key)?.get(key)
    }
}
