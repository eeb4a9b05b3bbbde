//! Determines whether a kind is eligible: which classes list it, in which role and version, and whether it can be
//! synced.

use std::sync::Arc;

use crate::rows::gateway::Gateway;
use crate::rows::kind::{KindInfo, Resolution, not_syncable};
use crate::{ClassParams, PolicyKind, Problem, View};
use policy_sync_api::names::{GroupVersionResource, ObjectKey, Origin};
use policy_sync_api::params::{Params, ResourceToSync, Role};

/// Whether a kind is eligible on this hub.
#[derive(Clone, Debug)]
pub enum KindEligibility {
    /// No class lists the kind, or its CustomResourceDefinition was deleted. The copies of its objects are removed.
    Unlisted,
    /// Objects of the kind cannot be planned at present, because of this problem. The second field is the last known
    /// result of discovery.
    Frozen(Problem, Option<KindInfo>),
    /// The kind can be synced in this version.
    Listed(GroupVersionResource, KindInfo),
}

/// Whether `kind` is eligible.
#[must_use]
pub fn of_kind(view: View<'_>, kind: &PolicyKind) -> KindEligibility {
    let versions = versions(view, kind);
    // Deleting a CustomResourceDefinition removes all of its versions.
    let gone =
        |gvr: &GroupVersionResource| view.kind(gvr).is_some_and(|state| state.resolution == Resolution::Gone);
    if versions.iter().any(|(gvr, _)| gone(gvr)) {
        return KindEligibility::Unlisted;
    }
    let Some(gvr) = synced_version(view, &versions) else {
        // A class with unreadable parameters may list the kind.
        let unread = view.our_classes().into_keys().find_map(|class| {
            let params = view.class_params(&class.name).filter(|params| params.known().is_none())?;
            freezing(&class.name, &params)
        });
        let unknown = unread.or_else(|| missing(view));
        return unknown.map_or(KindEligibility::Unlisted, |problem| KindEligibility::Frozen(problem, None));
    };
    if view.watched_version(kind).is_some_and(|watched_version| watched_version != gvr) {
        // The mirror still holds the objects in another version.
        return KindEligibility::Frozen(Problem::Unread(kind.to_string()), None);
    }
    resolved(view, gvr.clone())
}

/// The versions in which classes list `kind`, each with the oldest class that lists the version. The versions are
/// sorted by the age of this class, the oldest first, then by its name.
#[must_use]
pub fn versions<'v>(view: View<'v>, kind: &PolicyKind) -> Vec<(GroupVersionResource, &'v ObjectKey)> {
    let mut versions: Vec<(GroupVersionResource, &ObjectKey)> = Vec::new();
    let Some(role) = view.role(kind).filter(|role| refused(*role, kind).is_none()) else { return versions };
    for (name, params) in view.listing() {
        for gvr in params.listed(role).filter(|gvr| gvr.kind == *kind) {
            if versions.iter().all(|(known, _)| *known != gvr) {
                versions.push((gvr, name));
            }
        }
    }
    versions
}

/// The reason why `kind` can never be synced in the role `role`, if any.
fn refused(role: Role, kind: &PolicyKind) -> Option<&'static str> {
    if role == Role::Resource { not_syncable(kind) } else { None }
}

/// The reason why `kind`, which a class lists in the role `role`, is not synced in that role, if any.
#[must_use]
pub fn not_in_role(view: View<'_>, role: Role, kind: &PolicyKind) -> Option<String> {
    if view.role(kind).is_none_or(|synced| synced == role) {
        return refused(role, kind).map(str::to_owned);
    }
    let lists = |(_, params): &(&ObjectKey, Arc<Params>)| params.lists(Role::Policy, kind);
    let class = view.listing().into_iter().find(lists).map(|(class, _)| class.name.to_string());
    Some(format!("GatewayClass {} lists it in policiesToSync", class.unwrap_or_default()))
}

/// The version that is synced: the first of `versions` that can be synced or is not checked yet. If no version can be
/// synced, it is the first of `versions`.
pub(super) fn synced_version<'g>(
    view: View<'_>,
    versions: &'g [(GroupVersionResource, &ObjectKey)],
) -> Option<&'g GroupVersionResource> {
    let mut gvrs = versions.iter().map(|(gvr, _)| gvr);
    gvrs.clone().find(|gvr| may_be_synced(view, gvr)).or_else(|| gvrs.next())
}

/// Whether `gvr` can be synced, or is not checked yet.
#[must_use]
pub fn may_be_synced(view: View<'_>, gvr: &GroupVersionResource) -> bool {
    let resolution = view.kind(gvr).map(|state| &state.resolution);
    matches!(resolution, None | Some(Resolution::Resolved(_) | Resolution::Unknown(_)))
}

