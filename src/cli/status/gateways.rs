//! The table rows of Gateways. A cell contains `-` if there is no value, and `?` if it is unknown.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::table::{message, names};
use policy_sync_report::{GatewayOnCluster, GatewayReport};

pub(super) const ROW: [&str; 6] = ["CLASS", "CLUSTERS", "PROGRAMMED", "ACCEPTED", "MESSAGE", "AGE"];
pub(super) const ROW_WIDE: [&str; 8] =
    ["CLASS", "CLUSTERS", "PROGRAMMED", "ACCEPTED", "ADDRESSES", "IN GRACE", "MESSAGE", "AGE"];

/// The state cells of a Gateway.
pub(super) fn row(gateway: &GatewayReport, wide: bool) -> Vec<String> {
    let clusters = gateway.clusters();
    let all = clusters.as_ref().map(|clusters| clusters.len());
    let programmed = match (gateway.programmed_count(), all) {
        (_, Some(0)) => "-".to_owned(),
        (programmed, all) => format!("{}/{}", count(programmed), count(all)),
    };
    let listed = |clusters: Vec<&str>| names(&clusters, wide);
    let clusters = clusters.map(|clusters| clusters.into_iter().map(|cluster| &*cluster.0).collect());
    let mut state = vec![
        gateway.row.class.clone(),
        clusters.map_or_else(unknown, listed),
        programmed,
        status(gateway.accepted()),
    ];
    if wide {
        let copies = gateway.copies.as_ref().map(|copies| {
            let unplaced = copies.iter().filter(|(_, copy)| copy.unplaced.is_some() && !copy.deleting);
            unplaced.map(|(cluster, _)| &*cluster.0).collect()
        });
        state.push(names(&gateway.row.addresses.iter().map(String::as_str).collect::<Vec<_>>(), true));
        state.push(copies.map_or_else(unknown, |copies: Vec<&str>| names(&copies, true)));
    }
    state.push(message(gateway.message().as_deref(), true));
    state
}

/// The clusters that have not programmed the current Gateway.
pub(super) fn missing(gateway: &GatewayReport, wide: bool) -> String {
    gateway.missing().map_or_else(unknown, |clusters| names(&clusters, wide))
}

pub(super) const ON_CLUSTER: [&str; 5] = ["CLASS", "APPLIED", "PROGRAMMED", "MESSAGE", "AGE"];
pub(super) const ON_CLUSTER_WIDE: [&str; 7] =
    ["CLASS", "APPLIED", "PROGRAMMED", "ADDRESSES", "IN GRACE SINCE", "MESSAGE", "AGE"];

/// The state cells of a Gateway on one cluster.
pub(super) fn on_cluster(on: &GatewayOnCluster<'_>, wide: bool) -> Vec<String> {
    let (applied, programmed) = match on.copy {
        None => ("?", "?"),
        Some(None) => ("no", "no"),
        Some(Some(copy)) => match (copy.deleting, copy.applied, copy.not_programmed.is_none()) {
            (true, ..) => ("deleting", "-"),
            (false, applied, programmed) => (yes(applied), yes(programmed)),
        },
    };
    let mut state = vec![on.gateway.row.class.clone(), applied.to_owned(), programmed.to_owned()];
    let copy = on.copy.flatten();
    if wide {
        let since = copy.and_then(|copy| copy.unplaced.clone());
        state.push(names(&on.addresses().collect::<Vec<_>>(), true));
        state.push(since.unwrap_or_else(|| if on.copy.is_some() { "-".to_owned() } else { unknown() }));
    }
    let accepted = on.gateway.accepted().is_some_and(|condition| condition.status == "True");
    // If the work does not exist yet, only the message of the Gateway gives the reason for the wait.
    let refused = on.gateway.message().filter(|_| !accepted || on.copy == Some(None));
    let text = refused.as_deref().or_else(|| copy?.not_programmed.as_deref());
    state.push(message(text, on.copy.is_some()));
    state
}

fn status(condition: Option<&Condition>) -> String {
    condition.map_or_else(unknown, |condition| condition.status.clone())
}

fn count(count: Option<usize>) -> String {
    count.map_or_else(unknown, |count| count.to_string())
}

fn yes(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}

fn unknown() -> String {
    "?".to_owned()
}

#[cfg(test)]
mod tests;
