//! Compares the lists in `docs/reference` with the code: reasons of Events, conditions with statuses and reasons,
//! limits.

use std::collections::{BTreeMap, BTreeSet};

use super::problems::{Of, problems};
use crate::Problem;
use crate::desired::overrides;
use crate::desired::policy::COPIES_LIMIT;
use crate::desired::work::SIZE_LIMIT;
use crate::feedback::ancestors;
use crate::problem::TEXT_LIMIT;
use crate::rows::kind::KindReason;
use crate::status::policy::{ANNOTATIONS_LIMIT, OWN_ANNOTATIONS_LIMIT};
use crate::status::reason::{ClassAccepted, GatewayAccepted, GatewayProgrammed, PoliciesResolved};
use crate::status::{NoticeReason, RejectionReason};
use policy_sync_api::annotations::CONDITIONS as OF_COPIES;
use policy_sync_api::gateway::{ADDRESSES_LIMIT, LISTENER_CONDITIONS, LISTENERS_LIMIT};
use policy_sync_api::json::DEPTH_LIMIT;
use policy_sync_api::params::MAX_KINDS;

const EVENTS: &str = include_str!("../../../../docs/reference/events.md");
const CONDITIONS: &str = include_str!("../../../../docs/reference/conditions.md");
const LIMITS: &str = include_str!("../../../../docs/reference/limits.md");

/// All values in order, each returned by `next` for its predecessor.
fn chain<T: Copy>(next: impl Fn(Option<T>) -> Option<T>) -> Vec<T> {
    std::iter::successors(next(None), |last| next(Some(*last))).collect()
}

/// The part of a page under a heading.
fn section<'p>(page: &'p str, heading: &str) -> &'p str {
    let (_, rest) = page.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
    rest.split("\n## ").next().unwrap_or_default()
}

/// The cells of the rows of the table in `text`, without its header row.
fn rows(text: &str) -> Vec<Vec<String>> {
    let rows = text.lines().filter(|line| line.starts_with('|')).skip(2);
    let cells = |row: &str| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect();
    rows.map(cells).collect()
}

