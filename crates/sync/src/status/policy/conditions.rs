//! The conditions of a copy on one cluster: the worst of the copy's own conditions and those of its ancestors.

use crate::feedback::{Ancestors, Answer, AnsweredCondition, TEXT_LIMIT};
use policy_sync_api::annotations::{CONDITIONS, SyncedCondition};
use policy_sync_api::text::capped;

/// A condition with the ancestor that it is for. `None` for the copy as a whole.
type Source<'a> = (Option<&'a str>, &'a AnsweredCondition);

/// The conditions of `answer`, one per type, sorted by type.
pub(super) fn synced(answer: &Answer) -> Vec<SyncedCondition> {
    let mut sources: Vec<Source<'_>> = answer.conditions.iter().map(|condition| (None, condition)).collect();
    if let Some(Ancestors::Reported(reported)) = &answer.ancestors {
        sources.extend(reported.conditions.iter().map(|of| (Some(&*of.ancestor), &of.condition)));
    }
    let of_type =
        |name: &&str| worst(sources.iter().filter(|(_, condition)| *condition.condition_type == **name));
    CONDITIONS.iter().filter_map(of_type).collect()
}

/// The worst condition: `False` before any other status before `True`.
fn worst<'a>(sources: impl Iterator<Item = &'a Source<'a>> + Clone) -> Option<SyncedCondition> {
    let rank = |(_, condition): &Source<'_>| match &*condition.status {
        "False" => 0,
        "True" => 2,
        _ => 1,
    };
    // Ties go by ancestor, because the order of a list of ancestors may change at any time.
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
        condition.message = Some(capped(&format!("{ancestor}{more}{message}"), TEXT_LIMIT).into_owned());
    }
    Some(condition)
}
