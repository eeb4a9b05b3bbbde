//! The entry of one cluster: its report, if that is for the planned copy.

use std::sync::Arc;

use super::conditions;
use crate::feedback::Ancestors;
use crate::rows::work::{Purpose, Work};
use crate::status::report;
use policy_sync_api::annotations::Synced;
use policy_sync_api::names::ClusterName;
use policy_sync_api::policy_state::is_partial;

pub(super) struct CopyName {
    pub(super) name: String,
    pub(super) namespace: String,
}

/// Reads the report of `cluster` on the copy in `work`, if it is for the revision `expected`.
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
        entry.conditions = conditions::synced(report);
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
