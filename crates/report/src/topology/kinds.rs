//! [`TopologyKinds`]: the kinds of objects that a topology of a cluster reads.

use std::collections::{BTreeMap, BTreeSet};

use super::ClusterObjects;
use crate::known::Known;
use crate::query::ClassParameters;
use crate::served::{ServedKind, discover};
use policy_sync_api::gateway::{POLICY_LABEL, is_direct};
use policy_sync_api::names::{ControllerName, GroupResource, GroupVersionResource};
use policy_sync_api::object::HubObject;
use policy_sync_api::params::{Merge, Role};
use policy_sync_hub::{HubClient, HubError};
use policy_sync_mirror::Projection;
use policy_sync_sync::kinds::GATEWAY_API;
use policy_sync_topology::locator::{GATEWAY, GATEWAY_CLASS, Kind, KindRef, SERVICE};
use policy_sync_topology::objects::{GRANT, NAMESPACE};
use policy_sync_topology::rows::{BackendKind, RouteKind, SetKind};
use policy_sync_topology::rules::MergeConfig;
use policy_sync_topology::show::ObjectFault;
use policy_sync_topology::{Needs, Objects};

/// The kinds of objects that a topology reads, and the metadata of these kinds.
#[derive(Debug)]
pub(crate) struct TopologyKinds {
    /// The kinds that are always read: the parents of routes, routes, and policies.
    pub(crate) always: Vec<ServedKind>,
    /// On a spoke: kinds that may be policies although their definition lacks GEP-713's label, such as Kuadrant's
    /// extensions. Only copies from the hub are read of these kinds.
    pub(crate) of_copies: Vec<ServedKind>,
    /// The kinds of backends, which are read only if a route refers to one. The array has the order of
    /// [`BackendKind::ALL`]. An item is `None` if the cluster does not serve the kind.
    backends: [Option<ServedKind>; 3],
    namespaces: ServedKind,
    grants: Option<ServedKind>,
    unserved: BTreeSet<Kind>,
    /// For each kind of policies: the kind, its plural, and whether its policies are direct (GEP-713).
    definitions: Vec<(Kind, String, bool)>,
    /// The merge settings in the parameters, each with its kind of policies.
    merges: Vec<(GroupResource, Merge)>,
    /// Errors in the parameters.
    faults: Vec<String>,
    /// The parameters that the user may not read.
    unread: Vec<String>,
    /// The error if the user may not read definitions.
    pub(crate) definitions_error: Option<HubError>,
}

impl TopologyKinds {
    /// Reads the kinds from discovery, the GatewayClasses of `controller`, and the definitions of policies.
    ///
    /// # Errors
    ///
    /// If the cluster has no Gateway API, or does not respond.
    pub(crate) async fn read(hub: &HubClient, controller: &ControllerName) -> Result<Self, HubError> {
        hub.has(&[GATEWAY_API]).await?;
        let discovered = discover(hub).await?;
        let served = &discovered.kinds;
        let (mut unserved, mut stale) = (BTreeSet::new(), None);
        let mut find = |kind: KindRef<'_>| {
            let found = served.iter().find(|served| is(served, kind)).cloned();
            if found.is_none() && discovered.stale.contains(kind.group) {
                stale = discovered.unread();
            } else if found.is_none() {
                unserved.insert(kind.to_kind());
            }
            found
        };
        let routes = RouteKind::ALL.map(RouteKind::kind);
        let sets = SetKind::ALL.map(SetKind::kind);
        let always = [GATEWAY_CLASS, GATEWAY].into_iter().chain(sets).chain(routes);
        let always = always.filter_map(&mut find).collect();
        let backends = BackendKind::ALL.map(|kind| match kind {
            BackendKind::Service => Some(ServedKind::core(SERVICE.kind, "services")),
            BackendKind::ServiceImport | BackendKind::EnvoyBackend => find(kind.kind()),
        });
        let grants = find(GRANT);
        let (labels, definitions_error) = match Known::of(labels(hub).await)? {
            Known::Known(labels) => (labels, None),
            Known::Unknown(error) => (BTreeMap::new(), Some(error)),
        };
        let definition = |of: &ServedKind| {
            let kind = Kind { group: of.gvr.kind.group.clone(), kind: of.kind.as_str().into() };
            let direct = labels.get(&of.gvr.kind.to_string()).is_some_and(|label| is_direct(label));
            (kind, of.gvr.kind.resource.to_string(), direct)
        };
        let mut kinds = Self {
            always,
            of_copies: Vec::new(),
            backends,
            namespaces: ServedKind::core(NAMESPACE.kind, "namespaces"),
            grants,
            unserved,
            definitions: served.iter().map(definition).collect(),
            merges: Vec::new(),
            faults: Vec::new(),
            unread: Vec::new(),
            definitions_error,
        };
        let policies = kinds.policies(hub, controller, served, &labels).await?;
        kinds.always.extend(policies);
        kinds.unread.extend(stale);
        Ok(kinds)
    }

    /// The kinds of policies.
    async fn policies(
        &mut self,
        hub: &HubClient,
        controller: &ControllerName,
        served: &[ServedKind],
        labels: &BTreeMap<String, String>,
    ) -> Result<Vec<ServedKind>, HubError> {
        let is_labelled = |kind: &&ServedKind| labels.contains_key(&kind.gvr.kind.to_string());
        let labelled = || served.iter().filter(is_labelled).cloned().collect();
        let listed = match Known::of(ClassParameters::read(hub, controller).await)? {
            Known::Known(listed) if listed.has_classes => listed,
            Known::Known(_) => {
                let groups: BTreeSet<&str> =
                    served.iter().filter(is_labelled).map(|kind| &*kind.gvr.kind.group).collect();
                let may_be_copied = |kind: &&ServedKind| !is_labelled(kind) && may_be_copied(kind, &groups);
                self.of_copies = served.iter().filter(may_be_copied).cloned().collect();
                return Ok(labelled());
            }
            // The missing right is reported when GatewayClasses are listed.
            Known::Unknown(_) => return Ok(labelled()),
        };
        self.merges = listed.merges;
        self.faults = listed.faults;
        // If the user may not read parameters, the labels are used instead.
        let is_unread = !listed.unread.is_empty();
        self.unread = listed.unread;
        if is_unread && listed.kinds.is_empty() {
            return Ok(labelled());
        }
        Ok(listed.kinds.into_iter().filter(|kind| kind.role == Role::Policy).collect())
    }

    /// Whether `other` has the same kinds, settings and errors.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let errors = |kinds: &Self| {
            (
                kinds.faults.clone(),
                kinds.unread.clone(),
                kinds.definitions_error.as_ref().map(ToString::to_string),
            )
        };
        self.always == other.always
            && self.backends == other.backends
            && self.grants == other.grants
            && self.unserved == other.unserved
            && self.definitions == other.definitions
            && self.merges == other.merges
            && errors(self) == errors(other)
    }

    /// The kinds and their settings, without any object.
    pub(crate) fn objects(&self) -> ClusterObjects {
        let mut objects = Objects::of_cluster(BTreeSet::new());
        for (kind, plural, direct) in &self.definitions {
            objects.define(kind.clone(), plural, *direct);
        }
        for (resource, merge) in &self.merges {
            objects.configure(resource.clone(), MergeConfig::from(merge));
        }
        let fault = |message: &String| ObjectFault {
            message: message.clone(),
            object: "parameters".to_owned(),
            place: None,
        };
        ClusterObjects {
            objects,
            faults: self.faults.iter().map(fault).collect(),
            unread: self.unread.clone(),
            unserved: Some(self.unserved.clone()),
            locations: BTreeMap::new(),
        }
    }

    /// The kinds that objects with these `needs` refer to.
    pub(crate) fn needed(&self, needs: Needs) -> Vec<&ServedKind> {
        let Needs { backends, namespaces, grants } = needs;
        let backends = self.backends.iter().zip(backends).filter(|(_, is_needed)| *is_needed);
        let backends = backends.filter_map(|(kind, _)| kind.as_ref());
        let namespaces = namespaces.then_some(&self.namespaces);
        let grants = self.grants.as_ref().filter(|_| grants);
        backends.chain(namespaces).chain(grants).collect()
    }
}

