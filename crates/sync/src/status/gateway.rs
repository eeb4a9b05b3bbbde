//! The *fold* of a Gateway: aggregates the reports of its clusters in the status of the hub Gateway. Lists the clusters
//! in labels and an annotation of the Gateway.
//!
//! ```text
//! works, reports ──▶ state of each cluster ──▶ Programmed    True only if every cluster is programmed
//!                                          └─▶ items         addresses and listeners, within the API's limits
//! clusters ──▶ metadata
//! ```
//!
//! A cluster without a report for the current revision is named as pending. Its addresses and listeners stay as last
//! reported, because they still receive traffic. Its reported conditions no longer count.

mod items;
mod metadata;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::contest::Contest;
use super::reason::{GatewayAccepted, GatewayProgrammed};
use super::sync_state::SyncState;
use super::{Notice, NoticeReason, notice, report};
use crate::desired::eligibility::of_gateway;
use crate::desired::placement::{NoPlacement, placement};
use crate::desired::{Outcome, WaitReason, WorksPlan, plan_works};
use crate::diff::{Diff, WorkAction};
use crate::feedback::AgentReport;
use crate::rows::gateway::Gateway;
use crate::rows::work::Work;
use crate::{Problem, Settings, View, diff};
use policy_sync_api::condition::condition;
use policy_sync_api::gateway::GatewayStatus;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, ObjectKey, Origin};
use policy_sync_api::text::{join_limited, truncate_bytes};

pub use metadata::Metadata;

/// The maximum length of one cluster's text in a message, in bytes.
const TEXT_LIMIT: usize = 512;
/// The maximum length of the message of an Event, in bytes.
const NOTE_LIMIT: usize = 1024;
/// The maximum length of a condition's message, in bytes. The API counts characters.
const MESSAGE_LIMIT: usize = 32 * 1024;

/// The changes to make to a Gateway's metadata and status.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GatewayFold {
    /// The uid of the Gateway for which this fold was planned.
    pub uid: Arc<str>,
    /// All labels and annotations that this controller owns. `None` if these labels and annotations are up to date.
    pub metadata: Option<Metadata>,
    /// Set if other Policy Sync controllers own some of these labels and annotations. Contains these controllers, and
    /// the metadata to write if this controller loses the contest.
    pub contest: Option<(Contest, Option<Metadata>)>,
    /// The part of the status that this controller owns. `None` if this part is up to date.
    pub status: Option<GatewayStatus>,
    /// The conditions to keep if the Gateway no longer belongs to this controller.
    pub final_conditions: Option<Vec<Condition>>,
    /// The Events to record.
    pub notices: Vec<Notice>,
    /// The state for the metrics. `None` if the Gateway does not belong to this controller.
    pub sync_state: Option<SyncState>,
    /// When the status changes because time has passed.
    pub recheck: Option<Moment>,
    /// Whether to plan the works of the Gateway: a wait for its policies has ended, or has taken as long as its class
    /// allows.
    pub replan_works: bool,
    /// When the plan of the Gateway's works changes because time has passed.
    pub works_recheck: Option<Moment>,
}

/// Plans the metadata and status of the Gateway `key`. Empty if the Gateway is gone, terminating or not known yet.
#[must_use]
pub fn plan(view: View<'_>, settings: &Settings, key: &ObjectKey) -> GatewayFold {
    let Some(gateway) = view.gateway(key).filter(|gateway| !gateway.deleting) else {
        return GatewayFold::default();
    };
    let uid = gateway.uid.clone();
    if !of_gateway(view, key).is_ours() {
        let metadata = metadata::without_ours(&gateway.fields);
        let final_conditions = final_conditions(view, gateway);
        return GatewayFold { uid, metadata, final_conditions, ..GatewayFold::default() };
    }
    let origin = Origin::Gateway(key.clone());
    let works = plan_works(view, settings, &origin);
    let works_recheck = works.recheck;
    if works.problems.iter().any(Problem::passes) {
        let sync_state = Some(SyncState::UNKNOWN);
        return GatewayFold { sync_state, recheck: works_recheck, works_recheck, ..GatewayFold::default() };
    }
    let (metadata, left_out) = metadata::planned(view, gateway, &works);
    let (others, owns) = (&gateway.fields.owners.others, !gateway.fields.owners.ours.is_empty());
    let contest = (!others.is_empty() && (metadata.is_some() || owns))
        .then(|| (Contest::new(view, &origin, others), owns.then(Metadata::default)));
    let Diff { actions, problems, .. } = diff::works(view, &origin, &works);
    let replan_works =
        works.is_overdue() || actions.iter().any(|action| matches!(action, WorkAction::Create { .. }));
    let clusters = clusters(view, &origin, &works);
    let placement = placement(view, key);
    let (undeleted_clusters, next) = notice::undeleted_clusters(view, &origin);
    let builder = StatusBuilder {
        now: view.now,
        gateway,
        works: &works,
        placement,
        problems,
        clusters,
        undeleted_clusters,
    };
    let status = builder.status(&left_out);
    let notices = builder.notices(&status);
    let sync_state = Some(SyncState::of_gateway(view, &origin, &works, &status));
    let status = (status != gateway.fields.status).then_some(status);
    let recheck = Moment::earliest(works_recheck, next);
    GatewayFold {
        uid,
        metadata,
        contest,
        status,
        final_conditions: None,
        notices,
        sync_state,
        recheck,
        replan_works,
        works_recheck,
    }
}

