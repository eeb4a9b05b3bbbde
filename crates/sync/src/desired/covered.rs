//! Determines the scope of this controller for the placement policies: the GatewayClasses whose Gateways it copies to
//! spokes, and the kinds that these classes list.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::eligibility::not_in_role;
use crate::{ClassParams, View};
use policy_sync_api::names::GroupResource;

/// The scope of this controller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControllerScope {
    /// The GatewayClasses whose Gateways are copied.
    pub classes: BTreeSet<Arc<str>>,
    /// The kinds that any of these classes lists, if they can be synced in the listed role.
    pub kinds: BTreeSet<GroupResource>,
    /// Whether the scope is complete. It is incomplete if the parameters of a class are invalid or unread, because they
    /// may list more kinds.
    pub is_whole: bool,
}

/// The current scope; `None` before it is known.
#[must_use]
pub fn covered(view: View<'_>) -> Option<ControllerScope> {
    if !view.ready() {
        return None;
    }
    let mut covered = ControllerScope { is_whole: true, ..ControllerScope::default() };
    let ours = view.our_classes().into_keys().map(|class| {
        let params = view.class_params(&class.name);
        covered.is_whole &= matches!(params, Some(ClassParams::Valid(_)));
        (class, params.and_then(|params| params.known().cloned()))
    });
    let ours: Vec<_> = ours.collect();
    // Deleted classes stay in scope as long as they may be created again.
    let deleted_classes = view.deleted_classes().map(|(class, _, params)| (class, params.cloned()));
    for (class, params) in ours.into_iter().chain(deleted_classes) {
        covered.classes.insert(class.name.clone());
        let listed = params.iter().flat_map(|params| params.all_listed());
        let synced = listed.filter(|(role, gvr)| not_in_role(view, *role, &gvr.kind).is_none());
        covered.kinds.extend(synced.map(|(_, gvr)| gvr.kind));
    }
    Some(covered)
}