/// The problem that the kind of `gvr` cannot be synced in this version because of `resolution`.
#[must_use]
pub fn not_resolved(gvr: GroupVersionResource, resolution: &Resolution) -> Problem {
    Problem::KindNotResolved { gvr, fault: resolution.fault().to_owned() }
}

/// The problem of a class that lists `gvr` if the kind is synced in another version.
#[must_use]
pub fn conflict(view: View<'_>, gvr: &GroupVersionResource) -> Option<Problem> {
    let versions = versions(view, &gvr.kind);
    let synced = synced_version(view, &versions).filter(|synced| *synced != gvr)?;
    let Some(state) = view.kind(gvr) else { return Some(Problem::Unread(gvr.kind.to_string())) };
    let Resolution::Resolved(_) = &state.resolution else {
        return Some(not_resolved(gvr.clone(), &state.resolution));
    };
    let class = versions.iter().find(|(found, _)| found == synced).map(|(_, class)| class.name.to_string());
    Some(Problem::VersionConflict {
        gvr: gvr.clone(),
        held: synced.version.to_string(),
        class: class.unwrap_or_default(),
    })
}

/// [`Problem::ClassGone`] if a Gateway of this controller names a missing class that may be created again. Classes
/// whose parameters this process has read are ignored: [`View::listing`] includes them. The remaining classes may have
/// been deleted just before this process started.
fn missing(view: View<'_>) -> Option<Problem> {
    let known =
        |class: &str| view.deleted_classes().any(|(key, _, params)| *key.name == *class && params.is_some());
    let is_missing = |class: &str| view.class_deletion_ends(class).is_some() && !known(class);
    let mut gateways = view.gateways();
    let (_, gateway) =
        gateways.find(|(key, gateway)| is_missing(&gateway.class) && was_ours(view, key, gateway))?;
    Some(Problem::ClassGone(gateway.class.to_string()))
}

fn resolved(view: View<'_>, gvr: GroupVersionResource) -> KindEligibility {
    let Some(state) = view.kind(&gvr) else {
        return KindEligibility::Frozen(Problem::Unread(gvr.kind.to_string()), None);
    };
    match &state.resolution {
        Resolution::Resolved(info) => KindEligibility::Listed(gvr, info.clone()),
        other => KindEligibility::Frozen(not_resolved(gvr, other), state.known.clone()),
    }
}

/// The entry for a kind of resources in the parameters of the oldest class that lists it.
#[derive(Clone, Debug)]
pub enum ResourceEntry {
    /// No class lists the kind in `resourcesToSync`.
    Unlisted,
    /// The entry cannot be determined at present.
    Frozen(Problem),
    /// The parameters and the entry. The problem is set if the parameters of an older class cannot be read, because
    /// that class may list the kind, too.
    Known(Arc<Params>, ResourceToSync, Option<Problem>),
}

impl ResourceEntry {
    /// The entry, if it is known.
    #[must_use]
    pub fn entry(&self) -> Option<&ResourceToSync> {
        match self {
            Self::Known(_, entry, _) => Some(entry),
            Self::Frozen(_) | Self::Unlisted => None,
        }
    }
}

/// The entry for `kind` in the parameters of the oldest class that lists it as resources.
#[must_use]
pub fn of_resources(view: View<'_>, kind: &PolicyKind) -> ResourceEntry {
    let mut classes: Vec<_> = view.our_classes().into_iter().collect();
    classes.sort_by_key(|(name, class)| (class.created, *name));
    let unknown = |name: &ObjectKey| {
        let params = view.class_params(&name.name).filter(|params| params.known().is_none())?;
        freezing(&name.name, &params)
    };
    // A class whose parameters are about to be read may be older than the classes with known parameters.
    if let Some(problem) = classes.iter().find_map(|(name, _)| unknown(name).filter(Problem::passes)) {
        return ResourceEntry::Frozen(problem);
    }
    let entry = |params: &Params| params.resource(kind).cloned();
    let found = view.listing().into_iter().find_map(|(class, params)| Some((class, entry(&params)?, params)));
    let Some((class, entry, params)) = found else {
        let unknown = classes.iter().find_map(|(name, _)| unknown(name));
        return unknown.map_or(ResourceEntry::Unlisted, ResourceEntry::Frozen);
    };
    match view.class_params(&class.name) {
        None => ResourceEntry::Frozen(Problem::ClassGone(class.name.to_string())),
        Some(present) => match freezing(&class.name, &present) {
            Some(problem) => ResourceEntry::Frozen(problem),
            None => {
                let older = classes.iter().take_while(|(name, _)| *name != class);
                let older = older.into_iter().find_map(|(name, _)| unknown(name));
                ResourceEntry::Known(params, entry, older)
            }
        },
    }
}

