//! Determines which plans a change of the mirror may affect.
//!
//! Until the [`NEEDED`](crate::kinds::NEEDED) kinds have been listed once, nothing is planned, and a change affects no
//! plan. Then everything is planned. After that, this module returns too many keys rather than too few: an unnecessary
//! plan costs microseconds and no request.

mod clusters;

use std::sync::Arc;

use super::{Key, Keys};
use crate::desired::age;
use crate::found::{VERSIONS, WORK_SCHEMA};
use crate::kinds::{
    CLASSES, CLUSTERS, CONFIG_MAPS, DECISIONS, GATEWAYS, GRANTS, PLACEMENTS, POLICIES, SECRETS, WORKS,
    role_of,
};
use crate::rows::class::Class;
use crate::rows::cluster::Decision;
use crate::rows::gateway::Gateway;
use crate::rows::policy::Policy;
use crate::rows::work::{Purpose, Work};
use crate::{Changes, PolicyKind, View};
use policy_sync_api::names::{ClusterName, ObjectKey, Origin, WorkName};
use policy_sync_api::params::Role;
use policy_sync_mirror::{AnyRow, MirrorChange, Source};

/// The keys whose plans may differ after `changes`.
#[must_use]
pub fn affected(changes: &Changes<'_>) -> Keys {
    let triggers = Triggers(changes.view());
    if triggers.0.ready() {
        changes.iter().flat_map(|changed| triggers.affected_by(changed)).collect()
    } else {
        Keys::new()
    }
}

/// Every existing key; empty before anything can be planned.
#[must_use]
pub fn everything(view: View<'_>) -> Keys {
    if view.ready() { Triggers(view).everything() } else { Keys::new() }
}

/// The mirror directly after a change.
struct Triggers<'m>(View<'m>);

impl<'m> Triggers<'m> {
    fn affected_by(&self, changed: &MirrorChange) -> Keys {
        match changed {
            MirrorChange::Everything => return self.everything(),
            MirrorChange::Listed(source) => return self.listed(source),
            MirrorChange::Unwatched(source) => return self.unwatched(source),
            MirrorChange::FailureChanged { source, toggled } => return self.failing(source, *toggled),
            MirrorChange::Object { .. } => {}
        }
        if let Some((key, before)) = changed.object_of(&CLASSES) {
            self.class(key, before)
        } else if changed.object_of(&CONFIG_MAPS).is_some() {
            // Classes can affect each other, and so can their parameters.
            self.of_classes()
        } else if let Some((key, before)) = changed.object_of(&GATEWAYS) {
            self.gateway(key, before)
        } else if let Some((key, before)) = changed.object_of(&CLUSTERS) {
            self.cluster(key, before)
        } else if let Some((key, _)) = changed.object_of(&PLACEMENTS) {
            self.of_namespace(&key.namespace)
        } else if let Some((key, before)) = changed.object_of(&DECISIONS) {
            self.decision(key, before)
        } else if let Some((key, before)) = changed.object_of(&WORKS) {
            self.work(key, before)
        } else if let Some((secret, _)) = changed.object_of(&SECRETS) {
            self.when_listed(&SECRETS.all(), |_, named| named == secret)
        } else if let Some((grant, _)) = changed.object_of(&GRANTS) {
            self.when_listed(&GRANTS.all(), |gateway, secret| {
                secret.namespace == grant.namespace && secret.namespace != gateway.namespace
            })
        } else if changed.object_of(&WORK_SCHEMA).is_some() {
            self.everything()
        } else if let MirrorChange::Object { source, key, before } = changed {
            let before = before.as_ref().and_then(AnyRow::get::<Arc<Policy>>);
            self.of_resource(source, key, before.map(|before| &**before))
        } else {
            Keys::new()
        }
    }

