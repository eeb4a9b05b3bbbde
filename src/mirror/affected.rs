//! Which plans a change of a table may change.
//!
//! Nothing is planned before the fixed kinds have been listed once; then everything is, so until then a change
//! affects nothing. After that the answer errs on the side of too many keys: planning one for nothing costs
//! microseconds and no request.

mod clusters;

use std::sync::Arc;

use super::rows::class::Class;
use super::rows::gateway::Gateway;
use super::rows::grant::Grant;
use super::rows::secret::Secret;
use super::rows::work::{Purpose, Work};
use super::tables::{Tables, WorkKey};
use super::{Key, Keys, Moment, PolicyKind, Source};
use crate::api::names::{ClusterName, ObjectKey, Parent, WorkName};
use crate::shrink::give_back;

impl Tables {
    /// Every key there is.
    pub(super) fn everything(&self) -> Keys {
        let mut keys = self.of_classes();
        keys.extend(self.carried.keys().map(|cluster| Key::Access(cluster.clone())));
        // An access work may outlive the works that it was for.
        let access = self.works.iter().filter(|(_, work)| matches!(work.purpose, Purpose::Access(_)));
        keys.extend(access.map(|((_, cluster), _)| Key::Access(cluster.clone())));
        keys
    }

    fn when_ready(&self, keys: impl FnOnce() -> Keys) -> Keys {
        if self.ready() { keys() } else { Keys::new() }
    }

    pub(super) fn first_synced(&self, source: &Source) -> Keys {
        self.when_ready(|| match source {
            Source::Policies(kind) => self.of_kind(kind),
            Source::ConfigMap(_) => self.of_classes(),
            Source::Secrets | Source::Grants => self.naming(|_, _| true),
            _ => Keys::new(),
        })
    }

    /// What keeps `source` from being listed changed, and where it `toggled` whether anything does: a Gateway waits for
    /// policies that are about to be listed, and tells why it does not know of Secrets; a class, of its parameters.
    pub(super) fn failing_changed(&self, source: &Source, toggled: bool) -> Keys {
        self.when_ready(|| match source {
            Source::Policies(_) if toggled && self.synced(source).is_none() => self.waiting(),
            Source::ConfigMap(_) if self.synced(source).is_none() => self.of_classes(),
            Source::Secrets | Source::Grants if self.synced(source).is_none() => self.naming(|_, _| true),
            _ => Keys::new(),
        })
    }

    /// The Gateways that may wait for what happened, and say so.
    fn waiting(&self) -> Keys {
        self.gateways.iter().flat_map(|(key, _)| both(&Parent::gateway(key.clone()))).collect()
    }

    /// A class came, went or changed; `before` is what it was.
    pub(super) fn class_changed(&mut self, key: &ObjectKey, before: Option<&Class>) -> Keys {
        let after = self.classes.get(key);
        if before == after {
            return Keys::new();
        }
        let planned = |class: &Class| (class.controller_name.clone(), class.parameters_ref.clone());
        // The status is ours: a change of it alone is none of the parameters.
        if before.map(planned) == after.map(planned) && before.map(|c| &c.uid) == after.map(|c| &c.uid) {
            return self.when_ready(|| Keys::from([Key::Class(key.clone())]));
        }
        self.remember_params();
        self.when_ready(|| self.of_classes())
    }

    /// The parameters in a ConfigMap came, went or changed.
    pub(super) fn params_changed(&mut self) -> Keys {
        self.remember_params();
        self.when_ready(|| self.of_classes())
    }

    /// Classes can bear on each other (a version listed twice, a downstream class that is ours), so a change of one
    /// is a change of all. Classes change rarely.
    fn of_classes(&self) -> Keys {
        let mut keys = Keys::from([Key::Watches]);
        keys.extend(self.classes.iter().map(|(key, _)| Key::Class(key.clone())));
        keys.extend(self.gateways.iter().flat_map(|(key, _)| both(&Parent::gateway(key.clone()))));
        keys.extend(self.policies.keys().flat_map(|kind| self.policies_of(kind)));
        keys.extend(self.works_of.keys().flat_map(|parent| both(parent)));
        keys
    }