/// Whether this controller serves a Gateway.
#[derive(Clone, Debug)]
pub enum GatewayEligibility {
    /// The Gateway does not exist, is terminating, or belongs to a class of another controller. Its works are deleted.
    NotOurs,
    /// The parameters of the Gateway's class, or the synced version of a kind of policies, cannot be determined at
    /// present. The Gateway's works are left unchanged.
    Frozen(Problem),
    /// The Gateway belongs to a class of this controller with these parameters.
    Ours(Arc<Params>),
}

impl GatewayEligibility {
    /// Whether the Gateway belongs to a class of this controller, even if the parameters are unreadable.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        !matches!(self, Self::NotOurs)
    }
}

/// Whether a Gateway whose class does not exist belonged to this controller. That is so if this process has read the
/// class, or if the Gateway has fields or works of this controller. The name of the class proves nothing: anyone can
/// create a Gateway whose class never existed, or belonged to another controller.
fn was_ours(view: View<'_>, key: &ObjectKey, gateway: &Gateway) -> bool {
    view.deleted_classes().any(|(class, ..)| *class.name == *gateway.class)
        || !gateway.fields.owners.ours.is_empty()
        || !gateway.fields.owned_status.is_empty()
        || view.works_of(&Origin::Gateway(key.clone())).next().is_some()
}

/// Whether this controller serves the Gateway `key`.
#[must_use]
pub fn of_gateway(view: View<'_>, key: &ObjectKey) -> GatewayEligibility {
    let Some(gateway) = view.gateway(key).filter(|gateway| !gateway.deleting) else {
        return GatewayEligibility::NotOurs;
    };
    match view.class_params(&gateway.class) {
        None if view.class_deletion_ends(&gateway.class).is_some() && was_ours(view, key, gateway) => {
            GatewayEligibility::Frozen(Problem::ClassGone(gateway.class.to_string()))
        }
        None => GatewayEligibility::NotOurs,
        Some(ClassParams::Valid(params)) => GatewayEligibility::Ours(params),
        Some(params) => match freezing(&gateway.class, &params) {
            Some(problem) => GatewayEligibility::Frozen(problem),
            None => GatewayEligibility::NotOurs,
        },
    }
}

/// Whether the Gateway `key` is eligible as a target of policies of `kind`. If its class does not list the kind, the
/// Gateway is treated like a Gateway of another controller.
#[must_use]
pub fn of_target(view: View<'_>, key: &ObjectKey, kind: &PolicyKind) -> GatewayEligibility {
    match of_gateway(view, key) {
        GatewayEligibility::Ours(params) => {
            let listed = params.listed(Role::Policy).filter(|gvr| gvr.kind == *kind);
            let conflicts = listed.map(|gvr| conflict(view, &gvr));
            // If the class lists several versions of the kind, it suffices that one of them is the synced version.
            let conflicts: Option<Vec<Problem>> = conflicts.collect();
            match conflicts.map(|problems| problems.into_iter().next()) {
                None => GatewayEligibility::Ours(params),
                Some(None) => GatewayEligibility::NotOurs,
                Some(Some(problem)) => GatewayEligibility::Frozen(problem),
            }
        }
        // While parameters are invalid, the previously listed kinds remain in effect.
        GatewayEligibility::Frozen(_)
            if known(view, key).is_some_and(|params| !params.lists(Role::Policy, kind)) =>
        {
            GatewayEligibility::NotOurs
        }
        eligibility => eligibility,
    }
}

fn known(view: View<'_>, key: &ObjectKey) -> Option<Arc<Params>> {
    let class = &view.gateway(key)?.class;
    match view.class_params(class) {
        Some(params) => params.known().cloned(),
        None => view.deleted_classes().find(|(key, ..)| key.name == *class)?.2.cloned(),
    }
}

fn freezing(class: &str, params: &ClassParams) -> Option<Problem> {
    match params {
        ClassParams::Valid(_) => None,
        ClassParams::Invalid { fault, .. } => {
            Some(Problem::InvalidParameters { class: class.to_owned(), fault: fault.to_string() })
        }
        ClassParams::Unread { fault: Some(fault), .. } => {
            Some(Problem::ParametersUnread { class: class.to_owned(), fault: fault.clone() })
        }
        ClassParams::Unread { fault: None, .. } => {
            Some(Problem::Unread(format!("the parameters of GatewayClass {class}")))
        }
    }
}
