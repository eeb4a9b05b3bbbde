//! Explains why a Gateway or a policy is or is not on a cluster. Clusters with the same result are grouped.

mod sentences;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::check::{Check, FailOn};
use super::served::ServedKind;
use super::topology::{ClusterObjects, ClusterQuery, cluster_objects};
use crate::snapshot::{self, ReadError};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, ControllerName, ObjectKey, Origin};
use policy_sync_api::object::HubObject;
use policy_sync_api::text::with_causes;
use policy_sync_hub::clock::Clock;
use policy_sync_hub::{HubClient, HubError};
use policy_sync_sync::explain::{
    self, ClusterVerdict, CopyState, DecisionStep, Explanation, Reason, TimeBound,
};
use policy_sync_sync::{OfflineMirror, Settings};
use policy_sync_topology::Graph;
use policy_sync_topology::locator::KindRef;
use policy_sync_topology::show::PolicyReport;

pub use sentences::Sentence;

/// The explanation of one object.
#[derive(Clone, Debug)]
pub struct ObjectExplanation {
    /// The object.
    pub origin: Origin,
    /// The object's `kind`.
    pub kind: String,
    /// The decisions that apply to all clusters, in evaluation order.
    pub steps: Vec<DecisionStep>,
    /// First the clusters on which the object is in force, then the other clusters that it is planned for, then the
    /// rest.
    pub groups: Vec<VerdictGroup>,
    /// Whether the query named one cluster.
    pub is_one_cluster: bool,
    /// Where a policy is in force on the hub's own routes; `None` for a Gateway.
    pub on_hub: Option<PolicyReport>,
}

/// Clusters with the same result.
#[derive(Clone, Debug)]
pub struct VerdictGroup {
    /// The result. If the time of a reason differs between the clusters, the earliest time is given.
    pub verdict: ClusterVerdict,
    /// The names of the clusters.
    pub clusters: Vec<ClusterName>,
}

/// Why no explanation could be made.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The hub cannot be read, or no plan can be made.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The object or the cluster does not exist.
    #[error(transparent)]
    Hub(#[from] HubError),
}

/// The parameters of [`explain()`].
#[derive(Clone, Debug)]
pub struct ExplainQuery<'q> {
    /// The controller whose GatewayClasses and works are considered.
    pub controller: &'q ControllerName,
    /// The settings of the controller on which plans depend.
    pub settings: &'q Settings,
    /// The kind of the object.
    pub kind: &'q ServedKind,
    /// The object's namespace and name.
    pub key: ObjectKey,
    /// Restricts the explanation to one cluster.
    pub cluster: Option<&'q ClusterName>,
}

/// Explains an object with the controller's own planning code, run on the state of the hub.
///
/// # Errors
///
/// If the object or the cluster does not exist, or the hub cannot be read.
pub async fn explain(hub: &HubClient, query: ExplainQuery<'_>) -> Result<ObjectExplanation, ExplainError> {
    let (controller, kind) = (query.controller, query.kind);
    let (explanation, object) = explain_on_clusters(hub, query).await?;
    let is_gateway = explanation.origin.as_gateway().is_some();
    let on_hub = if is_gateway { None } else { on_hub(hub, controller, kind, &object).await };
    Ok(ObjectExplanation { on_hub, ..explanation })
}

impl ExplainError {
    /// Whether the error is that the object or the cluster does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Hub(HubError::Absent { .. }))
    }
}

/// Explains an object without its state on the hub's own routes. Also returns the object.
///
/// # Errors
///
/// The errors of [`explain()`].
pub async fn explain_on_clusters(
    hub: &HubClient,
    query: ExplainQuery<'_>,
) -> Result<(ObjectExplanation, HubObject), ExplainError> {
    let ExplainQuery { controller, settings, kind, key, cluster } = query;
    let object: Option<HubObject> = hub.get(&kind.gvr, &key, &format!("get {} {key}", kind.kind)).await?;
    let object = object.ok_or_else(|| hub.not_found(format!("{} {key}", kind.kind)))?;
    // Reads all clusters, because the plan for one cluster may depend on others.
    let found = snapshot::read(hub, controller).await?;
    let origin = Origin::new(kind.gvr.kind.clone(), key);
    // The mirror has no objects of a kind that is not synced, so the explained object is added to the mirror.
    let (source, is_known) = {
        let guard = found.mirror.read();
        let view = guard.view(OfflineMirror::settled(Clock::start().now()));
        let source = view.source_of(origin.kind());
        let is_known = view.synced(&source).is_some();
        (source, is_known)
    };
    if !is_known && origin.as_gateway().is_none() {
        found.mirror.list(&source, [&object], Clock::start().now());
    }
    let explanation = {
        let guard = found.mirror.read();
        let view = guard.view(Clock::start().now());
        explain::explain_on(view, settings, (&origin, &kind.kind), &found.unavailable, cluster)
    };
    if let Some(cluster) = cluster.filter(|_| explanation.clusters.is_empty()) {
        return Err(hub.not_found(format!("ManagedCluster {cluster}")).into());
    }
    Ok((ObjectExplanation::new(origin, &kind.kind, explanation, cluster.is_some()), object))
}

