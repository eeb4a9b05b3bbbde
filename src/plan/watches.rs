//! Which ConfigMaps and which kinds of policies to watch: the union of what all classes of ours want.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::names::{GroupVersionResource, ObjectKey};
use crate::mirror::{PolicyKind, View};

/// What to watch beside the fixed kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// ConfigMaps with parameters.
    pub config_maps: BTreeSet<ObjectKey>,
    /// Kinds of policies, each in one version.
    pub kinds: BTreeMap<PolicyKind, GroupVersionResource>,
}

/// Plans the watches. A kind that only invalid parameters used to list is watched on.
#[must_use]
pub fn plan(view: View<'_>) -> Wanted {
    let mut wanted = Wanted::default();
    for (name, class) in view.our_classes() {
        wanted.config_maps.extend(class.config_map().ok().flatten());
        let Some(params) = view.class_params(&name.name) else { continue };
        for policy in params.known().into_iter().flat_map(|params| &params.policies_to_sync) {
            let gvr = policy.gvr();
            let version = wanted.kinds.entry(gvr.kind.clone()).or_insert_with(|| gvr.clone());
            // Where classes disagree, the choice must not depend on their order.
            if gvr < *version {
                *version = gvr;
            }
        }
    }
    wanted
}
