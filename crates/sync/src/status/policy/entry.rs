//! Builds the entry of one cluster. It contains the cluster's report, if the report is for the planned copy.

use std::sync::Arc;

use crate::feedback::{AgentReport, Ancestors, ReportedCondition, TEXT_LIMIT};
use crate::rows::work::{Purpose, Work};
use crate::status::report;
use policy_sync_api::annotations::{CONDITIONS, Synced, SyncedCondition};
use policy_sync_api::names::ClusterName;
use policy_sync_api::policy_state::is_partial;
use policy_sync_api::text::truncate_bytes;

pub(super) struct CopyName {
    pub(super) name: String,
    pub(super) namespace: String,
}

/// Builds the entry of `cluster` for the copy in `work`. It contains the report only if the report is for the revision
/// `expected`.
pub(super) fn synced(
    cluster: &ClusterName,
    copy: &CopyName,
    expected: Option<&str>,
    work: Option<&Work>,
) -> Synced {
    let mut entry = Synced {
        cluster: cluster.clone(),
        name: copy.name.clone(),
        namespace: copy.namespace.clone(),
        applied: false,
        pending: true,
        deleting: false,
        message: None,
        conditions: Vec::new(),
        partial: false,
        frozen: None,
        fields: serde_json::Map::new(),
        dropped: Vec::new(),
        cut: false,
    };
    let Some(work) = work else { return entry };
    if work.deleting.is_some() {
        return Synced { pending: false, deleting: true, ..entry };
    }
    let (Some(report), Some(expected)) = (&work.report, expected) else { return entry };
    entry.message = report.message.as_deref().map(str::to_owned);
    if !report.applied || report.revision.as_deref() != Some(expected) {
        return entry;
    }
    entry.applied = true;
    entry.pending = !report::is_current(report);
    if let Some(Ancestors::Unreadable(fault)) = &report.ancestors {
        entry.message = Some(fault.to_string());
    }
    if !entry.pending {
        entry.conditions = synced_conditions(report);
        if let Purpose::Copy(origin) = &work.purpose {
            entry.partial = entry.conditions.iter().any(|condition| is_partial(origin.kind(), condition));
        }
        entry.dropped = report.dropped.iter().map(ToString::to_string).collect();
        let field =
            |(name, text): &(Arc<str>, Box<str>)| Some((name.to_string(), serde_json::from_str(text).ok()?));
        entry.fields = report.fields.iter().filter_map(field).collect();
    }
    entry
}

/// A condition with its ancestor, or `None` if it is a condition of the copy as a whole.
type ConditionSource<'a> = (Option<&'a str>, &'a ReportedCondition);

/// The conditions of `report`, sorted by type. Of each type, only the worst condition is included: the copy's own, or
/// that of one of its ancestors.
fn synced_conditions(report: &AgentReport) -> Vec<SyncedCondition> {
    let mut sources: Vec<ConditionSource<'_>> =
        report.conditions.iter().map(|condition| (None, condition)).collect();
    if let Some(Ancestors::Reported(reported)) = &report.ancestors {
        sources.extend(reported.conditions.iter().map(|of| (Some(&*of.ancestor), &of.condition)));
    }
    let of_type =
        |name: &&str| worst(sources.iter().filter(|(_, condition)| *condition.condition_type == **name));
    CONDITIONS.iter().filter_map(of_type).collect()
}

/// The worst condition. `False` is worse than any other status, and `True` is the best.
fn worst<'a>(sources: impl Iterator<Item = &'a ConditionSource<'a>> + Clone) -> Option<SyncedCondition> {
    let rank = |(_, condition): &ConditionSource<'_>| match &*condition.status {
        "False" => 0,
        "True" => 2,
        _ => 1,
    };
    // Conditions of equal rank are ordered by ancestor, because the order of the list of ancestors may change.
    let worst = sources.clone().min_by_key(|source| (rank(source), source.0))?;
    let (by, condition) = *worst;
    let more = sources.filter(|source| rank(source) == rank(worst)).count() - 1;
    let mut condition = SyncedCondition {
        condition_type: condition.condition_type.to_string(),
        status: condition.status.to_string(),
        reason: condition.reason.as_deref().map(str::to_owned),
        message: condition.message.as_deref().map(str::to_owned),
    };
    if let Some(ancestor) = by {
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        let message = condition.message.as_deref().map(|message| format!(": {message}")).unwrap_or_default();
        condition.message =
            Some(truncate_bytes(&format!("{ancestor}{more}{message}"), TEXT_LIMIT).into_owned());
    }
    Some(condition)
}
