use std::sync::Arc;

use super::*;
use policy_sync_api::moment::Moment;
use policy_sync_api::rego_policy::EnforcementAction;
use policy_sync_rego::bundle::Bundle;
use policy_sync_rego::fault::{Fault, Faults};
use policy_sync_rego::module::{ModuleId, Text};
use policy_sync_rego::selection::{LoadedText, RejectionCause};

const ADMISSION: &str = "package admission\nimport data.lib\ndeny[\"no\"] { lib.bad }";

fn refused() -> LoadOutcome {
    let fault =
        Fault { module: ModuleId::new("policies/a/a.rego"), place: None, text: "is wrong".to_owned() };
    LoadOutcome::Rejected { faults: Faults { listed: vec![fault], more: 0 }, cause: RejectionCause::Faults }
}

fn pending(why: Option<&str>) -> LoadOutcome {
    LoadOutcome::Pending(vec![PendingDependency { what: "pods".to_owned(), why: why.map(str::to_owned) }])
}

/// The denied packages, if `ADMISSION` is in force and a module of this package has this outcome.
fn denied(outcome: LoadOutcome, package: Option<&str>, good: bool) -> Vec<(&'static str, String)> {
    denied_at(Moment(0), true, outcome, package, good)
}

fn denied_at(
    now: Moment,
    is_new: bool,
    outcome: LoadOutcome,
    package: Option<&str>,
    good: bool,
) -> Vec<(&'static str, String)> {
    let in_force = good.then(|| LoadedText { text: "…".into(), enforcement: EnforcementAction::Deny });
    let (text, since, advice, notes) = (Arc::from("…"), Moment(0), Vec::new(), Default::default());
    let verdict = Verdict {
        text,
        outcome,
        since,
        package: package.map(str::to_owned),
        in_force,
        is_new,
        enforcement: None,
        advice,
        notes,
    };
    let text = Text { id: ModuleId::new("policies/b/b.rego"), text: ADMISSION.into() };
    let verdicts = Verdicts {
        modules: [(ModuleId::new("policies/a/a.rego"), verdict)].into(),
        bundle: Bundle::read(&[text]).unwrap(),
        ..Verdicts::default()
    };
    denials(&verdicts, now).into_iter().collect()
}

fn packages(outcome: LoadOutcome, package: Option<&str>, good: bool) -> Vec<&'static str> {
    denied(outcome, package, good).into_iter().map(|(package, _)| package).collect()
}

#[test]
fn packages_affected_by_an_unavailable_policy_are_denied() {
    for asked in PURPOSES {
        assert_eq!(packages(refused(), Some(asked), false), [asked]);
    }
    assert_eq!(packages(refused(), None, false).len(), PURPOSES.len(), "whose package is not known: all");
    assert_eq!(packages(refused(), Some("lib"), false), ["admission"], "who refers to it");
    assert_eq!(packages(refused(), Some("other"), false), [""; 0]);
    let why = "Rego policy policies/a/a.rego is unavailable: policies/a/a.rego: is wrong";
    assert_eq!(denied(refused(), Some("authorization"), false), [("authorization", why.to_owned())]);
}

#[test]
fn last_good_text_counts_and_new_modules_may_wait_a_second() {
    assert_eq!(packages(refused(), None, true), [""; 0]);
    assert_eq!(packages(LoadOutcome::Loaded, Some("admission"), false), [""; 0], "another takes its place");
    let waits = |now: i64, is_new: bool, good: bool| {
        denied_at(Moment(now), is_new, pending(Some("no answer")), Some("admission"), good)
    };
    assert_eq!(waits(999, true, false), [], "as if it were not written yet");
    let why = "Rego policy policies/a/a.rego is unavailable: it waits for pods (no answer)";
    let expected = [("admission", why.to_owned())];
    assert_eq!(waits(1_000, true, false), expected, "not for ever");
    assert_eq!(waits(999, false, false), expected, "it was refused, or in force");
    assert_eq!(waits(5_000, false, true), []);
}