    /// A Gateway came, went or changed; `before` is what it was.
    pub(super) fn gateway_changed(&self, key: &ObjectKey, before: Option<&Gateway>) -> Keys {
        let after = self.gateways.get(key);
        if before == after {
            return Keys::new();
        }
        self.when_ready(|| match (before, after) {
            // What is ours to write decides nothing else.
            (Some(before), Some(after)) if before.is_as(after) => {
                Keys::from([Key::Fold(Parent::gateway(key.clone()))])
            }
            _ => {
                let mut keys = self.of_namespace(&key.namespace);
                // One that is gone is in no table, and what was told of it is to be forgotten.
                keys.extend(both(&Parent::gateway(key.clone())));
                keys
            }
        })
    }

    pub(super) fn placement_changed(&mut self, key: ObjectKey, now: Moment) -> Keys {
        let namespace = key.namespace.clone();
        self.placement_changed.note(key, now);
        self.when_ready(|| self.of_namespace(&namespace))
    }

    pub(super) fn decision_changed(&mut self, key: &ObjectKey, placement: Option<&str>, now: Moment) -> Keys {
        match placement {
            Some(placement) => self.placement_changed(ObjectKey::new(&key.namespace, placement), now),
            None => Keys::new(),
        }
    }

    /// Policies reach only Gateways of their own namespace, so what happens in one stays there.
    fn of_namespace(&self, namespace: &Arc<str>) -> Keys {
        let here = |key: &ObjectKey| key.namespace == *namespace;
        let mut keys = Keys::new();
        let gateways = self.gateways.iter().filter(|(key, _)| here(key));
        keys.extend(gateways.flat_map(|(key, _)| both(&Parent::gateway(key.clone()))));
        keys.extend(self.policies_in(namespace).flat_map(|policy| both(&policy)));
        let parents = self.works_of.keys().filter(|parent| here(&parent.object));
        keys.extend(parents.flat_map(|parent| both(parent)));
        keys
    }

    /// The policies of a namespace.
    fn policies_in(&self, namespace: &Arc<str>) -> impl Iterator<Item = Parent> {
        self.policies.iter().flat_map(move |(kind, table)| {
            let here = table.iter().filter(move |(key, _)| key.namespace == *namespace);
            here.map(|(key, _)| Parent { kind: kind.clone(), object: key.clone() })
        })
    }

    pub(super) fn policy_changed(&self, kind: PolicyKind, object: ObjectKey) -> Keys {
        self.when_ready(|| {
            let here = self.gateways.iter().filter(|(gateway, _)| gateway.namespace == object.namespace);
            let mut keys: Keys =
                here.map(|(gateway, _)| Key::Fold(Parent::gateway(gateway.clone()))).collect();
            keys.extend(both(&Parent { kind, object }));
            // A kind that is listed no more is watched until its last annotation is gone.
            keys.insert(Key::Watches);
            keys
        })
    }

    pub(super) fn kind_changed(&self, kind: &PolicyKind) -> Keys {
        self.when_ready(|| {
            let mut keys = self.of_kind(kind);
            keys.insert(Key::Watches);
            keys.extend(self.classes.iter().map(|(key, _)| Key::Class(key.clone())));
            keys
        })
    }

    fn of_kind(&self, kind: &PolicyKind) -> Keys {
        let mut keys: Keys = self.policies_of(kind).into_iter().collect();
        keys.extend(
            self.works_of.keys().filter(|parent| parent.kind == *kind).flat_map(|parent| both(parent)),
        );
        keys.extend(self.waiting());
        keys
    }

