//! Why a Gateway or a policy is on a cluster, or is not. Clusters of which the same is to be said stand together.

mod sentences;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::check::{Check, FailOn};
use super::served::ServedKind;
use super::topology::{ClusterObjects, ClusterQuery, cluster_objects};
use crate::report::snapshot::{self, ReadError};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, ControllerName, ObjectKey, Origin};
use policy_sync_api::object::HubObject;
use policy_sync_api::text::with_causes;
use policy_sync_hub::clock::Clock;
use policy_sync_hub::{HubClient, HubError};
use policy_sync_sync::explain::{self, Explanation, Reason, State, Step, Verdict, When};
use policy_sync_sync::{OfflineMirror, Settings};
use policy_sync_topology::Graph;
use policy_sync_topology::locator::KindRef;
use policy_sync_topology::show::PolicyReport;

pub use sentences::Sentence;

/// What there is to say of an object.
#[derive(Clone, Debug)]
pub struct ObjectExplanation {
    /// The object.
    pub origin: Origin,
    /// Its kind in objects.
    pub kind: String,
    /// What is the same for all clusters, in the order in which it is decided.
    pub steps: Vec<Step>,
    /// The clusters with it in force, then the other clusters that it is for, then the rest.
    pub groups: Vec<Group>,
    /// Whether it is about one cluster that was asked for.
    pub one: bool,
    /// Of a policy: where it is in force on the hub's own graph.
    pub on_hub: Option<PolicyReport>,
}

/// Clusters of which the same is to be said.
#[derive(Clone, Debug)]
pub struct Group {
    /// What, with the earliest moment of all.
    pub verdict: Verdict,
    /// Their names.
    pub clusters: Vec<ClusterName>,
}

/// Why there is no explanation.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The hub cannot be read, or not be planned for.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// There is no such object, or no such cluster.
    #[error(transparent)]
    Hub(#[from] HubError),
}

/// What is to be explained.
#[derive(Clone, Debug)]
pub struct ExplainQuery<'q> {
    /// Whose classes and works count.
    pub controller: &'q ControllerName,
    /// How plans are made.
    pub settings: &'q Settings,
    /// The kind of the object.
    pub kind: &'q ServedKind,
    /// The object.
    pub key: ObjectKey,
    /// The cluster, where it is one alone.
    pub cluster: Option<&'q ClusterName>,
}

/// Explains an object: what the controller would decide is decided by its own plan, of what the hub holds.
///
/// # Errors
///
/// Where there is no such object or cluster, or the hub cannot be read.
pub async fn explain(hub: &HubClient, query: ExplainQuery<'_>) -> Result<ObjectExplanation, ExplainError> {
    let (controller, kind) = (query.controller, query.kind);
    let (explanation, object) = explain_on_clusters(hub, query).await?;
    let is_gateway = explanation.origin.as_gateway().is_some();
    let on_hub = if is_gateway { None } else { on_hub(hub, controller, kind, &object).await };
    Ok(ObjectExplanation { on_hub, ..explanation })
}

impl ExplainError {
    /// Whether the object or the cluster does not exist.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Hub(HubError::Absent { .. }))
    }
}

/// The same without what is said of a policy on the hub's own graph, and the object.
///
/// # Errors
///
/// Those of [`explain()`].
pub async fn explain_on_clusters(
    hub: &HubClient,
    query: ExplainQuery<'_>,
) -> Result<(ObjectExplanation, HubObject), ExplainError> {
    let ExplainQuery { controller, settings, kind, key, cluster } = query;
    let object: Option<HubObject> = hub.get(&kind.gvr, &key, &format!("get {} {key}", kind.kind)).await?;
    let object = object.ok_or_else(|| hub.absent(format!("{} {key}", kind.kind)))?;
    // Of all clusters: what one gets may depend on what others have.
    let found = snapshot::read(hub, controller).await?;
    let origin = Origin::new(kind.gvr.kind.clone(), key);
    // One of a kind that is not synced is explained by what it is.
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
        return Err(hub.absent(format!("ManagedCluster {cluster}")).into());
    }
    Ok((ObjectExplanation::new(origin, &kind.kind, explanation, cluster.is_some()), object))
}

