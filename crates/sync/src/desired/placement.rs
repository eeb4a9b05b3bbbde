//! Determines the clusters on which a Gateway is placed.
//!
//! OCM's placement controller writes the decisions of a Placement one PlacementDecision at a time, so a selected
//! cluster can be missing for a moment. A cluster that is added counts as selected at once. A removed cluster counts as
//! removed only if the decisions contain as many clusters as the status of the Placement reports. In addition, the
//! decisions and this number must not have changed for [`PLACEMENT_SETTLE_TIME`](crate::PLACEMENT_SETTLE_TIME). Until
//! then, the Placement is *unsettled*. Other changes to the Placement delay nothing. The Gateway's own annotations can
//! limit the selected clusters.
//!
//! On a removed cluster the Gateway keeps serving for its grace period and counts as placed. The start of the grace
//! period is stored on the work. Each cluster therefore has its own period, and a restart does not reset it. Since the
//! spoke's agent may change the work, observations of this process take precedence.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use crate::rows::gateway::Gateway;
use crate::{Problem, View};
use policy_sync_api::annotations::GRACE_TIMEOUT;
use policy_sync_api::cluster::PLACEMENT_LABEL;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, ObjectKey, Origin};
use policy_sync_api::params::Params;
use policy_sync_api::selector::ClusterSelector;
use policy_sync_api::text::escaped_excerpt;

/// The placement of a Gateway.
#[derive(Clone, Debug, Default)]
pub(crate) struct Placed {
    /// The clusters of the Gateway, including those where its grace period is running.
    pub(crate) clusters: BTreeSet<ClusterName>,
    /// The clusters where the Gateway's grace period is running, each with the start of that period.
    pub(crate) unplaced: BTreeMap<ClusterName, Moment>,
    /// The clusters in the decisions that the Gateway's annotations do not select.
    pub(crate) deselected: BTreeSet<ClusterName>,
    /// Whether the Placement is unsettled. If so, works on other clusters are kept, because the Placement may still
    /// select these clusters.
    pub(crate) unsettled: bool,
    /// When the placement may change because time has passed.
    pub(crate) settles: Option<Moment>,
}

/// The default grace period, in seconds.
const GRACE: u64 = 600;
/// The maximum grace period that an annotation can request, in seconds: one year.
const LONGEST_GRACE: u64 = 365 * 24 * 60 * 60;

/// The grace period of `gateway`, limited by its class, and the problem with its annotation, if any.
pub(super) fn grace(view: View<'_>, gateway: &Gateway) -> (Duration, Option<Problem>) {
    let longest =
        view.class_params(&gateway.class).and_then(|params| Some(params.known()?.max_grace_seconds));
    let longest = u64::from(longest.unwrap_or_else(|| Params::default().max_grace_seconds));
    let (seconds, problem) = match gateway.annotations.get(GRACE_TIMEOUT).map(|text| (text, seconds(text))) {
        None => (GRACE.min(longest), None),
        Some((_, Some(requested))) if requested <= longest => (requested, None),
        Some((_, Some(requested))) => {
            let class = gateway.class.to_string();
            (longest, Some(Problem::GraceTooLong { requested, class, used: longest }))
        }
        Some((text, None)) => {
            let used = GRACE.min(longest);
            (used, Some(Problem::BadGraceTimeout { found: escaped_excerpt(text), used }))
        }
    };
    (Duration::from_secs(seconds), problem)
}

fn seconds(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|seconds| digits && *seconds <= LONGEST_GRACE)
}

/// The end of the grace period of `gateway` on a cluster that its Placement has not selected since `since`.
pub(crate) fn serves_until(view: View<'_>, gateway: &Gateway, since: Moment) -> Moment {
    since.after(grace(view, gateway).0)
}

/// The placement of the Gateway `key`.
pub(crate) fn placed(view: View<'_>, key: &ObjectKey) -> Placed {
    let Some(gateway) = view.gateway(key) else { return Placed::default() };
    let mut placed = gateway
        .placement()
        .map_or_else(Placed::default, |name| decided(view, &ObjectKey::new(&key.namespace, name)));
    // A Gateway whose class was deleted is frozen only as long as the class may be created again.
    placed.settles = Moment::earliest(placed.settles, view.class_deletion_ends(&gateway.class));
    let (grace, _) = grace(view, gateway);
    let settled =
        gateway.placement().and_then(|name| view.placement_settles(&ObjectKey::new(&key.namespace, name)));
    let origin = Origin::Gateway(key.clone());
    placed.select(view, &origin, gateway);
    let works = view.works_of(&origin).filter(|(_, _, work)| work.deleting.is_none());
    for (name, cluster, work) in works {
        if !placed.clusters.contains(cluster) {
            let seen = view.unplaced_record(name, cluster);
            let left = seen.since.map(|left| left.max(settled.unwrap_or_default()));
            let began = Moment::earliest(seen.earliest_mark, left.filter(|_| !placed.unsettled));
            placed.serves_on(view, cluster, began.or(work.unplaced), grace);
        }
    }
    placed
}