    /// The keys that are affected by a change of a policy, of a resource, or of the result of discovery for a kind.
    fn of_resource(&self, source: &Source, key: &ObjectKey, before: Option<&Policy>) -> Keys {
        if let Some((role, kind)) = role_of(source) {
            self.object(role, kind, key, before)
        } else if let Some(kind) = VERSIONS.resource_of(source) {
            self.kind(kind)
        } else {
            Keys::new()
        }
    }

    fn everything(&self) -> Keys {
        let mut keys = self.of_classes();
        keys.extend(self.0.clusters_with_works().map(|cluster| Key::Access(cluster.clone())));
        // An access work may outlive the works that it grants access for.
        let access = self.0.works().filter(|(.., work)| matches!(work.purpose, Purpose::Access(_)));
        keys.extend(access.map(|(_, cluster, _)| Key::Access(cluster)));
        keys
    }

    /// The keys that are affected if `source` is listed completely for the first time.
    fn listed(&self, source: &Source) -> Keys {
        if let Some((_, kind)) = role_of(source) { self.of_kind(kind) } else { self.of_source(source) }
    }

    /// The keys that are affected if `source` is no longer watched.
    fn unwatched(&self, source: &Source) -> Keys {
        role_of(source).map(|(_, kind)| self.kind(kind)).unwrap_or_default()
    }

    /// The keys whose plans depend on the ConfigMaps, Secrets or ReferenceGrants of `source`.
    fn of_source(&self, source: &Source) -> Keys {
        if source.is(&CONFIG_MAPS) {
            self.of_classes()
        } else if source.is(&SECRETS) || source.is(&GRANTS) {
            self.naming(|_, _| true)
        } else {
            Keys::new()
        }
    }

    /// The keys that are affected if the error that keeps `source` from being listed changes. `toggled` is set if an
    /// error appeared or disappeared. Gateways wait for policies that are about to be listed. They also report Secrets
    /// that cannot be listed, and classes report parameters that cannot be read.
    fn failing(&self, source: &Source, toggled: bool) -> Keys {
        if self.0.synced(source).is_some() {
            return Keys::new();
        }
        if toggled && source.is(&POLICIES) { self.waiting() } else { self.of_source(source) }
    }

    /// The keys of all Gateways: each may wait for policies, and reports the wait in its status.
    fn waiting(&self) -> Keys {
        self.0.gateways().flat_map(|(key, _)| both(&Origin::Gateway(key.clone()))).collect()
    }

    fn class(&self, key: &ObjectKey, before: Option<&Class>) -> Keys {
        match (before, self.0.class(key)) {
            // If only the status of the class has changed, only the plan of this status is affected.
            (Some(before), Some(after)) if before.is_equivalent(after) => {
                Keys::from([Key::Class(key.clone())])
            }
            _ => self.of_classes(),
        }
    }

    /// The keys that a change of a class affects. Classes can affect each other: two classes may list a version of the
    /// same kind, or one class may be the downstream class of another. So a change of one class affects all classes.
    /// Classes change rarely.
    fn of_classes(&self) -> Keys {
        let mut keys = Keys::from([Key::Watches]);
        keys.extend(self.0.classes().map(|(key, _)| Key::Class(key.clone())));
        keys.extend(self.waiting());
        keys.extend(self.0.objects().flat_map(|(object, _)| both(&object)));
        keys.extend(self.0.origins().flat_map(|origin| both(origin)));
        keys
    }

    fn gateway(&self, key: &ObjectKey, before: Option<&Gateway>) -> Keys {
        match (before, self.0.gateway(key)) {
            // If only fields that this controller writes have changed, only the plan of these fields is affected.
            (Some(before), Some(after)) if before.is_equivalent(after) => {
                Keys::from([Key::Fold(Origin::Gateway(key.clone()))])
            }
            _ => {
                let mut keys = self.of_namespace(&key.namespace);
                // A deleted Gateway is in no table, but its works and its metrics must be removed.
                keys.extend(both(&Origin::Gateway(key.clone())));
                keys
            }
        }
    }

