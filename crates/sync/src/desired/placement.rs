//! Which clusters a Gateway is placed on.
//!
//! A Placement's decisions are slices that its controller rewrites one at a time, so a cluster can be missing for a
//! moment although it is chosen. One that appears counts at once; one that disappears counts as gone only when the
//! decisions are as many as the Placement says and neither that number nor they have changed for a while. Whoever
//! writes anything else of the Placement delays nothing. Of what is chosen, the Gateway's own annotations may select some.
//!
//! From then on the Gateway serves on there for a grace, and counts as placed. When that began stands on its work, so
//! that each cluster has a clock of its own, which a restart does not set back. The spoke's agent may write there, so what
//! this process has seen counts before what stands there now.

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
use policy_sync_api::text::plain_excerpt;

/// Where a Gateway is placed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Placed {
    /// Its clusters, those where it only serves on included.
    pub(crate) clusters: BTreeSet<ClusterName>,
    /// Those where it only serves on, and since when.
    pub(crate) unplaced: BTreeMap<ClusterName, Moment>,
    /// The clusters that are chosen, and that its annotations do not select.
    pub(crate) deselected: BTreeSet<ClusterName>,
    /// Whether a cluster that is not among them may still be: its works stay.
    pub(crate) unsettled: bool,
    /// When time alone changes it.
    pub(crate) settles: Option<Moment>,
}

/// How long a Gateway serves on where its owner says nothing, in seconds.
const GRACE: u64 = 600;
/// The longest grace that can be asked for, in seconds: a year.
const LONGEST_GRACE: u64 = 365 * 24 * 60 * 60;

/// How long `gateway` serves on where it is no longer placed, and what is wrong with what its owner says of it. Its class
/// has the last word.
pub(super) fn grace(view: View<'_>, gateway: &Gateway) -> (Duration, Option<Problem>) {
    let longest =
        view.class_params(&gateway.class).and_then(|params| Some(params.known()?.max_grace_seconds));
    let longest = u64::from(longest.unwrap_or_else(|| Params::default().max_grace_seconds));
    let (seconds, problem) = match gateway.annotations.get(GRACE_TIMEOUT).map(|text| (text, seconds(text))) {
        None => (GRACE.min(longest), None),
        Some((_, Some(asked))) if asked <= longest => (asked, None),
        Some((_, Some(asked))) => {
            let class = gateway.class.to_string();
            (longest, Some(Problem::GraceTooLong { asked, class, used: longest }))
        }
        Some((text, None)) => {
            let used = GRACE.min(longest);
            (used, Some(Problem::BadGraceTimeout { found: plain_excerpt(text), used }))
        }
    };
    (Duration::from_secs(seconds), problem)
}

fn seconds(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|seconds| digits && *seconds <= LONGEST_GRACE)
}

/// Until when `gateway` serves on where it is not chosen since `since`.
pub(crate) fn serves_until(view: View<'_>, gateway: &Gateway, since: Moment) -> Moment {
    since.after(grace(view, gateway).0)
}

/// Where the Gateway `key` is placed.
pub(crate) fn placed(view: View<'_>, key: &ObjectKey) -> Placed {
    let Some(gateway) = view.gateway(key) else { return Placed::default() };
    let mut placed = gateway
        .placement()
        .map_or_else(Placed::default, |name| decided(view, &ObjectKey::new(&key.namespace, name)));
    // What is frozen while its class may return is not for longer.
    placed.settles = Moment::earliest(placed.settles, view.class_returns(&gateway.class));
    let (grace, _) = grace(view, gateway);
    let settled =
        gateway.placement().and_then(|name| view.placement_settles(&ObjectKey::new(&key.namespace, name)));
    let origin = Origin::Gateway(key.clone());
    placed.select(view, &origin, gateway);
    let works = view.works_of(&origin).filter(|(_, _, work)| work.deleting.is_none());
    for (name, cluster, work) in works {
        if !placed.clusters.contains(cluster) {
            let seen = view.displacement(name, cluster);
            let left = seen.left.map(|left| left.max(settled.unwrap_or_default()));
            let began = Moment::earliest(seen.began, left.filter(|_| !placed.unsettled));
            placed.serves_on(view, cluster, began.or(work.unplaced), grace);
        }
    }
    placed
}

impl Placed {
    /// Leaves out what the annotations of `gateway`, which is `origin`, do not select. Where they cannot be read, what is there
    /// was selected.
    fn select(&mut self, view: View<'_>, origin: &Origin, gateway: &Gateway) {
        let selects: &dyn Fn(&ClusterName) -> bool = match ClusterSelector::read(&gateway.annotations) {
            Ok(None) => return,
            Ok(Some(selector)) => &move |cluster| view.selects(&selector, origin, cluster),
            Err(_) => &|cluster| view.work_of(origin, cluster).is_some(),
        };
        let (clusters, deselected) = std::mem::take(&mut self.clusters).into_iter().partition(selects);
        (self.clusters, self.deselected) = (clusters, deselected);
    }

    /// Takes in a cluster that is not chosen, but has a work of the Gateway.
    fn serves_on(
        &mut self,
        view: View<'_>,
        cluster: &ClusterName,
        unplaced: Option<Moment>,
        grace: Duration,
    ) {
        if self.unsettled {
            // Nothing begins and nothing ends.
            self.clusters.insert(cluster.clone());
            self.unplaced.extend(unplaced.map(|since| (cluster.clone(), since)));
            return;
        }
        // The spoke's agent may have written any moment.
        let since = unplaced.unwrap_or(view.now).min(view.now);
        let ends = since.after(grace);
        if view.cluster(cluster).is_some_and(|cluster| !cluster.deleting) && ends > view.now {
            self.clusters.insert(cluster.clone());
            self.unplaced.insert(cluster.clone(), since);
            self.settles = Moment::earliest(self.settles, Some(ends));
        }
    }
}

/// Why no Placement can choose clusters for a Gateway or a resource; as text, what that does.
pub(crate) enum NoPlacement {
    /// It names none.
    Unlabelled,
    /// The label that names it is empty.
    Unnamed,
    /// It names one that does not exist.
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

/// The Placement that chooses the clusters of the Gateway `key`.
///
/// # Errors
///
/// Why there is none.
pub(crate) fn placement(view: View<'_>, key: &ObjectKey) -> Result<ObjectKey, NoPlacement> {
    let gateway = view.gateway(key).ok_or(NoPlacement::Unlabelled)?;
    let name = gateway.placement().ok_or_else(|| match gateway.labels.get(PLACEMENT_LABEL) {
        Some(_) => NoPlacement::Unnamed,
        None => NoPlacement::Unlabelled,
    })?;
    let placement = ObjectKey::new(&key.namespace, name);
    // Its decisions are there for a moment longer.
    let exists = view.placement(&placement).is_some() || !view.decided(&placement).is_empty();
    if exists { Ok(placement) } else { Err(NoPlacement::Missing(placement)) }
}

/// Where a Placement places.
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