/// The conditions to keep on a Gateway that no longer belongs to this controller. If its class is gone, the state of
/// `Programmed` is unknown. If its class belongs to another controller, no conditions are kept. `None` if nothing has
/// to change.
fn final_conditions(view: View<'_>, gateway: &Gateway) -> Option<Vec<Condition>> {
    let fields = &gateway.fields;
    if fields.owned_status.is_empty() {
        return None;
    }
    if view.class(&ObjectKey::new("", &gateway.class)).is_some() {
        return Some(Vec::new());
    }
    let name = "Programmed";
    let (status_and_reason, message) = (
        GatewayProgrammed::ClassGone.status_and_reason(),
        format!("GatewayClass {} does not exist", gateway.class),
    );
    let programmed =
        condition(&fields.status.conditions, name, status_and_reason, message, gateway.generation, view.now);
    let settled = fields.owned_status.iter().eq([&name]) && fields.status.conditions.contains(&programmed);
    (!settled).then(|| vec![programmed])
}

/// The report of one cluster.
struct ClusterReport<'v> {
    /// Why the cluster does not count as programmed.
    lacks: Option<NotProgrammedReason>,
    /// The last report.
    report: Option<&'v AgentReport>,
    /// Whether the report is for the current revision.
    current: bool,
}

/// Why a cluster does not count as programmed.
struct NotProgrammedReason {
    pending: bool,
    text: String,
}

impl NotProgrammedReason {
    fn pending(text: &str) -> Option<Self> {
        Some(Self { pending: true, text: text.to_owned() })
    }

    fn waits(waiting: &WaitReason) -> Option<Self> {
        Some(Self {
            pending: !waiting.is_overdue(),
            text: truncate_bytes(&waiting.text(), TEXT_LIMIT).into_owned(),
        })
    }
}

/// The reports of the clusters on which the Gateway is placed.
fn clusters<'v>(
    view: View<'v>,
    origin: &Origin,
    works: &WorksPlan,
) -> BTreeMap<ClusterName, ClusterReport<'v>> {
    let missing = |outcome: &Outcome| {
        let lacks = outcome
            .waiting()
            .map_or_else(|| NotProgrammedReason::pending("pending"), NotProgrammedReason::waits);
        ClusterReport { lacks, report: None, current: false }
    };
    let outcomes = works.outcomes.iter();
    let mut clusters: BTreeMap<ClusterName, ClusterReport<'v>> =
        outcomes.map(|(cluster, outcome)| (cluster.clone(), missing(outcome))).collect();
    for (_, cluster, work) in view.works_of(origin) {
        if let Some(reported) = clusters.get_mut(cluster) {
            *reported = report_in(work, report::expected(works.outcomes.get(cluster), work));
        }
    }
    clusters
}

/// The report in `work`. It is current only if it is for the revision `expected`. `expected` is `None` if the work is
/// not as planned.
fn report_in<'v>(work: &'v Work, expected: Option<&str>) -> ClusterReport<'v> {
    if work.deleting.is_some() {
        let lacks = NotProgrammedReason::pending("the previous copy is still being deleted");
        return ClusterReport { lacks, report: None, current: false };
    }
    let Some(report) = work.report.as_deref() else {
        return ClusterReport {
            lacks: NotProgrammedReason::pending("pending"),
            report: None,
            current: false,
        };
    };
    let of_the_present = report.applied && expected.is_some() && report.revision.as_deref() == expected;
    let current = of_the_present && report::is_current(report);
    let lacks = match &report.message {
        Some(message) if expected.is_some() => Some(NotProgrammedReason {
            pending: false,
            text: truncate_bytes(message, TEXT_LIMIT).into_owned(),
        }),
        _ if !current => NotProgrammedReason::pending("pending"),
        _ => not_programmed(report),
    };
    ClusterReport { lacks, report: Some(report), current }
}

