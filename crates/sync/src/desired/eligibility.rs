//! Whether a kind is eligible: which classes list it, as what and in which version, and whether it can be synced.

use std::sync::Arc;

use crate::rows::gateway::Gateway;
use crate::rows::kind::{KindInfo, Resolution, not_syncable};
use crate::{ClassParams, PolicyKind, Problem, View};
use policy_sync_api::names::{GroupVersionResource, ObjectKey, Origin};
use policy_sync_api::params::{Params, ResourceToSync, Role};

/// Whether a kind is eligible on this hub.
#[derive(Clone, Debug)]
pub enum KindEligibility {
    /// No class lists it, or its CustomResourceDefinition is gone: its objects are withdrawn.
    Unlisted,
    /// It cannot be known, or not planned, at present. What it was when it last could be is kept.
    Frozen(Problem, Option<KindInfo>),
    /// It can be synced.
    Listed(GroupVersionResource, KindInfo),
}

/// Whether `kind` is eligible.
#[must_use]
pub fn of_kind(view: View<'_>, kind: &PolicyKind) -> KindEligibility {
    let versions = versions(view, kind);
    // A definition that is gone takes all of its versions along.
    let gone =
        |gvr: &GroupVersionResource| view.kind(gvr).is_some_and(|state| state.resolution == Resolution::Gone);
    if versions.iter().any(|(gvr, _)| gone(gvr)) {
        return KindEligibility::Unlisted;
    }
    let Some(gvr) = held(view, &versions) else {
        // A class that cannot be read may list it.
        let unread = view.our_classes().into_keys().find_map(|class| {
            let params = view.class_params(&class.name).filter(|params| params.known().is_none())?;
            freezing(&class.name, &params)
        });
        let unknown = unread.or_else(|| missing(view));
        return unknown.map_or(KindEligibility::Unlisted, |problem| KindEligibility::Frozen(problem, None));
    };
    if view.followed(kind).is_some_and(|followed| followed != gvr) {
        // What is there was read in another version.
        return KindEligibility::Frozen(Problem::Unread(kind.to_string()), None);
    }
    resolved(view, gvr.clone())
}

/// The versions in which classes list `kind`, each with the oldest class that does: the oldest class's first, then by name.
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

/// Why no kind that is listed as what `role` says may be `kind`.
fn refused(role: Role, kind: &PolicyKind) -> Option<&'static str> {
    if role == Role::Resource { not_syncable(kind) } else { None }
}

/// Why `kind`, which a class lists as what `role` says, is not synced as that.
#[must_use]
pub fn not_in_role(view: View<'_>, role: Role, kind: &PolicyKind) -> Option<String> {
    if view.role(kind).is_none_or(|synced| synced == role) {
        return refused(role, kind).map(str::to_owned);
    }
    let lists = |(_, params): &(&ObjectKey, Arc<Params>)| params.lists(Role::Policy, kind);
    let class = view.listing().into_iter().find(lists).map(|(class, _)| class.name.to_string());
    Some(format!("GatewayClass {} lists it as policies", class.unwrap_or_default()))
}

/// Which of `versions` is synced: the first that can be, or of which that is not known yet; where none can be, the first.
pub(super) fn held<'g>(
    view: View<'_>,
    versions: &'g [(GroupVersionResource, &ObjectKey)],
) -> Option<&'g GroupVersionResource> {
    let mut gvrs = versions.iter().map(|(gvr, _)| gvr);
    gvrs.clone().find(|gvr| may_be_synced(view, gvr)).or_else(|| gvrs.next())
}

/// Whether `gvr` can be synced, or that is not known yet.
#[must_use]
pub fn may_be_synced(view: View<'_>, gvr: &GroupVersionResource) -> bool {
    let resolution = view.kind(gvr).map(|state| &state.resolution);
    matches!(resolution, None | Some(Resolution::Resolved(_) | Resolution::Unknown(_)))
}

/// That the kind of `gvr` cannot be synced in this version, because it is found to be `resolution`.
#[must_use]
pub fn not_resolved(gvr: GroupVersionResource, resolution: &Resolution) -> Problem {
    Problem::KindNotResolved { gvr, fault: resolution.fault().to_owned() }
}

/// Why `gvr`, which a class lists, is not the version in which its kind is synced, where it is synced in another one.
#[must_use]
pub fn conflict(view: View<'_>, gvr: &GroupVersionResource) -> Option<Problem> {
    let versions = versions(view, &gvr.kind);
    let held = held(view, &versions).filter(|held| *held != gvr)?;
    let Some(state) = view.kind(gvr) else { return Some(Problem::Unread(gvr.kind.to_string())) };
    let Resolution::Resolved(_) = &state.resolution else {
        return Some(not_resolved(gvr.clone(), &state.resolution));
    };
    let class = versions.iter().find(|(found, _)| found == held).map(|(_, class)| class.name.to_string());
    Some(Problem::VersionConflict {
        gvr: gvr.clone(),
        held: held.version.to_string(),
        class: class.unwrap_or_default(),
    })
}

