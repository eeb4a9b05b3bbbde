//! What this controller takes to the spokes, for whoever decides where that goes: the kinds that classes list, and the Gateways of
//! which classes.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::eligibility::not_in_role;
use crate::{ClassParams, View};
use policy_sync_api::names::GroupResource;

/// What is taken to the spokes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Covered {
    /// The GatewayClasses whose Gateways are.
    pub classes: BTreeSet<Arc<str>>,
    /// The kinds that any of them lists, and that may be synced as what it lists them as.
    pub kinds: BTreeSet<GroupResource>,
    /// Whether that is all: a class whose parameters cannot be read may list more.
    pub is_whole: bool,
}

/// What is taken to the spokes; `None` before that is known.
#[must_use]
pub fn covered(view: View<'_>) -> Option<Covered> {
    if !view.ready() {
        return None;
    }
    let mut covered = Covered { is_whole: true, ..Covered::default() };
    let ours = view.our_classes().into_keys().map(|class| {
        let params = view.class_params(&class.name);
        covered.is_whole &= matches!(params, Some(ClassParams::Valid(_)));
        (class, params.and_then(|params| params.known().cloned()))
    });
    let ours: Vec<_> = ours.collect();
    // One that may return finds everything as it was.
    let departed = view.departed().map(|(class, _, params)| (class, params.cloned()));
    for (class, params) in ours.into_iter().chain(departed) {
        covered.classes.insert(class.name.clone());
        let listed = params.iter().flat_map(|params| params.all_listed());
        let synced = listed.filter(|(role, gvr)| not_in_role(view, *role, &gvr.kind).is_none());
        covered.kinds.extend(synced.map(|(_, gvr)| gvr.kind));
    }
    Some(covered)
}