    fn decision(&self, key: &ObjectKey, before: Option<&Decision>) -> Keys {
        let mut rows = before.into_iter().chain(self.0.placement_decision(key));
        if rows.any(|row| row.placement.is_some()) { self.of_namespace(&key.namespace) } else { Keys::new() }
    }

    /// The keys that a change in `namespace` affects. Policies target only Gateways in their own namespace, and
    /// resources use only Placements in their own namespace. So no key of another namespace is affected.
    fn of_namespace(&self, namespace: &Arc<str>) -> Keys {
        let here = |key: &ObjectKey| key.namespace == *namespace;
        let mut keys = Keys::new();
        let gateways = self.0.gateways().filter(|(key, _)| here(key));
        keys.extend(gateways.flat_map(|(key, _)| both(&Origin::Gateway(key.clone()))));
        keys.extend(self.objects_in(namespace).flat_map(|object| both(&object)));
        let origins = self.0.origins().filter(|origin| here(origin.object()));
        keys.extend(origins.flat_map(|origin| both(origin)));
        keys
    }

    fn objects_in(&self, namespace: &Arc<str>) -> impl Iterator<Item = Origin> {
        let objects = self.0.objects().filter(|(object, _)| object.object().namespace == *namespace);
        objects.map(|(object, _)| object)
    }

    fn object(&self, role: Role, kind: &PolicyKind, object: &ObjectKey, before: Option<&Policy>) -> Keys {
        // The Gateways in the namespace may wait for the policy.
        let here = self
            .0
            .gateways()
            .filter(|(gateway, _)| role == Role::Policy && gateway.namespace == object.namespace);
        let mut keys: Keys = here.map(|(gateway, _)| Key::Fold(Origin::Gateway(gateway.clone()))).collect();
        let origin = Origin::new(kind.clone(), object.clone());
        keys.extend(both(&origin));
        // The creation time, targets and annotations of a policy determine whether other policies wait for this
        // policy, and in which order copies are created.
        let after = self.0.policy(&origin);
        let is_same = match (before, after) {
            (Some(before), Some(after)) => {
                (before.created, before.deleting, &before.targets)
                    == (after.created, after.deleting, &after.targets)
                    && before.annotations == after.annotations
            }
            (before, after) => before.is_none() && after.is_none(),
        };
        if !is_same {
            for policy in before.into_iter().chain(after) {
                keys.extend(age::affected(self.0, &origin, policy).into_iter().map(Key::Fold));
            }
        }
        // If the kind is no longer listed, it is watched until this controller's last annotation is removed from its
        // objects.
        keys.insert(Key::Watches);
        keys
    }

    fn kind(&self, kind: &PolicyKind) -> Keys {
        let mut keys = self.of_kind(kind);
        keys.insert(Key::Watches);
        keys.extend(self.0.classes().map(|(key, _)| Key::Class(key.clone())));
        keys
    }

    fn of_kind(&self, kind: &PolicyKind) -> Keys {
        let policies = self.0.policies_of(kind);
        let policy = |(key, _): (&ObjectKey, _)| Origin::new(kind.clone(), key.clone());
        let mut keys: Keys = policies.flat_map(|found| both(&policy(found))).collect();
        let origins = self.0.origins().filter(|origin| origin.kind() == kind);
        keys.extend(origins.flat_map(|origin| both(origin)));
        keys.extend(self.waiting());
        keys
    }

    /// The keys of [`Self::naming`] if `source` has been listed. Before that, nothing is planned from `source`. The
    /// first complete list of `source` affects all Gateways that name Secrets.
    fn when_listed(&self, source: &Source, affects: impl Fn(&ObjectKey, &ObjectKey) -> bool) -> Keys {
        if self.0.synced(source).is_some() { self.naming(affects) } else { Keys::new() }
    }

    /// The Gateways with a listener that names a matching Secret. The arguments of `fits` are the keys of the Gateway
    /// and of the Secret.
    fn naming(&self, fits: impl Fn(&ObjectKey, &ObjectKey) -> bool) -> Keys {
        let names = |key: &ObjectKey, row: &Gateway| row.secrets.iter().any(|secret| fits(key, secret));
        let gateways = self.0.gateways().filter(|(key, row)| names(key, row));
        gateways.flat_map(|(key, _)| both(&Origin::Gateway(key.clone()))).collect()
    }