    fn policies_of(&self, kind: &PolicyKind) -> Vec<Key> {
        let policies = self.policies.get(kind).into_iter().flat_map(super::Table::iter);
        policies.flat_map(|(key, _)| both(&Parent { kind: kind.clone(), object: key.clone() })).collect()
    }

    /// A Secret came, went or changed; `before` is what it was.
    pub(super) fn secret_changed(&self, key: &ObjectKey, before: Option<&Secret>) -> Keys {
        let changed = before != self.secrets.get(key);
        self.when_listed(&Source::Secrets, changed, |_, secret| secret == key)
    }

    /// A ReferenceGrant came, went or changed; `before` is what it was.
    pub(super) fn grant_changed(&self, key: &ObjectKey, before: Option<&Grant>) -> Keys {
        let changed = before != self.grants.get(key);
        self.when_listed(&Source::Grants, changed, |gateway, secret| {
            secret.namespace == key.namespace && secret.namespace != gateway.namespace
        })
    }

    /// Until the first listing is whole nothing is planned from it, and then everything is.
    fn when_listed(
        &self,
        source: &Source,
        changed: bool,
        affects: impl Fn(&ObjectKey, &ObjectKey) -> bool,
    ) -> Keys {
        if changed && self.synced(source).is_some() {
            self.when_ready(|| self.naming(affects))
        } else {
            Keys::new()
        }
    }

    /// The Gateways with a listener that names a Secret that fits, both as `fits` is told.
    fn naming(&self, fits: impl Fn(&ObjectKey, &ObjectKey) -> bool) -> Keys {
        let names = |key: &ObjectKey, row: &Gateway| row.secrets.iter().any(|secret| fits(key, secret));
        let gateways = self.gateways.iter().filter(|(key, row)| names(key, row));
        gateways.flat_map(|(key, _)| both(&Parent::gateway(key.clone()))).collect()
    }

