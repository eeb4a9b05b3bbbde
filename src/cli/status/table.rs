//! Reports as tables: text of fixed columns, in which nothing that a spoke or a user wrote moves the cursor.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::report::{Detail, Reading, Report};
use crate::api::annotations::Synced;
use crate::cli::columns::table;
use crate::cli::text::{cut, printable};

/// The most characters of a message in a table that is not wide.
const MESSAGE: usize = 60;
/// The most clusters that such a table names in one cell.
const CLUSTERS: usize = 3;

/// How tables look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    /// Whether the namespace is shown.
    pub(super) namespaces: bool,
    /// Whether cells are shown whole.
    pub(super) wide: bool,
    /// Now.
    pub(super) now: Timestamp,
}

/// One row for each policy.
pub(super) fn policies(reports: &[Report], style: Style) -> String {
    let mut headers = vec!["KIND", "NAME", "CLUSTERS", "ENFORCED", "OVERRIDDEN", "MESSAGE", "AGE"];
    if style.namespaces {
        headers.insert(0, "NAMESPACE");
    }
    let rows = reports.iter().map(|report| {
        let mut row = vec![
            report.kind.clone(),
            report.name.clone(),
            count(report, |summary| summary.applied),
            count(report, |summary| summary.enforced),
            overridden(report, style.wide),
            message(report.first_message().as_deref(), style.wide),
            report.created.map_or_else(|| "-".to_owned(), |created| age(created, style.now)),
        ];
        if style.namespaces {
            row.insert(0, report.namespace.clone());
        }
        row
    });
    table(&headers, rows)
}

/// One row for each cluster of a policy.
pub(super) fn clusters(report: &Report) -> String {
    let entries = report.clusters.said().into_iter().flatten();
    table(
        &["CLUSTER", "APPLIED", "ENFORCED", "REASON", "MESSAGE"],
        entries.map(|entry| cluster(entry, report.detail)),
    )
}

fn cluster(entry: &Synced, detail: Detail) -> Vec<String> {
    let name = entry.cluster.to_string();
    if detail == Detail::Names {
        return [&name, "?", "?", "?", "?"].map(str::to_owned).into();
    }
    let applied = match (entry.applied, entry.deleting) {
        (_, true) => "deleting",
        (true, false) => "yes",
        (false, false) => "no",
    };
    let enforced = entry.conditions.iter().find(|condition| condition.condition_type == "Enforced");
    let other = entry.conditions.iter().find(|condition| condition.status != "True");
    let shown = enforced.or(other);
    let reason = shown.and_then(|condition| {
        let reason = condition.reason.as_deref()?;
        let is_enforced = condition.condition_type == "Enforced";
        Some(if is_enforced {
            reason.to_owned()
        } else {
            format!("{}={}: {reason}", condition.condition_type, condition.status)
        })
    });
    let status = match enforced {
        Some(condition) => &condition.status,
        None if entry.pending => "pending",
        None => "-",
    };
    let message = entry.message.as_deref().or_else(|| shown?.message.as_deref());
    vec![
        name,
        applied.to_owned(),
        status.to_owned(),
        reason.unwrap_or_else(|| "-".to_owned()),
        self::message(message, true),
    ]
}

fn count(report: &Report, of: impl Fn(&crate::api::annotations::Summary) -> usize) -> String {
    match (&report.summary, &report.clusters) {
        (Reading::Said(summary), _) => format!("{}/{}", of(summary), summary.clusters),
        (Reading::Missing, Reading::Missing) => "-".to_owned(),
        _ => "?".to_owned(),
    }
}

fn overridden(report: &Report, wide: bool) -> String {
    match (report.overridden(), report.summary.said(), &report.clusters) {
        (Some(clusters), ..) if clusters.is_empty() => "-".to_owned(),
        (Some(clusters), ..) => {
            let named = if wide { clusters.len() } else { CLUSTERS.min(clusters.len()) };
            let more = clusters.len() - named;
            let names = clusters[..named].join(",");
            if more == 0 { names } else { format!("{names},+{more}") }
        }
        // The list names all clusters alike; the summary still counts.
        (None, Some(summary), Reading::Said(_)) if summary.overridden == 0 => "-".to_owned(),
        (None, Some(summary), Reading::Said(_)) => format!("({})", summary.overridden),
        (None, None, Reading::Missing) => "-".to_owned(),
        _ => "?".to_owned(),
    }
}

fn message(message: Option<&str>, wide: bool) -> String {
    let message = printable(message.unwrap_or("-"));
    if wide { message } else { cut(&message, MESSAGE) }
}

/// The time since `created` as `kubectl` shows it: `45s`, `5m10s`, `3h`, `12d`.
fn age(created: Timestamp, now: Timestamp) -> String {
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
