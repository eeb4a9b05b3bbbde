//! The cells of the tables of `status`. A cell contains `-` if there is no value, and `?` if it is unknown.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use policy_sync_api::annotations::{Summary, Synced, SyncedCondition};
use policy_sync_api::params::Role;
use policy_sync_api::policy_state::PolicyState;
use policy_sync_report::{AnnotationValue, CopyReport, Detail, PolicyOnCluster, PolicyReport};

/// The maximum number of clusters in a cell, unless the output is wide.
const CLUSTERS: usize = 10;

/// The most relevant condition of a policy.
const ENFORCED: &str = "Enforced";

/// A row, without its age.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// The cells that identify the row.
    pub(super) of: Vec<String>,
    /// The cells of the state.
    pub(super) state: Vec<String>,
}

pub(super) const POLICY: [&str; 6] = ["STATE", "CLUSTERS", "ENFORCED", "OVERRIDDEN", "MESSAGE", "AGE"];

/// The state cells of a policy.
pub(super) fn policy(report: &PolicyReport, wide: bool) -> Vec<String> {
    // The columns about enforcement do not apply to resources.
    let of_policy = |cell: String| if report.role == Role::Policy { cell } else { "-".to_owned() };
    vec![
        worst(report),
        count(report, |summary| summary.applied),
        of_policy(count(report, |summary| summary.enforced)),
        of_policy(overridden(report, wide)),
        message(report.first_message().as_deref(), true),
    ]
}

/// The worst state of a policy.
fn worst(report: &PolicyReport) -> String {
    match (report.worst(), &report.summary, &report.clusters) {
        (Some(state), ..) => state.as_str().to_owned(),
        (None, AnnotationValue::Missing, AnnotationValue::Missing) => "-".to_owned(),
        (None, _, AnnotationValue::Value(clusters)) if clusters.is_empty() => "-".to_owned(),
        (None, ..) => "?".to_owned(),
    }
}

/// The word of a state; `?` if it is unknown.
fn state_cell(state: Option<PolicyState>) -> String {
    state.map_or("?", PolicyState::as_str).to_owned()
}

pub(super) const CLUSTER: [&str; 6] = ["CLUSTER", "STATE", "APPLIED", "ENFORCED", "REASON", "MESSAGE"];

/// One row for each cluster in the list of `report` that `shows` selects.
pub(super) fn clusters(report: &PolicyReport, shows: impl Fn(&Synced) -> bool) -> Vec<Row> {
    let entries = report.clusters.value().into_iter().flatten();
    let rows = entries.filter(|entry| shows(entry)).map(|entry| {
        let known = Some(entry).filter(|_| report.detail.shows_states());
        let mut state = vec![state_cell(report.state_of(entry))];
        state.extend(cells(known, report.detail, ENFORCED));
        let ready = known.and_then(ready);
        let text = known.and_then(text).or(ready.as_deref());
        state.push(message(text, known.is_some()));
        Row { of: vec![entry.cluster.to_string()], state }
    });
    let cut = match report.detail {
        Detail::First { named, of } if named < of => Some(of - named),
        _ => None,
    };
    let more = cut.map(|more| Row { of: vec![format!("+{more} more")], state: vec!["?".to_owned(); 5] });
    rows.chain(more).collect()
}

pub(super) const ON_CLUSTER: [&str; 6] = ["STATE", "APPLIED", "ENFORCED", "REASON", "MESSAGE", "AGE"];
pub(super) const ON_CLUSTER_WIDE: [&str; 8] =
    ["STATE", "APPLIED", "ENFORCED", "REASON", "CONDITIONS", "FIELDS", "MESSAGE", "AGE"];

/// The state cells of a policy on one cluster.
pub(super) fn on_cluster(on: PolicyOnCluster<'_>, wide: bool) -> Vec<String> {
    let (report, known) = (on.report, on.state());
    let mut state = vec![state_cell(on.policy_state())];
    state.extend(cells(known, report.detail, ENFORCED));
    if wide {
        state.extend([conditions(known, report.detail), fields(known, report.detail)]);
    }
    let ready = known.and_then(ready);
    let text = report.message.as_deref().or_else(|| known.and_then(text)).or(ready.as_deref());
    state.push(message(text, known.is_some()));
    state
}

pub(super) const COPY: [&str; 6] = ["STATE", "APPLIED", "ENFORCED", "REASON", "SINCE", "MESSAGE"];

/// The row of a copy or of an agent's access rights. `since` is the moment in the column SINCE.
pub(super) fn copy(report: &CopyReport, since: Option<Timestamp>) -> Row {
    let object = report.origin.as_ref().map(|origin| origin.object());
    let object = object.map_or(["-", "-"], |object| [&*object.namespace, &*object.name]);
    let of = [&*report.kind].into_iter().chain(object).map(str::to_owned).collect();
    let main = if report.is_gateway() { "Programmed" } else { ENFORCED };
    let mut state = vec![report.state_name().to_owned()];
    state.extend(match &report.work {
        Some(entry) => cells(Some(entry), Detail::Full, main),
        None => vec!["no".to_owned(), "-".to_owned(), "-".to_owned()],
    });
    state.push(since.map_or_else(|| "-".to_owned(), |since| since.to_string()));
    state.push(message(report.message(), true));
    Row { of, state }
}