/// A class that some Gateway has and that may return, of which this process does not know what it listed: it may have gone
/// just before the start.
fn missing(view: View<'_>) -> Option<Problem> {
    let known = |class: &str| view.departed().any(|(key, _, params)| *key.name == *class && params.is_some());
    let is_missing = |class: &str| view.class_returns(class).is_some() && !known(class);
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

/// What the oldest class that lists a kind of resources says of it.
#[derive(Clone, Debug)]
pub enum ResourceTerms {
    /// No class lists the kind as resources.
    Unlisted,
    /// What it says cannot be known at present.
    Frozen(Problem),
    /// This, unless an older class, of which that is not known, lists the kind as well.
    Known(Arc<Params>, ResourceToSync, Option<Problem>),
}

impl ResourceTerms {
    /// What it says, where that is known.
    #[must_use]
    pub fn entry(&self) -> Option<&ResourceToSync> {
        match self {
            Self::Known(_, entry, _) => Some(entry),
            Self::Frozen(_) | Self::Unlisted => None,
        }
    }
}

/// What the oldest class that lists `kind` as resources says of it.
#[must_use]
pub fn of_resources(view: View<'_>, kind: &PolicyKind) -> ResourceTerms {
    let mut classes: Vec<_> = view.our_classes().into_iter().collect();
    classes.sort_by_key(|(name, class)| (class.created, *name));
    let unknown = |name: &ObjectKey| {
        let params = view.class_params(&name.name).filter(|params| params.known().is_none())?;
        freezing(&name.name, &params)
    };
    // Classes that are about to be read may be older.
    if let Some(problem) = classes.iter().find_map(|(name, _)| unknown(name).filter(Problem::passes)) {
        return ResourceTerms::Frozen(problem);
    }
    let entry = |params: &Params| params.resource(kind).cloned();
    let found = view.listing().into_iter().find_map(|(class, params)| Some((class, entry(&params)?, params)));
    let Some((class, entry, params)) = found else {
        let unknown = classes.iter().find_map(|(name, _)| unknown(name));
        return unknown.map_or(ResourceTerms::Unlisted, ResourceTerms::Frozen);
    };
    match view.class_params(&class.name) {
        None => ResourceTerms::Frozen(Problem::ClassGone(class.name.to_string())),
        Some(present) => match freezing(&class.name, &present) {
            Some(problem) => ResourceTerms::Frozen(problem),
            None => {
                let older = classes.iter().take_while(|(name, _)| *name != class);
                let older = older.into_iter().find_map(|(name, _)| unknown(name));
                ResourceTerms::Known(params, entry, older)
            }
        },
    }
}

/// Whether a Gateway is eligible.
#[derive(Clone, Debug)]
pub enum GatewayEligibility {
    /// It is gone, going, or of a class that is not ours: what is there for it is withdrawn.
    NotOurs,
    /// Its class cannot be read at present.
    Frozen(Problem),
    /// It is ours, with these parameters.
    Ours(Arc<Params>),
}

impl GatewayEligibility {
    /// Whether it is ours, be its class readable or not.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        !matches!(self, Self::NotOurs)
    }
}

/// Whether a Gateway whose class does not exist was ours: this process has seen the class, or what we wrote is there. Anybody
/// may write a Gateway of a class that never was, or was another controller's.
fn was_ours(view: View<'_>, key: &ObjectKey, gateway: &Gateway) -> bool {
    view.departed().any(|(class, ..)| *class.name == *gateway.class)
        || !gateway.fields.owners.ours.is_empty()
        || !gateway.fields.owned_status.is_empty()
        || view.works_of(&Origin::Gateway(key.clone())).next().is_some()
}

/// Whether the Gateway `key` is eligible.
#[must_use]
pub fn of_gateway(view: View<'_>, key: &ObjectKey) -> GatewayEligibility {
    let Some(gateway) = view.gateway(key).filter(|gateway| !gateway.deleting) else {
        return GatewayEligibility::NotOurs;
    };
    match view.class_params(&gateway.class) {
        None if view.class_returns(&gateway.class).is_some() && was_ours(view, key, gateway) => {
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

/// Whether the Gateway `key` is eligible as a target of policies of `kind`: one whose class does not list the kind is as
/// little ours as one of another class.
#[must_use]
pub fn of_target(view: View<'_>, key: &ObjectKey, kind: &PolicyKind) -> GatewayEligibility {
    match of_gateway(view, key) {
        GatewayEligibility::Ours(params) => {
            let listed = params.listed(Role::Policy).filter(|gvr| gvr.kind == *kind);
            let conflicts = listed.map(|gvr| conflict(view, &gvr));
            // Where it lists several versions, one that is synced suffices.
            let conflicts: Option<Vec<Problem>> = conflicts.collect();
            match conflicts.map(|problems| problems.into_iter().next()) {
                None => GatewayEligibility::Ours(params),
                Some(None) => GatewayEligibility::NotOurs,
                Some(Some(problem)) => GatewayEligibility::Frozen(problem),
            }
        }
        // Invalid parameters keep the kinds known before, and no others.
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
        None => view.departed().find(|(key, ..)| key.name == *class)?.2.cloned(),
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
