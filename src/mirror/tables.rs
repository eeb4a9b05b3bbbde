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
use super::rows::work::{Answer, Work};
use super::rows::{Seen, Strings};
use super::{Change, Changed, Moment, PLACEMENT_SETTLES, PolicyKind, Row, Source, Table};
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
    pub(super) strings: Interned<str>,
    pub(super) gateway_names: Interned<[Arc<str>]>,
    pub(super) answers: Interned<Answer>,
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

    pub(super) fn change(&mut self, change: Change, now: Moment) -> Vec<Changed> {
        match change {
            Change::Applied { source, key, version, row } => {
                self.apply(source, key, version, row, now).into_iter().collect()
            }
            Change::Deleted { source, key, version } => {
                self.delete(source, key, version, now).into_iter().collect()
            }
            Change::Resolved(gvr, resolution) => self.resolve(gvr, resolution),
            Change::Followed(gvr) => {
                self.followed.insert(gvr.kind.clone(), gvr);
                Vec::new()
            }
            Change::WorkSchema(schema) => {
                let changed = self.work_schema.replace(schema) != Some(schema);
                if changed && self.ready() { vec![Changed::Everything] } else { Vec::new() }
            }
            Change::Failing(source, failure) => {
                let before = self.failing.remove(&source);
                let after = failure.map(|failure| Failing::of(failure, before.as_ref(), now));
                if let Some(after) = &after {
                    self.failing.insert(source.clone(), after.clone());
                }
                if before == after {
                    return Vec::new();
                }
                vec![Changed::Failing { source, toggled: before.is_some() != after.is_some() }]
            }
        }
    }

    /// Puts a row in. `None` where nothing but the object's version has changed.
    fn apply(
        &mut self,
        source: Source,
        key: ObjectKey,
        version: u64,
        row: Row,
        now: Moment,
    ) -> Option<Changed> {
        let before = match (&source, row) {
            (Source::Classes, Row::Class(row)) => {
                self.returned(&key);
                let before = self.classes.apply(key.clone(), row, version);
                if before.as_ref() == self.classes.get(&key) {
                    return None;
                }
                self.class_changed(&key, before.as_ref());
                before.map(Row::Class)
            }
            (Source::ConfigMap(_), Row::ConfigMap(row)) => {
                let table = self.config_maps.entry(key.clone()).or_default();
                let before = table.apply(key.clone(), row, version);
                if before.as_ref() == self.config_map(&key) {
                    return None;
                }
                self.remember_params();
                before.map(Row::ConfigMap)
            }
            (Source::Gateways, Row::Gateway(row)) => {
                let before = self.gateways.apply(key.clone(), *row, version);
                let after = self.gateways.get(&key);
                if before.as_ref() == after {
                    return None;
                }
                let placement = after.and_then(Gateway::placement);
                if before.as_ref().is_none_or(|before| before.placement() != placement) {
                    self.displacements_asked(&key, now);
                }
                before.map(|before| Row::Gateway(Box::new(before)))
            }
            (Source::Clusters, Row::Cluster(row)) => {
                self.last_labels.remove(&*key.name);
                let before = self.clusters.apply(key.clone(), row, version);
                if before.as_ref() == self.clusters.get(&key) {
                    return None;
                }
                before.map(Row::Cluster)
            }
            (Source::Placements, Row::Placement(row)) => {
                let before = self.placements.apply(key.clone(), row, version);
                // Whoever writes anything else of it delays nothing.
                if before.as_ref() == self.placements.get(&key) {
                    return None;
                }
                self.placement_changed.note(key.clone(), now);
                before.map(Row::Placement)
            }
            (Source::Decisions, Row::Decision(row)) => {
                let (placement, clusters) = (row.placement.clone(), row.clusters.clone());
                let before = self.decisions.apply(key.clone(), row, version);
                if before.as_ref() == self.decisions.get(&key) {
                    return None;
                }
                self.decides(&key, before.as_ref(), placement.as_deref().map(|name| (name, &*clusters)), now);
                before.map(Row::Decision)
            }
            (Source::Works, Row::Work(row)) => self.apply_work(&key, row, version, now).map(Row::Work),
            (Source::Policies(kind), Row::Policy(mut row)) => {
                let table = self.policies.entry(kind.clone()).or_default();
                let policy = Arc::make_mut(&mut row);
                policy.changed = match table.get(&key) {
                    Some(before) if before.generation == policy.generation && before.uid == policy.uid => {
                        before.changed
                    }
                    // What the first listing brings may have changed at any time before.
                    _ => Seen(table.synced().map(|_| now)),
                };
                if let Some(before) = table.get(&key) {
                    policy.replaces(before);
                }
                let before = table.apply(key.clone(), row, version);
                if before.as_ref() == table.get(&key) {
                    return None;
                }
                before.map(Row::Policy)
            }
            (Source::Secrets, Row::Secret(row)) => {
                let before = self.secrets.apply(key.clone(), row, version);
                if before.as_ref() == self.secrets.get(&key) {
                    return None;
                }
                before.map(Row::Secret)
            }
            (Source::Grants, Row::Grant(row)) => {
                let before = self.grants.apply(key.clone(), row, version);
                if before.as_ref() == self.grants.get(&key) {
                    return None;
                }
                before.map(Row::Grant)
            }
            // A row is pruned by its source, so the two always agree.
            _ => return None,
        };
        Some(Changed::Object { source, key, before })
    }

    /// Takes a row out. `None` where it is of a work that was not there.
    pub(super) fn delete(
        &mut self,
        source: Source,
        key: ObjectKey,
        version: u64,
        now: Moment,
    ) -> Option<Changed> {
        let before = match &source {
            Source::Classes => {
                let before = self.classes.delete(&key, version);
                self.departed(&key, before.as_ref(), now);
                self.class_changed(&key, before.as_ref());
                before.map(Row::Class)
            }
            Source::ConfigMap(name) => {
                let before = self.config_maps.get_mut(name).and_then(|table| table.delete(&key, version));
                self.remember_params();
                before.map(Row::ConfigMap)
            }
            Source::Gateways => {
                self.gateways.delete(&key, version).map(|before| Row::Gateway(Box::new(before)))
            }
            Source::Clusters => {
                let name = ClusterName(key.name.clone());
                let before = self.clusters.delete(&key, version);
                if let Some(before) = before.as_ref().filter(|_| self.carried.contains_key(&name)) {
                    self.last_labels.insert(name, before.labels.clone());
                }
                before.map(Row::Cluster)
            }
            Source::Placements => {
                self.placement_changed.note(key.clone(), now);
                self.placements.delete(&key, version).map(Row::Placement)
            }
            Source::Decisions => {
                let before = self.decisions.delete(&key, version);
                self.decides(&key, before.as_ref(), None, now);
                before.map(Row::Decision)
            }
            Source::Works => Some(Row::Work(self.delete_work(&key, version)?)),
            Source::Policies(kind) => {
                let table = self.policies.get_mut(kind);
                table.and_then(|table| table.delete(&key, version)).map(Row::Policy)
            }
            Source::Secrets => self.secrets.delete(&key, version).map(Row::Secret),
            Source::Grants => self.grants.delete(&key, version).map(Row::Grant),
        };
        Some(Changed::Object { source, key, before })
    }

    fn resolve(&mut self, gvr: GroupVersionResource, resolution: Resolution) -> Vec<Changed> {
        let state = self
            .kinds
            .entry(gvr.clone())
            .or_insert_with(|| KindState { resolution: Resolution::Unknown(String::new()), known: None });
        // That the server did not say for once changes nothing that it said before.
        let unsaid = matches!(resolution, Resolution::Unknown(_))
            && !matches!(state.resolution, Resolution::Unknown(_));
        if unsaid || state.resolution == resolution {
            return Vec::new();
        }
        match &resolution {
            Resolution::Resolved(info) => state.known = Some(info.clone()),
            Resolution::Gone => state.known = None,
            _ => {}
        }
        let gone = resolution == Resolution::Gone;
        state.resolution = resolution;
        if gone { self.take_policies(&gvr.kind) } else { vec![Changed::Kind(gvr.kind)] }
    }

    /// Takes all policies of a kind out.
    pub(super) fn take_policies(&mut self, kind: &PolicyKind) -> Vec<Changed> {
        let gone = self.policies.remove(kind).unwrap_or_default().into_rows();
        let gone = gone.map(|(key, row)| {
            let (source, before) = (Source::Policies(kind.clone()), Some(Row::Policy(row)));
            Changed::Object { source, key, before }
        });
        std::iter::once(Changed::Kind(kind.clone())).chain(gone).collect()
    }

    #[cfg(test)]
    pub(super) fn text_bytes(&self) -> usize {
        self.strings.held() + self.gateway_names.held() + self.answers.held()
    }

    pub(super) fn config_map(&self, key: &ObjectKey) -> Option<&ConfigMap> {
        self.config_maps.get(key)?.get(key)
    }
}