/// The values of GEP-713's label, by the name of the definition.
async fn labels(hub: &HubClient) -> Result<BTreeMap<String, String>, HubError> {
    let gvr = GroupVersionResource::definitions();
    let what = format!("list {}", gvr.kind);
    let definitions = hub.objects(&gvr, "", Some(POLICY_LABEL), Projection::Metadata, &what).await?;
    let label =
        |mut object: HubObject| Some((object.metadata.name, object.metadata.labels.remove(POLICY_LABEL)?));
    Ok(definitions.into_iter().filter_map(label).collect())
}

/// Whether a kind without GEP-713's label may be a kind of policies: it is namespaced, and its name ends in `Policy`.
/// The kind's group must be one of `groups`, which contain kinds with that label, or a subgroup of one of them. For
/// example, `extensions.kuadrant.io` is a subgroup of `kuadrant.io`.
fn may_be_copied(kind: &ServedKind, groups: &BTreeSet<&str>) -> bool {
    let group = &*kind.gvr.kind.group;
    let belongs = |to: &&str| group == *to || group.strip_suffix(*to).is_some_and(|rest| rest.ends_with('.'));
    kind.is_namespaced && kind.kind.ends_with("Policy") && groups.iter().any(belongs)
}

fn is(served: &ServedKind, kind: KindRef<'_>) -> bool {
    *served.gvr.kind.group == *kind.group && *served.kind == *kind.kind
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;

    use super::*;

    #[test]
    fn policies_of_a_group_with_labelled_kinds_and_of_its_subgroups_may_be_copies() {
        let groups = BTreeSet::from(["kuadrant.io", "gateway.envoyproxy.io"]);
        for (kind, group, namespaced, expected) in [
            ("PlanPolicy", "extensions.kuadrant.io", true, true),
            ("PlanPolicy", "a.extensions.kuadrant.io", true, true),
            ("OtherPolicy", "kuadrant.io", true, true),
            ("PlanPolicy", "extensions.kuadrant.io", false, false),
            ("Plan", "extensions.kuadrant.io", true, false),
            ("PlanPolicy", "extensionskuadrant.io", true, false),
            ("PlanPolicy", "extensions.kuadrant.io.example.com", true, false),
            ("PlanPolicy", "io", true, false),
            ("NetworkPolicy", "networking.k8s.io", true, false),
        ] {
            let plural = kind.to_lowercase() + "s";
            let served = APIResource {
                kind: kind.to_owned(),
                name: plural.clone(),
                namespaced,
                ..APIResource::default()
            };
            let gvr = GroupVersionResource::new(group, "v1", &plural);
            let found = may_be_copied(&ServedKind::new(Role::Policy, gvr, &served), &groups);
            assert_eq!(found, expected, "{kind}.{group}, namespaced: {namespaced}");
        }
    }
}