    fn work(&self, key: &ObjectKey, before: Option<&Work>) -> Keys {
        let (name, cluster) = (WorkName(key.name.clone()), ClusterName(key.namespace.clone()));
        let after = self.0.work(&name, &cluster);
        let (before, after) = match (before, after) {
            (Some(before), Some(after)) if before.purpose == after.purpose => (before, after),
            (before, after) => {
                let mut keys =
                    before.map(|before| self.work_gone(&name, &cluster, before)).unwrap_or_default();
                keys.extend(after.into_iter().flat_map(|after| self.work_appeared(&name, &cluster, after)));
                return keys;
            }
        };
        let content = before.content != after.content
            || before.deleting != after.deleting
            || before.uid != after.uid
            || before.unplaced != after.unplaced;
        let applied = before.applied_since != after.applied_since;
        let report = content || before.report != after.report;
        let mut keys = self.work_changed(&name, &cluster, &after.purpose, content, report);
        if content || applied {
            keys.extend(self.waiting_for(&cluster, after, applied && after.applied_since.is_some()));
        }
        let shown = |work: &Work| (work.copied, work.deleting, work.uid.clone(), work.gateways.clone());
        if shown(before) != shown(after) {
            keys.extend(self.of_same_target(&after.purpose, &cluster, true));
        }
        keys
    }

    /// The keys of policies that are affected if the work for `purpose` in `cluster` is created, changed or deleted.
    /// `copied` is set if the copy on the spoke may have been created or deleted. Younger policies with the same target
    /// may wait for the copy, and the copies of neighbors may now be out of order. Clusters report thousands of copies,
    /// so these policies are checked in their batched folds.
    fn of_same_target(&self, purpose: &Purpose, cluster: &ClusterName, copied: bool) -> Keys {
        let Purpose::Copy(origin) = purpose else { return Keys::new() };
        let Some(policy) = self.0.policy(origin) else { return Keys::new() };
        let mut found = age::followers(self.0, origin, policy, cluster);
        if copied {
            let neighbors = age::neighbors(self.0, origin, policy, cluster);
            found.extend((!neighbors.is_empty()).then(|| (**origin).clone()));
            found.extend(neighbors);
        }
        found.into_iter().map(Key::Fold).collect()
    }

    /// The keys that are affected if a work is created, or gets a new purpose.
    fn work_appeared(&self, name: &WorkName, cluster: &ClusterName, work: &Work) -> Keys {
        let mut keys = self.work_changed(name, cluster, &work.purpose, true, true);
        keys.extend(self.waiting_for(cluster, work, work.applied_since.is_some()));
        // On a cluster that the Placement does not select, a Gateway and its policies are kept for the Gateway's grace
        // period.
        if let Some(gateway) = work.purpose.gateway()
            && self.0.unplaced_record(name, cluster).since.is_some()
        {
            keys.extend(self.of_namespace(&gateway.namespace));
        }
        keys.extend(self.of_same_target(&work.purpose, cluster, work.copied.is_some()));
        keys
    }

    /// The keys that are affected if a work is deleted, or gets a new purpose.
    fn work_gone(&self, name: &WorkName, cluster: &ClusterName, work: &Work) -> Keys {
        let mut keys = self.work_changed(name, cluster, &work.purpose, true, true);
        keys.extend(self.unblocked_by(cluster, work));
        keys.extend(self.of_same_target(&work.purpose, cluster, work.copied.is_some()));
        keys
    }

