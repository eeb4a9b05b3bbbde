//! The conditions of a copy on one cluster: the worst of the copy's own conditions and those of its ancestors.

use crate::feedback::{AgentReport, Ancestors, ReportedCondition, TEXT_LIMIT};
use policy_sync_api::annotations::{CONDITIONS, SyncedCondition};
use policy_sync_api::text::truncate_bytes;

/// A condition with its ancestor, or `None` if it is a condition of the copy as a whole.
type ConditionSource<'a> = (Option<&'a str>, &'a ReportedCondition);

/// The conditions of `report`, one per type, sorted by type.
pub(super) fn synced(report: &AgentReport) -> Vec<SyncedCondition> {
    let mut sources: Vec<ConditionSource<'_>> =
        report.conditions.iter().map(|condition| (None, condition)).collect();
    if let Some(Ancestors::Reported(reported)) = &report.ancestors {
        sources.extend(reported.conditions.iter().map(|of| (Some(&*of.ancestor), &of.condition)));
    }
    let of_type =
        |name: &&str| worst(sources.iter().filter(|(_, condition)| *condition.condition_type == **name));
    CONDITIONS.iter().filter_map(of_type).collect()
}

/// The worst condition: `False` before any other status before `True`.
fn worst<'a>(sources: impl Iterator<Item = &'a ConditionSource<'a>> + Clone) -> Option<SyncedCondition> {
    let rank = |(_, condition): &ConditionSource<'_>| match &*condition.status {
        "False" => 0,
        "True" => 2,
        _ => 1,
    };
    // Conditions of equal rank are ordered by ancestor, because the order of the list of ancestors may change.
    let worst = sources.clone().min_by_key(|voice| (rank(voice), voice.0))?;
    let (by, condition) = *worst;
    let more = sources.filter(|voice| rank(voice) == rank(worst)).count() - 1;
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