/// The words of a cell that are marked as code.
fn words(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// The notice reason that follows `last`. The match is exhaustive, so a new reason cannot be forgotten.
fn next_notice(last: Option<NoticeReason>) -> Option<NoticeReason> {
    Some(match last {
        None => NoticeReason::Synced,
        Some(NoticeReason::Synced) => NoticeReason::Overridden,
        Some(NoticeReason::Overridden) => NoticeReason::Stuck,
        Some(NoticeReason::Stuck) => NoticeReason::Programmed,
        Some(NoticeReason::Programmed) => NoticeReason::NotProgrammed,
        Some(NoticeReason::NotProgrammed) => NoticeReason::NotPlaced,
        Some(NoticeReason::NotPlaced) => return None,
    })
}

fn next_refusal(last: Option<RejectionReason>) -> Option<RejectionReason> {
    Some(match last {
        None => RejectionReason::WriteRejected,
        Some(RejectionReason::WriteRejected) => RejectionReason::ForeignWork,
        Some(RejectionReason::ForeignWork) => return None,
    })
}

fn next_kind(last: Option<KindReason>) -> Option<KindReason> {
    Some(match last {
        None => KindReason::Resolved,
        Some(KindReason::Resolved) => KindReason::UnknownResource,
        Some(KindReason::UnknownResource) => KindReason::NotAPolicy,
        Some(KindReason::NotAPolicy) => KindReason::NotSyncable,
        Some(KindReason::NotSyncable) => KindReason::Forbidden,
        Some(KindReason::Forbidden) => KindReason::VersionConflict,
        Some(KindReason::VersionConflict) => return None,
    })
}

fn next_class(last: Option<ClassAccepted>) -> Option<ClassAccepted> {
    Some(match last {
        None => ClassAccepted::Accepted,
        Some(ClassAccepted::Accepted) => ClassAccepted::InvalidParameters,
        Some(ClassAccepted::InvalidParameters) => ClassAccepted::ParametersUnread,
        Some(ClassAccepted::ParametersUnread) => return None,
    })
}

fn next_resolved(last: Option<PoliciesResolved>) -> Option<PoliciesResolved> {
    Some(match last {
        None => PoliciesResolved::Kinds(KindReason::Resolved),
        Some(PoliciesResolved::Kinds(reason)) => {
            next_kind(Some(reason)).map_or(PoliciesResolved::InvalidParameters, PoliciesResolved::Kinds)
        }
        Some(PoliciesResolved::InvalidParameters) => PoliciesResolved::ParametersUnread,
        Some(PoliciesResolved::ParametersUnread) => return None,
    })
}

fn next_programmed(last: Option<GatewayProgrammed>) -> Option<GatewayProgrammed> {
    Some(match last {
        None => GatewayProgrammed::Programmed,
        Some(GatewayProgrammed::Programmed) => GatewayProgrammed::Pending,
        Some(GatewayProgrammed::Pending) => GatewayProgrammed::PoliciesPending,
        Some(GatewayProgrammed::PoliciesPending) => GatewayProgrammed::NotProgrammed,
        Some(GatewayProgrammed::NotProgrammed) => GatewayProgrammed::NotPlaced,
        Some(GatewayProgrammed::NotPlaced) => GatewayProgrammed::ClassGone,
        Some(GatewayProgrammed::ClassGone) => return None,
    })
}

/// The second and third cell of each row, by the first cell.
fn documented(heading: &str) -> BTreeMap<String, [String; 2]> {
    let rows = rows(section(EVENTS, heading));
    let row = |row: &Vec<String>| (words(&row[0])[0].to_owned(), [row[1].clone(), row[2].clone()]);
    let found: BTreeMap<_, _> = rows.iter().map(row).collect();
    assert_eq!(found.len(), rows.len(), "{heading} has a reason twice");
    found
}

fn event_row(reason: &str, severity: &str, on: &str) -> (String, [String; 2]) {
    (reason.to_owned(), [severity.to_owned(), on.to_owned()])
}

#[test]
fn every_state_event_is_documented() {
    let reasons = chain(next_notice).into_iter().map(|reason| {
        let on = match reason {
            NoticeReason::Synced | NoticeReason::Overridden => "policies",
            NoticeReason::Stuck => "policies, Gateways",
            NoticeReason::Programmed | NoticeReason::NotProgrammed | NoticeReason::NotPlaced => "Gateways",
        };
        event_row(reason.as_str(), if reason.is_good() { "Normal" } else { "Warning" }, on)
    });
    assert_eq!(documented("State changes"), reasons.collect());
}

#[test]
fn every_refusal_event_is_documented() {
    let reasons = chain(next_refusal).into_iter().map(|reason| {
        let on = match reason {
            RejectionReason::WriteRejected => "policies, Gateways, GatewayClasses, ManagedClusters",
            // A class has no works.
            RejectionReason::ForeignWork => "policies, Gateways, ManagedClusters",
        };
        event_row(reason.as_str(), "Warning", on)
    });
    assert_eq!(documented("Rejected writes"), reasons.collect());
}

#[test]
fn every_problem_event_is_documented() {
    let refusals: Vec<&str> = chain(next_refusal).into_iter().map(RejectionReason::as_str).collect();
    let expected = problems().into_iter().filter(|(problem, _)| !problem.passes());
    let expected: BTreeMap<_, _> = expected
        .map(|(problem, of)| {
            let on = match of {
                Of::Policies => "policies",
                Of::Gateways => "Gateways",
                Of::Both => "policies, Gateways",
            };
            let effect = if problem.freezes() { "left unchanged" } else { "still synced" };
            (problem.category().to_owned(), ["Warning".to_owned(), on.to_owned(), effect.to_owned()])
        })
        // Omit the problems that the test of refusals covers.
        .filter(|(category, _)| !refusals.contains(&category.as_str()))
        .collect();
    let rows = rows(section(EVENTS, "Problems"));
    let found: BTreeMap<_, _> = rows
        .into_iter()
        .map(|row| (words(&row[0])[0].to_owned(), [row[1].clone(), row[2].clone(), row[3].clone()]))
        .collect();
    assert_eq!(found, expected);
}

/// The conditions in the section `heading`, each with status and reason.
fn conditions(heading: &str) -> BTreeSet<[String; 3]> {
    let mut found = BTreeSet::new();
    for row in rows(section(CONDITIONS, heading)) {
        for reason in words(&row[2]) {
            let condition = [words(&row[0])[0], words(&row[1])[0], reason].map(str::to_owned);
            assert!(found.insert(condition), "{heading} has {row:?} twice");
        }
    }
    found
}

fn all<'w>(
    condition: &str,
    words: impl Iterator<Item = (&'w str, &'w str)>,
) -> impl Iterator<Item = [String; 3]> {
    words.map(move |(status, reason)| [condition, status, reason].map(str::to_owned))
}