/// A suffix for a message that lists `clusters` after `what`. Empty if there are no clusters.
fn clusters_suffix<'c>(what: &str, clusters: impl Iterator<Item = &'c ClusterName>) -> String {
    let clusters: Vec<String> = clusters.map(ToString::to_string).collect();
    if clusters.is_empty() {
        String::new()
    } else {
        format!("; {what}: {}", join_limited(clusters.into_iter()))
    }
}

/// Why a cluster does not count as programmed, if the present content of `work` is taken as its plan. `None` if the
/// cluster counts as programmed.
#[must_use]
pub fn lacks(work: &Work) -> Option<String> {
    report_in(work, work.revision.as_deref()).lacks.map(|lack| lack.text)
}

/// Why the copy is not programmed according to the report.
fn not_programmed(report: &AgentReport) -> Option<NotProgrammedReason> {
    let condition = |name: &str| report.conditions.iter().find(|found| &*found.condition_type == name);
    let refused = condition("Accepted").filter(|accepted| &*accepted.status == "False");
    let Some(condition) = refused.or_else(|| condition("Programmed")) else {
        return NotProgrammedReason::pending("pending");
    };
    if refused.is_none() && &*condition.status == "True" {
        return None;
    }
    let reason = condition.reason.as_deref().filter(|reason| !reason.is_empty()).unwrap_or("Unknown");
    let text = match condition.message.as_deref().filter(|message| !message.is_empty()) {
        Some(message) => Cow::Owned(format!("{reason}: {message}")),
        None => Cow::Borrowed(reason),
    };
    // The conditions of a new Gateway have the status `Unknown` until a controller has processed the Gateway.
    Some(NotProgrammedReason {
        pending: &*condition.status == "Unknown",
        text: truncate_bytes(&text, TEXT_LIMIT).into_owned(),
    })
}

struct StatusBuilder<'v> {
    now: Moment,
    gateway: &'v Gateway,
    works: &'v WorksPlan,
    placement: Result<ObjectKey, NoPlacement>,
    /// Problems of existing works.
    problems: Vec<Problem>,
    clusters: BTreeMap<ClusterName, ClusterReport<'v>>,
    /// The clusters that have not deleted the Gateway within [`super::STUCK`].
    undeleted_clusters: BTreeSet<ClusterName>,
}

