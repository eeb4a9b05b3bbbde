//! Where a kind stands: which classes list it, in which version, and whether it can be synced.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Problem;
use crate::api::names::{GroupVersionResource, ObjectKey};
use crate::api::params::Params;
use crate::mirror::rows::kind::{PolicyKindInfo, Resolution};
use crate::mirror::{ClassParams, PolicyKind, View};

/// Where a kind stands on this hub.
#[derive(Clone, Debug)]
pub enum KindStanding {
    /// No class lists it, or its CustomResourceDefinition is gone: its objects are withdrawn.
    Unlisted,
    /// It cannot be known, or not planned, at present. What it was when it last could be is kept.
    Frozen(Problem, Option<PolicyKindInfo>),
    /// It can be synced.
    Listed(GroupVersionResource, PolicyKindInfo),
}

/// Where `kind` stands.
#[must_use]
pub fn of_kind(view: View<'_>, kind: &PolicyKind) -> KindStanding {
    let mut versions = BTreeSet::new();
    let mut unknown = None;
    for class in view.our_classes().keys() {
        let Some(params) = view.class_params(&class.name) else { continue };
        let lists = params.known().into_iter().flat_map(|params| &params.policies_to_sync);
        versions.extend(lists.map(|policy| policy.gvr()).filter(|gvr| gvr.kind == *kind));
        if params.known().is_none() {
            unknown = freezing(&class.name, &params);
        }
    }
    let departed = view.departed().filter_map(|(.., params)| params);
    let lists = departed.flat_map(|params| &params.policies_to_sync);
    versions.extend(lists.map(|policy| policy.gvr()).filter(|gvr| gvr.kind == *kind));
    if versions.is_empty() && unknown.is_none() {
        unknown = missing(view);
    }
    // A definition that is gone takes all of its versions along.
    let gone = |gvr| view.kind(gvr).is_some_and(|state| state.resolution == Resolution::Gone);
    if versions.iter().any(gone) {
        return KindStanding::Unlisted;
    }
    let mut versions = versions.into_iter();
    match (versions.next(), versions.next(), unknown) {
        (None, _, None) => KindStanding::Unlisted,
        // A class that cannot be read may list it.
        (None, _, Some(problem)) => KindStanding::Frozen(problem, None),
        (Some(gvr), None, _) => resolved(view, gvr),
        (Some(first), Some(second), _) => {
            let all: Vec<_> = [first.version.clone(), second.version]
                .into_iter()
                .chain(versions.map(|v| v.version))
                .collect();
            let problem = Problem::TwoVersions { resource: kind.to_string(), versions: all.join(", ") };
            KindStanding::Frozen(problem, view.kind(&first).and_then(|state| state.known.clone()))
        }
    }
}

/// A class that some Gateway has and that may return, of which this process does not know what it listed: it may have gone
/// just before the start.
fn missing(view: View<'_>) -> Option<Problem> {
    let known = |class: &str| view.departed().any(|(key, _, params)| *key.name == *class && params.is_some());
    let mut classes = view.gateways().map(|(_, gateway)| &*gateway.class);
    let class = classes.find(|class| view.class_returns(class).is_some() && !known(class))?;
    Some(Problem::ClassGone(class.to_owned()))
}

fn resolved(view: View<'_>, gvr: GroupVersionResource) -> KindStanding {
    let Some(state) = view.kind(&gvr) else {
        return KindStanding::Frozen(Problem::Unread(gvr.kind.to_string()), None);
    };
    match &state.resolution {
        Resolution::Resolved(info) => KindStanding::Listed(gvr, info.clone()),
        other => {
            let problem = Problem::KindNotResolved { gvr, fault: other.fault().to_owned() };
            KindStanding::Frozen(problem, state.known.clone())
        }
    }
}

/// Where a Gateway stands.
#[derive(Clone, Debug)]
pub enum GatewayStanding {
    /// It is gone, going, or of a class that is not ours: what is there for it is withdrawn.
    NotOurs,
    /// Its class cannot be read at present.
    Frozen(Problem),
    /// It is ours, with these parameters.
    Ours(Arc<Params>),
}

impl GatewayStanding {
    /// Whether it is ours, be its class readable or not.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        !matches!(self, Self::NotOurs)
    }
}

/// Where the Gateway `key` stands.
#[must_use]
pub fn of_gateway(view: View<'_>, key: &ObjectKey) -> GatewayStanding {
    let Some(gateway) = view.gateway(key).filter(|gateway| !gateway.deleting) else {
        return GatewayStanding::NotOurs;
    };
    match view.class_params(&gateway.class) {
        None if view.class_returns(&gateway.class).is_some() => {
            GatewayStanding::Frozen(Problem::ClassGone(gateway.class.to_string()))
        }
        None => GatewayStanding::NotOurs,
        Some(ClassParams::Valid(params)) => GatewayStanding::Ours(params),
        Some(params) => match freezing(&gateway.class, &params) {
            Some(problem) => GatewayStanding::Frozen(problem),
            None => GatewayStanding::NotOurs,
        },
    }
}

/// Where the Gateway `key` stands as a target of policies of `kind`: one whose class does not list the kind is as
/// little ours as one of another class.
#[must_use]
pub fn of_target(view: View<'_>, key: &ObjectKey, kind: &PolicyKind) -> GatewayStanding {
    match of_gateway(view, key) {
        GatewayStanding::Ours(params) if !lists(&params, kind) => GatewayStanding::NotOurs,
        // Invalid parameters keep the kinds known before, and no others.
        GatewayStanding::Frozen(_) if known(view, key).is_some_and(|params| !lists(&params, kind)) => {
            GatewayStanding::NotOurs
        }
        standing => standing,
    }
}

fn known(view: View<'_>, key: &ObjectKey) -> Option<Arc<Params>> {
    let class = &view.gateway(key)?.class;
    match view.class_params(class) {
        Some(params) => params.known().cloned(),
        None => view.departed().find(|(key, ..)| key.name == *class)?.2.cloned(),
    }
}

fn lists(params: &Params, kind: &PolicyKind) -> bool {
    params.policies_to_sync.iter().any(|policy| policy.gvr().kind == *kind)
}

fn freezing(class: &str, params: &ClassParams) -> Option<Problem> {
    match params {
        ClassParams::Valid(_) => None,
        ClassParams::Invalid { place, error, .. } => {
            Some(Problem::InvalidParameters { class: class.to_owned(), fault: format!("{place}: {error}") })
        }
        ClassParams::Unread { fault: Some(fault), .. } => {
            Some(Problem::ParametersUnread { class: class.to_owned(), fault: fault.clone() })
        }
        ClassParams::Unread { fault: None, .. } => {
            Some(Problem::Unread(format!("the parameters of GatewayClass {class}")))
        }
    }
}
