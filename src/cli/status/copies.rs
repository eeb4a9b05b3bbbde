//! The table row of a copy on one cluster.

use k8s_openapi::jiff::Timestamp;

use super::table::{Row, cells, message};
use policy_sync_report::{CopyReport, Detail};

pub(super) const ROW: [&str; 6] = ["STATE", "APPLIED", "ENFORCED", "REASON", "SINCE", "MESSAGE"];

/// The row of a copy or of an agent's access rights. `since` is the moment in the column SINCE.
pub(super) fn row(report: &CopyReport, since: Option<Timestamp>) -> Row {
    let object = report.origin.as_ref().map(|origin| origin.object());
    let object = object.map_or(["-", "-"], |object| [&*object.namespace, &*object.name]);
    let of = [&*report.kind].into_iter().chain(object).map(str::to_owned).collect();
    let main = if report.is_gateway() { "Programmed" } else { "Enforced" };
    let mut state = vec![report.word().to_owned()];
    state.extend(match &report.work {
        Some(entry) => cells(Some(entry), Detail::Full, main),
        None => vec!["no".to_owned(), "-".to_owned(), "-".to_owned()],
    });
    state.push(since.map_or_else(|| "-".to_owned(), |since| since.to_string()));
    state.push(message(report.message(), true));
    Row { of, state }
}

#[cfg(test)]
mod tests;