/// Where the policy `object` is in force among what the hub has of routes; `None` where it is no policy.
async fn on_hub(
    hub: &HubClient,
    controller: &ControllerName,
    kind: &ServedKind,
    object: &HubObject,
) -> Option<PolicyReport> {
    let namespace = Some(object.metadata.namespace.as_str());
    let read = cluster_objects(hub, ClusterQuery { controller, namespace, hint: "" }).await;
    // What is said of clusters does not depend on it.
    let (objects, unread) = match read {
        Ok(ClusterObjects { objects, unread, .. }) => (objects, unread),
        Err(error) => {
            let unknown = vec![with_causes(&error)];
            return Some(PolicyReport { unknown, ..PolicyReport::default() });
        }
    };
    let facts = objects.facts();
    let graph = Graph::build(&facts);
    let kind = KindRef { group: &kind.gvr.kind.group, kind: &kind.kind };
    PolicyReport::new(&graph, kind, &object.key(), unread)
}

impl ObjectExplanation {
    pub(crate) fn new(origin: Origin, kind: &str, explanation: Explanation, one: bool) -> Self {
        let mut groups: Vec<Group> = Vec::new();
        // By what is said, without the moments.
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for (cluster, verdict) in explanation.clusters {
            let place = *places.entry(words(&verdict)).or_insert_with(|| {
                groups.push(Group { verdict: verdict.clone(), clusters: Vec::new() });
                groups.len() - 1
            });
            groups[place].take(cluster, &verdict);
        }
        groups.sort_by_key(|group| {
            let state = group.verdict.state;
            (state != State::InSync, !state.is_desired())
        });
        Self { origin, kind: kind.to_owned(), steps: explanation.steps, groups, one, on_hub: None }
    }

    /// Whether it is in force on the requested cluster, or on each cluster that it is for. An overridden policy is not.
    #[must_use]
    pub fn in_sync(&self) -> bool {
        let states = self.groups.iter().map(|group| group.verdict.state);
        let mut asked = states.filter(|state| state.is_desired() || self.one).peekable();
        asked.peek().is_some() && asked.all(|state| state == State::InSync)
    }

    /// The result of the check of [`NotEnforced`](super::FailOn::NotEnforced) on the requested cluster, or on each cluster that it is for.
    #[must_use]
    pub fn check(&self) -> Check {
        let asked = self.groups.iter().filter(|group| group.verdict.state.is_desired() || self.one);
        asked.map(Group::check).max().unwrap_or(Check::Failed)
    }

    /// The clusters on which the state of the policy is not known.
    pub fn unknown(&self) -> impl Iterator<Item = &ClusterName> {
        let groups = self.groups.iter().filter(|group| group.check() == Check::Unknown);
        groups.flat_map(|group| &group.clusters)
    }

    /// On how many clusters it is so.
    #[must_use]
    pub fn count(&self, counts: impl Fn(State) -> bool) -> usize {
        let groups = self.groups.iter().filter(|group| counts(group.verdict.state));
        groups.map(|group| group.clusters.len()).sum()
    }

    /// The report for programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let step = |step: &Step| {
            let mut value = reason(&step.reason);
            value["passes"] = step.passes.into();
            value
        };
        let group = |group: &Group| {
            let Verdict { state, policy_state, reasons, .. } = &group.verdict;
            json!({
                "state": policy_state,
                "desired": state.is_desired(), "present": state.is_present(), "inSync": *state == State::InSync,
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

impl Group {
    fn check(&self) -> Check {
        match (self.verdict.state, self.verdict.policy_state) {
            (state, Some(policy_state)) if state.is_desired() => FailOn::default().of_state(policy_state),
            (State::InSync, None) => Check::Passed,
            _ => Check::Failed,
        }
    }

    /// Takes in a cluster of which the same is to be said, since or until whenever: the earliest moment counts.
    fn take(&mut self, cluster: ClusterName, verdict: &Verdict) {
        for (reason, other) in self.verdict.reasons.iter_mut().zip(&verdict.reasons) {
            reason.when = reason.when.into_iter().chain(other.when).min();
        }
        self.clusters.push(cluster);
    }
}

/// All that is said of a cluster, but since when.
fn words(verdict: &Verdict) -> String {
    let mut verdict = verdict.clone();
    verdict.reasons.iter_mut().for_each(|reason| reason.when = None);
    format!("{verdict:?}")
}

fn reason(reason: &Reason) -> Value {
    let moment = |of: fn(When) -> Option<Moment>| reason.when.and_then(of).map(Moment::rfc3339);
    json!({
        "reason": reason.code,
        "text": reason.text,
        "since": moment(|when| if let When::Since(moment) = when { Some(moment) } else { None }),
        "until": moment(|when| if let When::Until(moment) = when { Some(moment) } else { None }),
        "change": reason.change,
    })
}