    /// Counts a work of `cluster` that was `before` among those that carry ReferenceGrants, where it is one now.
    pub(super) fn grants_counted(&mut self, cluster: &ClusterName, before: Option<&Work>, now: bool) {
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

    /// A work came that was not there, or that was for something else.
    pub(super) fn work_appeared(&mut self, key: &WorkKey, purpose: &Purpose) -> Keys {
        if let Purpose::Parent(parent) = purpose {
            self.works_of.entry(parent.clone()).or_default().insert(key.clone());
            self.carries(&key.1, &parent.kind, true);
        }
        self.work_changed(key, purpose, true, true)
    }

    /// A work went, or is for something else now.
    pub(super) fn work_gone(&mut self, key: &WorkKey, work: &Work) -> Keys {
        if let Purpose::Parent(parent) = &work.purpose {
            if let Some(works) = self.works_of.get_mut(parent) {
                works.remove(key);
                if works.is_empty() {
                    self.works_of.remove(parent);
                    give_back(&mut self.works_of);
                }
            }
            self.carries(&key.1, &parent.kind, false);
        }
        let mut keys = self.work_changed(key, &work.purpose, true, true);
        keys.extend(self.behind(key, work));
        keys
    }

    /// What comes, or goes, after the work `key`: the Gateways of a policy that are not in its cluster yet, and the
    /// policies of a Gateway that leaves one. Policies answer by the hundreds, so a Gateway that waits for them looks at
    /// them with its fold, but for the last: `applied` says that the work has just become so, and where it seems that
    /// no other is waited for, the Gateway's own works are planned at once.
    pub(super) fn after(&self, key: &WorkKey, applied: bool) -> Keys {
        let Some(work) = self.works.get(key) else { return Keys::new() };
        let Purpose::Parent(parent) = &work.purpose else { return Keys::new() };
        if parent.is_gateway() {
            return if work.deleting.is_some() { self.behind(key, work) } else { Keys::new() };
        }
        let is_there =
            |gateway: &Parent| self.work_of(gateway, &key.1).is_some_and(|work| work.deleting.is_none());
        let gateways = self.served(&key.1, work).map(Parent::gateway).filter(|gateway| !is_there(gateway));
        self.when_ready(|| {
            let mut keys = Keys::new();
            for gateway in gateways {
                if applied && self.all_applied(&gateway.object, &key.1) {
                    keys.insert(Key::Works(gateway.clone()));
                }
                keys.insert(Key::Fold(gateway));
            }
            keys
        })
    }

    /// Whether each work in `cluster` that is for a policy of the Gateway `gateway`, by its own word, is applied.
    fn all_applied(&self, gateway: &ObjectKey, cluster: &ClusterName) -> bool {
        let is_pending = |parent: &Arc<Parent>| {
            !parent.is_gateway()
                && parent.object.namespace == gateway.namespace
                && self
                    .work_of(parent, cluster)
                    .is_some_and(|work| work.applied_since.is_none() && work.gateways.contains(&gateway.name))
        };
        !self.works_of.keys().any(is_pending)
    }

    /// The policies that may go once the Gateway's work `key` goes. One that is not in that cluster has no work that
    /// would tell when it goes: what it says of the cluster changes now.
    fn behind(&self, (_, cluster): &WorkKey, work: &Work) -> Keys {
        let Purpose::Parent(parent) = &work.purpose else { return Keys::new() };
        if !parent.is_gateway() {
            return Keys::new();
        }
        let namespace = &parent.object.namespace;
        self.when_ready(|| {
            let is_there = |other: &&Arc<Parent>| !other.is_gateway() && other.object.namespace == *namespace;
            let there = self.works_of.keys().filter(is_there);
            let mut keys: Keys = there.map(|policy| Key::Works((**policy).clone())).collect();
            let absent = self.policies_in(namespace).filter(|policy| self.work_of(policy, cluster).is_none());
            keys.extend(absent.map(Key::Fold));
            keys
        })
    }

    /// What a work holds changed (`content`), or what its agent says of it (`answer`).
    pub(super) fn work_changed(&self, key: &WorkKey, purpose: &Purpose, content: bool, answer: bool) -> Keys {
        self.when_ready(|| {
            let mut keys = Keys::new();
            match purpose {
                Purpose::Parent(parent) => {
                    if content {
                        keys.insert(Key::Works((**parent).clone()));
                        keys.insert(Key::Access(key.1.clone()));
                    }
                    if answer {
                        keys.insert(Key::Fold((**parent).clone()));
                    }
                }
                Purpose::Access(_) if content => {
                    keys.insert(Key::Access(key.1.clone()));
                }
                Purpose::Foreign if content => {
                    keys.extend(self.named(&key.0).flat_map(|parent| both(&parent)));
                }
                Purpose::Access(_) | Purpose::Foreign => {}
            }
            keys
        })
    }

    /// The Gateways and policies whose works are planned to have this name.
    fn named(&self, name: &WorkName) -> impl Iterator<Item = Parent> {
        let gateways = self.gateways.iter().map(|(key, _)| Parent::gateway(key.clone()));
        let policies = self.policies.iter().flat_map(|(kind, table)| {
            table.iter().map(|(key, _)| Parent { kind: kind.clone(), object: key.clone() })
        });
        gateways.chain(policies).filter(|parent| name.is_for(&self.controller, parent))
    }

    /// Keeps the last valid parameters of every class of ours, and of no other.
    fn remember_params(&mut self) {
        let mut known = std::mem::take(&mut self.known_params);
        let ours = self.classes.iter().filter(|(_, class)| self.is_ours(class));
        self.known_params = ours
            .filter_map(|(key, class)| {
                let valid = self.params_of(&key.name, class).and_then(Result::ok);
                Some((key.clone(), valid.or_else(|| known.remove(key))?))
            })
            .collect();
    }
}

fn both(parent: &Parent) -> [Key; 2] {
    [Key::Works(parent.clone()), Key::Fold(parent.clone())]
}