/// Where the policy `object` is in force among the routes on the hub; `None` if `object` is no policy.
async fn on_hub(
    hub: &HubClient,
    controller: &ControllerName,
    kind: &ServedKind,
    object: &HubObject,
) -> Option<PolicyReport> {
    let namespace = Some(object.metadata.namespace.as_str());
    let read = cluster_objects(hub, ClusterQuery { controller, namespace, hint: "" }).await;
    // Without the hub's routes, the explanation of clusters is still correct. So an error while reading them becomes a
    // line of the report.
    let (objects, unread) = match read {
        Ok(ClusterObjects { objects, unread, .. }) => (objects, unread),
        Err(error) => {
            let unknown = vec![with_causes(&error)];
            return Some(PolicyReport { unknown, ..PolicyReport::default() });
        }
    };
    let graph_input = objects.graph_input();
    let graph = Graph::build(&graph_input);
    let kind = KindRef { group: &kind.gvr.kind.group, kind: &kind.kind };
    PolicyReport::new(&graph, kind, &object.key(), unread)
}

impl ObjectExplanation {
    /// Creates the explanation of `origin`. `is_one_cluster` is set if the query named one cluster.
    #[must_use]
    pub fn new(origin: Origin, kind: &str, explanation: Explanation, is_one_cluster: bool) -> Self {
        let mut groups: Vec<VerdictGroup> = Vec::new();
        // Groups clusters whose results are equal except for the times of reasons.
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for (cluster, verdict) in explanation.clusters {
            let place = *places.entry(group_key(&verdict)).or_insert_with(|| {
                groups.push(VerdictGroup { verdict: verdict.clone(), clusters: Vec::new() });
                groups.len() - 1
            });
            groups[place].take(cluster, &verdict);
        }
        groups.sort_by_key(|group| {
            let state = group.verdict.state;
            (state != CopyState::InSync, !state.is_desired())
        });
        Self { origin, kind: kind.to_owned(), steps: explanation.steps, groups, is_one_cluster, on_hub: None }
    }

    /// Whether the object is in force on the requested cluster, or on all clusters that it is planned for. An
    /// overridden policy is not in force.
    #[must_use]
    pub fn in_sync(&self) -> bool {
        let states = self.groups.iter().map(|group| group.verdict.state);
        let mut selected = states.filter(|state| state.is_desired() || self.is_one_cluster).peekable();
        selected.peek().is_some() && selected.all(|state| state == CopyState::InSync)
    }

    /// The result of a check with [`NotEnforced`](super::FailOn::NotEnforced) on the requested cluster, or on
    /// all clusters it is planned for.
    #[must_use]
    pub fn check(&self) -> Check {
        let selected =
            self.groups.iter().filter(|group| group.verdict.state.is_desired() || self.is_one_cluster);
        selected.map(VerdictGroup::check).max().unwrap_or(Check::Failed)
    }

    /// The clusters on which the policy's state is unknown.
    pub fn unknown(&self) -> impl Iterator<Item = &ClusterName> {
        let groups = self.groups.iter().filter(|group| group.check() == Check::Unknown);
        groups.flat_map(|group| &group.clusters)
    }

    /// The number of clusters whose state satisfies `counts`.
    #[must_use]
    pub fn count(&self, counts: impl Fn(CopyState) -> bool) -> usize {
        let groups = self.groups.iter().filter(|group| counts(group.verdict.state));
        groups.map(|group| group.clusters.len()).sum()
    }

    /// The explanation as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        let step = |step: &DecisionStep| {
            let mut value = reason(&step.reason);
            value["passes"] = step.passes.into();
            value
        };
        let group = |group: &VerdictGroup| {
            let ClusterVerdict { state, policy_state, reasons, .. } = &group.verdict;
            json!({
                "state": policy_state,
                "desired": state.is_desired(), "present": state.is_present(), "inSync": *state == CopyState::InSync,
                "reasons": reasons.iter().map(reason).collect::<Vec<_>>(),
                "clusters": group.clusters,
            })
        };
        let mut json = json!({
            "kind": self.kind,
            "resource": self.origin.kind().to_string(),
            "namespace": self.origin.object().namespace,
            "name": self.origin.object().name,
            "inSync": self.in_sync(),
            "steps": self.steps.iter().map(step).collect::<Vec<_>>(),
            "groups": self.groups.iter().map(group).collect::<Vec<_>>(),
        });
        if let Some(on_hub) = &self.on_hub {
            json["onHub"] = json!(on_hub);
        }
        json
    }
}

impl VerdictGroup {
    fn check(&self) -> Check {
        match (self.verdict.state, self.verdict.policy_state) {
            (state, Some(policy_state)) if state.is_desired() => FailOn::default().check_state(policy_state),
            (CopyState::InSync, None) => Check::Passed,
            _ => Check::Failed,
        }
    }

    /// Adds a cluster with the same result to the group. Each reason keeps its earliest time.
    fn take(&mut self, cluster: ClusterName, verdict: &ClusterVerdict) {
        for (reason, other) in self.verdict.reasons.iter_mut().zip(&verdict.reasons) {
            reason.when = reason.when.into_iter().chain(other.when).min();
        }
        self.clusters.push(cluster);
    }
}

/// The verdict without the times of its reasons, as a key for grouping.
fn group_key(verdict: &ClusterVerdict) -> String {
    let mut verdict = verdict.clone();
    verdict.reasons.iter_mut().for_each(|reason| reason.when = None);
    format!("{verdict:?}")
}

fn reason(reason: &Reason) -> Value {
    let moment = |of: fn(TimeBound) -> Option<Moment>| reason.when.and_then(of).map(Moment::rfc3339);
    json!({
        "reason": reason.code,
        "text": reason.text,
        "since": moment(|when| if let TimeBound::Since(moment) = when { Some(moment) } else { None }),
        "until": moment(|when| if let TimeBound::Until(moment) = when { Some(moment) } else { None }),
        "change": reason.change,
    })
}
