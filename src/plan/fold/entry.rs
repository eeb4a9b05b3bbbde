//! One cluster's entry: what it says, as far as that is for the copy as it is planned.

use crate::api::annotations::{Synced, SyncedCondition};
use crate::api::names::ClusterName;
use crate::mirror::rows::work::{AnsweredCondition, Work};
use crate::plan::{Outcome, answer};

pub(super) struct CopyName {
    pub(super) name: String,
    pub(super) namespace: String,
}

pub(super) fn synced(
    cluster: &ClusterName,
    copy: &CopyName,
    outcome: Option<&Outcome>,
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
        fields: serde_json::Map::new(),
    };
    let Some(work) = work else { return entry };
    if work.deleting.is_some() {
        return Synced { pending: false, deleting: true, ..entry };
    }
    let expected = answer::expected(outcome, work);
    let (Some(answer), Some(expected)) = (&work.answer, expected) else { return entry };
    entry.message = answer.message.as_deref().map(str::to_owned);
    if !answer.applied || answer.revision.as_deref() != Some(expected) {
        return entry;
    }
    entry.applied = true;
    entry.pending = !answer::is_current(answer);
    if !entry.pending {
        entry.conditions = answer.conditions.iter().map(condition).collect();
        entry.conditions.sort_by(|left, right| left.condition_type.cmp(&right.condition_type));
        entry.fields = answer.fields.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
    }
    entry
}

fn condition(condition: &AnsweredCondition) -> SyncedCondition {
    SyncedCondition {
        condition_type: condition.condition_type.to_string(),
        status: condition.status.to_string(),
        reason: condition.reason.as_deref().map(str::to_owned),
        message: condition.message.as_deref().map(str::to_owned),
    }
}