/// Returns cells that show whether the cluster has applied the copy, the status of its condition `main`, and the
/// reason.
fn cells(state: Option<&Synced>, detail: Detail, main: &str) -> Vec<String> {
    let Some(entry) = state else { return vec!["?".to_owned(); 3] };
    let applied = match (entry.applied, entry.deleting) {
        (_, true) => "deleting",
        (true, false) => "yes",
        (false, false) => "no",
    };
    let reason = shown(entry, main).and_then(|condition| {
        let reason = condition.reason.as_deref()?;
        Some(if condition.condition_type == main {
            reason.to_owned()
        } else {
            format!("{}: {reason}", short(condition))
        })
    });
    let status = match condition(entry, main) {
        Some(condition) => &condition.status,
        None if entry.pending => "pending",
        // With minimal detail, the annotation may lack a true condition.
        None if detail == Detail::Minimal && entry.applied => "?",
        None => "-",
    };
    vec![applied.to_owned(), status.to_owned(), reason.unwrap_or_else(|| "-".to_owned())]
}

fn condition<'e>(entry: &'e Synced, name: &str) -> Option<&'e SyncedCondition> {
    entry.conditions.iter().find(|condition| condition.condition_type == name)
}

/// The most relevant condition.
fn shown<'e>(entry: &'e Synced, main: &str) -> Option<&'e SyncedCondition> {
    condition(entry, main).or_else(|| entry.conditions.iter().find(|condition| condition.status != "True"))
}

/// The message of the agent, or of the most relevant condition.
fn text(entry: &Synced) -> Option<&str> {
    entry.message.as_deref().or_else(|| shown(entry, ENFORCED)?.message.as_deref())
}

/// The number of ready replicas, as a message.
fn ready(entry: &Synced) -> Option<String> {
    entry.fields.get("readyReplicas").map(|ready| format!("{ready} replicas are ready"))
}

fn short(condition: &SyncedCondition) -> String {
    format!("{}={}", condition.condition_type, condition.status)
}

fn conditions(state: Option<&Synced>, detail: Detail) -> String {
    let conditions = state.map(|entry| entry.conditions.iter().map(short).collect::<Vec<_>>().join(","));
    or_mark(conditions, detail)
}

fn fields(state: Option<&Synced>, detail: Detail) -> String {
    let field = |(name, value): (&String, &serde_json::Value)| format!("{name}={value}");
    or_mark(state.map(|entry| entry.fields.iter().map(field).collect::<Vec<_>>().join(",")), detail)
}

/// Returns `text` if it is not empty, and `-` if it is empty and the annotation has full `detail`. Otherwise returns
/// `?`.
fn or_mark(text: Option<String>, detail: Detail) -> String {
    match text {
        Some(text) if !text.is_empty() => text,
        Some(_) if detail == Detail::Full => "-".to_owned(),
        _ => "?".to_owned(),
    }
}

fn count(report: &PolicyReport, of: impl Fn(&Summary) -> usize) -> String {
    match (&report.summary, &report.clusters) {
        (AnnotationValue::Value(summary), _) => format!("{}/{}", of(summary), summary.clusters),
        (AnnotationValue::Missing, AnnotationValue::Missing) => "-".to_owned(),
        _ => "?".to_owned(),
    }
}

fn overridden(report: &PolicyReport, wide: bool) -> String {
    some_of(report, report.overridden().as_deref(), |summary| summary.overridden, wide)
}

/// The clusters that do not have the current revision of a policy.
pub(super) fn missing(report: &PolicyReport, wide: bool) -> String {
    some_of(
        report,
        report.missing().as_deref(),
        |summary| summary.clusters.saturating_sub(summary.applied),
        wide,
    )
}

/// Returns the names in `clusters`, a part of a policy's clusters. `clusters` is `None` if the annotation lacks the
/// necessary details. In that case, returns the number of these clusters, which `count` reads from the summary.
fn some_of(
    report: &PolicyReport,
    clusters: Option<&[&str]>,
    count: impl Fn(&Summary) -> usize,
    wide: bool,
) -> String {
    match (clusters, report.summary.value().map(count), &report.clusters) {
        (Some(clusters), ..) => names(clusters, wide),
        // The list has only the names of clusters without their states, but the summary has the number.
        (None, Some(0), AnnotationValue::Value(_)) => "-".to_owned(),
        (None, Some(count), AnnotationValue::Value(_)) => format!("({count})"),
        (None, None, AnnotationValue::Missing) => "-".to_owned(),
        _ => "?".to_owned(),
    }
}

/// All `names`, or the first few and the number of others, unless the table is wide.
pub(super) fn names(names: &[&str], wide: bool) -> String {
    let named = if wide { names.len() } else { CLUSTERS.min(names.len()) };
    match (names.len(), names.len() - named) {
        (0, _) => "-".to_owned(),
        (_, 0) => names.join(","),
        (_, more) => format!("{},+{more}", names[..named].join(",")),
    }
}

/// `message`. If there is none: `-` if it is `known` that there is none, otherwise `?`.
pub(super) fn message(message: Option<&str>, known: bool) -> String {
    message.unwrap_or(if known { "-" } else { "?" }).to_owned()
}

/// The time since `created` in the format of `kubectl`: `45s`, `5m10s`, `3h`, `12d`.
pub(super) fn age(created: Timestamp, now: Timestamp) -> String {
    let seconds = Duration::try_from(now.duration_since(created)).unwrap_or_default().as_secs();
    let (minutes, hours, days, years) =
        (seconds / 60, seconds / 3600, seconds / 86400, seconds / (86400 * 365));
    let two = |large: u64, unit: char, small: u64, small_unit: char| {
        if small == 0 { format!("{large}{unit}") } else { format!("{large}{unit}{small}{small_unit}") }
    };
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, 'm', seconds % 60, 's'),
        () if hours < 3 => format!("{minutes}m"),
        () if hours < 8 => two(hours, 'h', minutes % 60, 'm'),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => two(days, 'd', hours % 24, 'h'),
        () if years < 2 => format!("{days}d"),
        () if years < 8 => two(years, 'y', days % 365, 'd'),
        () => format!("{years}y"),
    }
}

#[cfg(test)]
mod tests;
