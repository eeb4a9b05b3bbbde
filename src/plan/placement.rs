//! Which clusters a Gateway is placed on.
//!
//! A Placement's decisions are slices that its controller rewrites one at a time, so a cluster can be missing for a
//! moment although it is chosen. One that appears counts at once; one that disappears counts as gone only when the
//! decisions are as many as the Placement says and nothing of it has changed for a while.

use std::collections::BTreeSet;

use crate::api::names::{ClusterName, ObjectKey, Parent};
use crate::mirror::{Moment, View};

/// Where a Gateway is placed.
#[derive(Clone, Debug, Default)]
pub(super) struct Placed {
    /// Its clusters.
    pub(super) clusters: BTreeSet<ClusterName>,
    /// Whether a cluster that is not among them may still be: its works stay.
    pub(super) unsettled: bool,
    /// When time alone settles it.
    pub(super) settles: Option<Moment>,
}

/// Where the Gateway `key` is placed.
pub(super) fn placed(view: View<'_>, key: &ObjectKey) -> Placed {
    let Some(placement) = view.gateway(key).and_then(|gateway| gateway.placement()) else {
        return Placed::default();
    };
    let placement = ObjectKey::new(&key.namespace, placement);
    let mut clusters = view.decided(&placement);
    let expected = view.placement(&placement).map(|placement| placement.selected);
    let complete = expected.is_none_or(|expected| clusters.len() >= expected);
    let settles = view.placement_settles(&placement);
    let settled = complete && settles.is_some_and(|settles| settles <= view.now);
    if !settled {
        let parent = Parent::gateway(key.clone());
        let works = view.works_of(&parent);
        clusters.extend(
            works.filter(|(_, _, work)| work.deleting.is_none()).map(|(_, cluster, _)| cluster.clone()),
        );
    }
    Placed {
        clusters,
        unsettled: !settled,
        settles: settles.filter(|settles| complete && *settles > view.now),
    }
}