#[test]
fn every_class_condition_is_documented() {
    let accepted = chain(next_class).into_iter().map(ClassAccepted::status_and_reason);
    let resolved = chain(next_resolved).into_iter().map(PoliciesResolved::status_and_reason);
    let expected = all("Accepted", accepted).chain(all("PoliciesResolved", resolved));
    assert_eq!(conditions("GatewayClasses"), expected.collect());
}

#[test]
fn metrics_export_every_kind_reason() {
    assert_eq!(chain(next_kind), KindReason::ALL);
}

#[test]
fn every_gateway_condition_is_documented() {
    let problems: Vec<Problem> = problems()
        .into_iter()
        .filter(|(problem, of)| *of != Of::Policies && problem.freezes() && !problem.passes())
        .map(|(problem, _)| problem)
        .collect();
    let frozen = problems.iter().map(|problem| GatewayAccepted::Frozen(problem).status_and_reason());
    let accepted = std::iter::once(GatewayAccepted::Accepted.status_and_reason()).chain(frozen);
    let programmed = chain(next_programmed).into_iter().map(GatewayProgrammed::status_and_reason);
    let expected = all("Accepted", accepted).chain(all("Programmed", programmed));
    assert_eq!(conditions("Gateways"), expected.collect());
}

#[test]
fn conditions_that_spokes_write_are_documented() {
    let of_listeners: BTreeSet<String> = rows(section(CONDITIONS, "Listeners"))
        .iter()
        .flat_map(|row| words(&row[0]).into_iter().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    assert_eq!(of_listeners, LISTENER_CONDITIONS.map(str::to_owned).into());
    let policies =
        section(CONDITIONS, "Policies").split_once(": the conditions").map(|(_, rest)| words(rest));
    assert_eq!(policies, Some(OF_COPIES.to_vec()));
    assert!(section(CONDITIONS, "ManifestWorks").contains(&format!("`{}`", ancestors::CONDITION)));
}

#[test]
fn documented_limits_match_the_code() {
    let rows = rows(section(LIMITS, "Gateway API policies and Gateways"));
    let kib = |bytes: usize| format!("{} KiB", bytes / 1024);
    let bounds = [
        ("kinds in parameters", MAX_KINDS.to_string()),
        ("a work", kib(SIZE_LIMIT)),
        ("copies of one policy that differ", format!("{} MiB together", COPIES_LIMIT >> 20)),
        ("overrides of a policy", overrides::LIMIT.to_string()),
        ("operations of a `jsonPatch`", overrides::OPERATIONS_LIMIT.to_string()),
        ("nesting depth of a spec", DEPTH_LIMIT.to_string()),
        (
            "annotations of the controller on a policy",
            format!("{}, {} with", kib(OWN_ANNOTATIONS_LIMIT), kib(ANNOTATIONS_LIMIT)),
        ),
        ("addresses and listeners on a Gateway", format!("{ADDRESSES_LIMIT} and {LISTENERS_LIMIT}")),
        ("text in an Event", format!("1,{:03} bytes", TEXT_LIMIT - 1000)),
    ];
    for (what, bound) in bounds {
        let row = rows.iter().find(|row| row[0] == what).unwrap_or_else(|| panic!("no bound of {what}"));
        assert!(row[1].starts_with(&bound), "{what}: {} and not {bound}", row[1]);
    }
}