    /// The plans that wait for a change of `work`. For a policy's work, these are the plans of the policy's Gateways
    /// whose work in `cluster` is missing or being deleted. For a Gateway's work that is being deleted, these are the
    /// plans of its policies.
    ///
    /// Reports on policies arrive by the hundreds, so a waiting Gateway checks them in its batched fold. If the work
    /// has just been `applied` and all other policies of the Gateway are applied, too, the Gateway's works are planned
    /// at once.
    fn waiting_for(&self, cluster: &ClusterName, work: &Work, applied: bool) -> Keys {
        let Purpose::Copy(origin) = &work.purpose else { return Keys::new() };
        if let Origin::Gateway(_) = **origin {
            return if work.deleting.is_some() { self.unblocked_by(cluster, work) } else { Keys::new() };
        }
        let has_work =
            |gateway: &Origin| self.0.work_of(gateway, cluster).is_some_and(|work| work.deleting.is_none());
        let mut keys = Keys::new();
        for key in self.0.served(cluster, work) {
            let gateway = Origin::Gateway(key.clone());
            if has_work(&gateway) {
                continue;
            }
            if applied && self.all_applied(&key, cluster) {
                keys.insert(Key::Works(gateway.clone()));
            }
            keys.insert(Key::Fold(gateway));
        }
        keys
    }

    /// Whether all works in `cluster` for policies of the Gateway `gateway` are applied. The annotation of each work
    /// names the Gateways of its policy.
    fn all_applied(&self, gateway: &ObjectKey, cluster: &ClusterName) -> bool {
        let is_pending = |origin: &Arc<Origin>| {
            origin.as_gateway().is_none()
                && origin.object().namespace == gateway.namespace
                && self
                    .0
                    .work_of(origin, cluster)
                    .is_some_and(|work| work.applied_since.is_none() && work.gateways.contains(&gateway.name))
        };
        !self.0.origins().any(is_pending)
    }

    /// The policies whose works may be deleted once the Gateway's work in `cluster` is deleted. For a policy without a
    /// work in `cluster`, no later change of a work would queue the policy's status. So the status is queued now.
    fn unblocked_by(&self, cluster: &ClusterName, work: &Work) -> Keys {
        let Some(ObjectKey { namespace, .. }) = work.purpose.gateway() else { return Keys::new() };
        let is_policy =
            |other: &&Arc<Origin>| other.as_gateway().is_none() && other.object().namespace == *namespace;
        let policies = self.0.origins().filter(is_policy);
        let mut keys: Keys = policies.map(|policy| Key::Works((**policy).clone())).collect();
        let absent = self.objects_in(namespace).filter(|policy| self.0.work_of(policy, cluster).is_none());
        keys.extend(absent.map(Key::Fold));
        keys
    }

    /// The keys that are affected if the content of a work (`content`) or the report of its agent (`report`) changes.
    fn work_changed(
        &self,
        name: &WorkName,
        cluster: &ClusterName,
        purpose: &Purpose,
        content: bool,
        report: bool,
    ) -> Keys {
        let mut keys = Keys::new();
        match purpose {
            Purpose::Copy(origin) => {
                if content {
                    keys.insert(Key::Works((**origin).clone()));
                    keys.insert(Key::Access(cluster.clone()));
                }
                if report {
                    keys.insert(Key::Fold((**origin).clone()));
                }
            }
            Purpose::Access(_) if content => {
                keys.insert(Key::Access(cluster.clone()));
            }
            Purpose::Foreign if content => keys.extend(self.named(name).flat_map(|origin| both(&origin))),
            Purpose::Access(_) | Purpose::Foreign => {}
        }
        keys
    }

    /// The Gateways, policies and resources whose works are planned under this name.
    fn named(&self, name: &WorkName) -> impl Iterator<Item = Origin> {
        let gateways = self.0.gateways().map(|(key, _)| Origin::Gateway(key.clone()));
        let objects = self.0.objects().map(|(object, _)| object);
        gateways.chain(objects).filter(|origin| name.is_for(self.0.controller(), origin))
    }
}

fn both(origin: &Origin) -> [Key; 2] {
    [Key::Works(origin.clone()), Key::Fold(origin.clone())]
}

#[cfg(test)]
pub(crate) mod tests;