impl StatusBuilder<'_> {
    fn status(&self, left_out: &[String]) -> GatewayStatus {
        let items = items::planned(self.now, self.gateway, &self.clusters);
        let mut conditions = vec![self.condition("Accepted", self.accepted(left_out))];
        if self.works.problems.iter().any(Problem::is_unknown) {
            // A frozen Gateway does not change on its clusters, so the last reported condition remains.
            let written = &self.gateway.fields.status.conditions;
            conditions.extend(written.iter().find(|condition| condition.type_ == "Programmed").cloned());
        } else {
            conditions.push(self.condition("Programmed", self.programmed(&items.left_out())));
        }
        GatewayStatus { conditions, addresses: items.addresses, listeners: items.listeners }
    }

    fn condition(&self, name: &str, (status_and_reason, message): ((&str, &str), String)) -> Condition {
        let Gateway { fields, generation, .. } = self.gateway;
        let message = truncate_bytes(&message, MESSAGE_LIMIT).into_owned();
        condition(&fields.status.conditions, name, status_and_reason, message, *generation, self.now)
    }

    fn accepted(&self, left_out: &[String]) -> ((&'static str, &'static str), String) {
        let problems: Vec<&Problem> =
            self.works.problems.iter().filter(|problem| problem.freezes()).collect();
        if let Some(first) = problems.first() {
            let text = join_limited(problems.iter().map(|problem| problem.text()));
            return (GatewayAccepted::Frozen(first).status_and_reason(), text);
        }
        let mut message = "the Gateway goes to the clusters of its Placement".to_owned();
        let accepted = |problem: &&Problem| **problem != Problem::PoliciesPending;
        for problem in self.works.problems.iter().filter(accepted) {
            message = format!("{message}; {}", problem.text());
        }
        if !left_out.is_empty() {
            let left_out = join_limited(left_out.iter().cloned());
            message = format!("{message}; left out, because they do not fit: {left_out}");
        }
        (GatewayAccepted::Accepted.status_and_reason(), message)
    }

    fn programmed(&self, left_out: &str) -> ((&'static str, &'static str), String) {
        let all = self.clusters.len();
        let mut lacking: Vec<(bool, String)> =
            self.clusters.iter().filter_map(|reported| self.lacks(reported)).collect();
        // Clusters with a reason come before those that are only pending.
        lacking.sort_by_key(|(pending, _)| *pending);
        let pending = lacking.iter().all(|(pending, _)| *pending);
        let count = lacking.len();
        let lacking = join_limited(lacking.into_iter().map(|(_, text)| text));
        let (reason, message) = if self.works.problems.iter().any(Problem::freezes) {
            let lacking = if count == 0 {
                String::new()
            } else {
                format!("; the previous copies are not programmed on: {lacking}")
            };
            (
                GatewayProgrammed::Pending,
                format!("the current Gateway is not copied to its clusters{lacking}"),
            )
        } else if all == 0 {
            (GatewayProgrammed::NotPlaced, self.not_placed())
        } else if count == 0 {
            let text = format!("programmed on all of its clusters: {all}{}", self.unaddressed());
            (GatewayProgrammed::Programmed, text)
        } else {
            let reason = match (self.works.is_overdue(), pending) {
                (true, _) => GatewayProgrammed::PoliciesPending,
                (false, true) => GatewayProgrammed::Pending,
                (false, false) => GatewayProgrammed::NotProgrammed,
            };
            (reason, format!("not programmed on {count} of {all} clusters: {lacking}"))
        };
        (reason.status_and_reason(), format!("{message}{left_out}{}", self.remains()))
    }

    /// A suffix for a message that names the clusters without addresses.
    fn unaddressed(&self) -> String {
        let has_none = |reported: &ClusterReport<'_>| {
            let gateway = reported.report.and_then(|report| report.gateway.as_ref());
            gateway.is_none_or(|gateway| gateway.addresses.is_empty())
        };
        let clusters = self.clusters.iter().filter(|(_, reported)| has_none(reported));
        clusters_suffix("without an address", clusters.map(|(cluster, _)| cluster))
    }

    /// A suffix for a message that names the clusters that have not deleted the Gateway.
    fn remains(&self) -> String {
        let clusters = &self.undeleted_clusters;
        if clusters.is_empty() { String::new() } else { format!("; {}", notice::not_deleted(clusters)) }
    }

    /// The Events to record.
    fn notices(&self, status: &GatewayStatus) -> Vec<Notice> {
        let stuck = notice::of_undeleted_clusters(self.undeleted_clusters.clone());
        self.notice(status).into_iter().chain(stuck).collect()
    }

    /// The Event for the condition `Programmed` of `status`. `None` if clusters are only pending, or if the state is
    /// reported as a problem.
    fn notice(&self, status: &GatewayStatus) -> Option<Notice> {
        let programmed = status.conditions.iter().find(|condition| condition.type_ == "Programmed")?;
        let mut reasons = NoticeReason::OF_PROGRAMMED.into_iter();
        let reason = reasons.find(|reason| reason.as_str() == programmed.reason)?;
        let lacks = |(_, reported): &(&ClusterName, &ClusterReport<'_>)| {
            reported.lacks.as_ref().is_some_and(|lack| !lack.pending)
        };
        let clusters = self.clusters.iter().filter(lacks).map(|(cluster, _)| cluster.clone()).collect();
        let note = truncate_bytes(&programmed.message, NOTE_LIMIT).into_owned();
        Some(Notice { reason, clusters, note })
    }

    fn lacks(&self, (cluster, reported): (&ClusterName, &ClusterReport<'_>)) -> Option<(bool, String)> {
        let lack = reported.lacks.as_ref()?;
        let lack = match self.problems.iter().find(|problem| problem.is_foreign_work(cluster)) {
            Some(problem) => (false, format!("{cluster} ({})", problem.text())),
            None => (lack.pending, format!("{cluster} ({})", lack.text)),
        };
        Some(lack)
    }

    fn not_placed(&self) -> String {
        match &self.placement {
            Ok(placement) => format!("Placement {placement} has selected no cluster"),
            Err(unplaced) => format!("it {unplaced}"),
        }
    }
}