impl Placed {
    /// Removes the clusters that the annotations of `gateway` do not select. `origin` identifies the Gateway. If the
    /// annotations are invalid, only clusters with a work remain.
    fn select(&mut self, view: View<'_>, origin: &Origin, gateway: &Gateway) {
        let selects: &dyn Fn(&ClusterName) -> bool = match ClusterSelector::read(&gateway.annotations) {
            Ok(None) => return,
            Ok(Some(selector)) => &move |cluster| view.selects(&selector, origin, cluster),
            Err(_) => &|cluster| view.work_of(origin, cluster).is_some(),
        };
        let (clusters, deselected) = std::mem::take(&mut self.clusters).into_iter().partition(selects);
        (self.clusters, self.deselected) = (clusters, deselected);
    }

    /// Adds a cluster that the Placement does not select but that has a work of the Gateway, if its grace period is
    /// running there.
    fn serves_on(
        &mut self,
        view: View<'_>,
        cluster: &ClusterName,
        unplaced: Option<Moment>,
        grace: Duration,
    ) {
        if self.unsettled {
            // While the decisions are unsettled, no grace period begins or ends.
            self.clusters.insert(cluster.clone());
            self.unplaced.extend(unplaced.map(|since| (cluster.clone(), since)));
            return;
        }
        // The spoke's agent may have written a moment in the future.
        let since = unplaced.unwrap_or(view.now).min(view.now);
        let ends = since.after(grace);
        if view.cluster(cluster).is_some_and(|cluster| !cluster.deleting) && ends > view.now {
            self.clusters.insert(cluster.clone());
            self.unplaced.insert(cluster.clone(), since);
            self.settles = Moment::earliest(self.settles, Some(ends));
        }
    }
}

/// The reason why no Placement selects clusters for a Gateway or resource. Displayed as the end of a sentence about
/// the object.
pub(crate) enum NoPlacement {
    /// The object has no Placement label.
    Unlabelled,
    /// The Placement label of the object is empty.
    Unnamed,
    /// The Placement that the label names does not exist.
    Missing(ObjectKey),
}

impl fmt::Display for NoPlacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlabelled => write!(f, "has no label {PLACEMENT_LABEL}"),
            Self::Unnamed => write!(f, "has an empty label {PLACEMENT_LABEL}"),
            Self::Missing(placement) => write!(f, "names Placement {placement}, which does not exist"),
        }
    }
}

/// The Placement that selects the clusters of the Gateway `key`.
///
/// # Errors
///
/// The reason why no Placement selects the clusters of the Gateway.
pub(crate) fn placement(view: View<'_>, key: &ObjectKey) -> Result<ObjectKey, NoPlacement> {
    let gateway = view.gateway(key).ok_or(NoPlacement::Unlabelled)?;
    let name = gateway.placement().ok_or_else(|| match gateway.labels.get(PLACEMENT_LABEL) {
        Some(_) => NoPlacement::Unnamed,
        None => NoPlacement::Unlabelled,
    })?;
    let placement = ObjectKey::new(&key.namespace, name);
    // The decisions of a deleted Placement remain for a moment.
    let exists = view.placement(&placement).is_some() || !view.decided(&placement).is_empty();
    if exists { Ok(placement) } else { Err(NoPlacement::Missing(placement)) }
}

/// The placement according to the decisions of a Placement, before cluster selectors and grace periods.
pub(super) fn decided(view: View<'_>, placement: &ObjectKey) -> Placed {
    let clusters = view.decided(placement);
    let expected = view.placement(placement).map(|placement| placement.selected);
    let complete = expected.is_none_or(|expected| clusters.len() >= expected);
    let settles = view.placement_settles(placement);
    let settled = complete && settles.is_some_and(|settles| settles <= view.now);
    Placed {
        clusters,
        unplaced: BTreeMap::new(),
        deselected: BTreeSet::new(),
        unsettled: !settled,
        settles: settles.filter(|settles| complete && *settles > view.now),
    }
}
