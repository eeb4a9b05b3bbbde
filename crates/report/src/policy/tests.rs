use super::*;
use crate::testing::{CLUSTERS, SUMMARY, report};

#[test]
fn annotations_of_the_controller_are_parsed() {
    let report = report(&[(POLICIES_SYNCED_SUMMARY, SUMMARY), (POLICIES_SYNCED, CLUSTERS)]);
    assert!(report.in_sync() && report.faults.is_empty());
    assert_eq!(report.overridden(), Some(vec!["eu-1"]));
    assert_eq!(report.summary.value().unwrap().applied, 2);
    assert_eq!(report.json()["clusters"][0]["conditions"][0]["message"], "by local/limits");
}

#[test]
fn policy_without_annotations_is_in_sync() {
    let report = report(&[]);
    assert!(report.in_sync() && report.faults.is_empty());
    assert_eq!((report.overridden(), report.first_message()), (None, None));
}

#[test]
fn policy_with_a_message_or_a_lagging_cluster_is_out_of_sync() {
    let lags = SUMMARY.replace("true", "false");
    assert!(!report(&[(POLICIES_SYNCED_SUMMARY, &lags), (POLICIES_SYNCED, CLUSTERS)]).in_sync());
    let frozen = report(&[
        (POLICIES_SYNCED_SUMMARY, SUMMARY),
        (POLICIES_SYNCED, CLUSTERS),
        (POLICY_SYNC_MESSAGE, "namespace is reserved"),
    ]);
    assert!(!frozen.in_sync());
    assert_eq!(frozen.first_message().as_deref(), Some("namespace is reserved"));
}

#[test]
fn first_message_names_the_cluster_in_the_worst_state() {
    let message = |entries: &[&str]| {
        let entries = entries.iter().zip(["ap-1", "eu-1", "us-1"]);
        let entries = entries.map(|(rest, cluster)| {
            format!(r#"{{"cluster":"{cluster}","name":"limits","namespace":"n","applied":true,{rest}}}"#)
        });
        let clusters = format!("[{}]", entries.collect::<Vec<_>>().join(","));
        report(&[(POLICIES_SYNCED_SUMMARY, SUMMARY), (POLICIES_SYNCED, &clusters)]).first_message()
    };
    let condition = |status: &str, reason: &str, text: &str| {
        format!(
            r#""conditions":[{{"type":"Enforced","status":"{status}","reason":"{reason}","message":"{text}"}}]"#
        )
    };
    let enforced = &*condition("True", "Enforced", "it is enforced");
    let overridden = &*condition("False", "Overridden", "overridden by [shop/other]");
    let missing = &*condition("False", "MissingResource", "no Limitador");
    let silent = r#""conditions":[{"type":"Enforced","status":"False","reason":"Overriden"}]"#;
    let removing = r#""deleting":true"#;
    for (entries, expected) in [
        (&[enforced, enforced][..], None),
        (&[enforced, removing], None),
        (&[enforced, overridden], Some("eu-1: Overridden: overridden by [shop/other]")),
        (&[removing, overridden, overridden], Some("eu-1: Overridden: overridden by [shop/other]")),
        (&[enforced, silent], Some("eu-1: Overridden")),
        (&[overridden, enforced, missing], Some("us-1: NotEnforced: MissingResource: no Limitador")),
    ] {
        assert_eq!(message(entries).as_deref(), expected, "{entries:?}");
    }
}

#[test]
fn unreadable_annotations_are_faults() {
    let deep = "[".repeat(100_000);
    for text in ["", "null", "{}", "[{}]", "[1]", "{\"clusters\":-1}", "\u{0}", deep.as_str()] {
        let report = report(&[(POLICIES_SYNCED_SUMMARY, text), (POLICIES_SYNCED, text)]);
        assert_eq!(
            (&report.summary, &report.clusters),
            (&AnnotationValue::Invalid, &AnnotationValue::Invalid),
            "{text:.20}"
        );
        assert_eq!(report.faults.len(), 2);
        assert!(!report.in_sync());
    }
    let half = report(&[(POLICIES_SYNCED, "[]")]);
    assert_eq!(half.faults, ["annotation kuadrant.io/policies-synced-summary is missing"]);
}

#[test]
fn shortened_list_shows_no_states() {
    let keys = r#"[{"cluster":"eu-1","name":"limits","namespace":"kuadrant-shop"}]"#;
    let summary = SUMMARY.replace("\"clusters\":2", "\"clusters\":9");
    for (detail, faults) in [("first 1 of 9", 0), ("keys", 1), ("first 2 of 9", 1), ("something new", 1)] {
        let report = report(&[
            (POLICIES_SYNCED_SUMMARY, &summary),
            (POLICIES_SYNCED, keys),
            (POLICIES_SYNCED_DETAIL, detail),
        ]);
        assert_eq!((report.overridden(), report.faults.len()), (None, faults), "{:?}", report.faults);
        assert!(report.json()["clusters"][0].get("applied").is_none());
    }
}

#[test]
fn states_that_a_list_omits_are_derived_from_the_summary() {
    let minimal = |conditions: [&str; 2], summary: &str| {
        let entry = |cluster: &str, rest: &str| {
            format!(r#"{{"cluster":"{cluster}","name":"limits","namespace":"n","applied":true{rest}}}"#)
        };
        let list = format!("[{},{}]", entry("eu-1", conditions[0]), entry("us-1", conditions[1]));
        let summary = format!(r#"{{"clusters":2,"applied":2,"pending":0,"synced":true,{summary}}}"#);
        let report = report(&[
            (POLICIES_SYNCED_SUMMARY, &summary),
            (POLICIES_SYNCED, &list),
            (POLICIES_SYNCED_DETAIL, "minimal"),
        ]);
        report.states().into_values().collect::<Vec<_>>()
    };
    let (enforced, unknown) = (Some(PolicyState::Enforced), Some(PolicyState::Unknown));
    let (none, partial) = ("", r#","partial":true"#);
    let overridden = r#","conditions":[{"type":"Enforced","status":"False","reason":"Overridden"}]"#;
    let not_ready =
        r#","conditions":[{"type":"Enforced","status":"True"},{"type":"Ready","status":"False"}]"#;
    let frozen = r#","frozen":"BadSelector""#;
    for (conditions, summary, expected) in [
        ([none, none], r#""enforced":2,"overridden":0"#, [enforced, enforced]),
        ([none, none], r#""enforced":0,"overridden":0,"unknown":2"#, [unknown, unknown]),
        // The list does not show which cluster has which state.
        ([none, none], r#""enforced":1,"overridden":0,"unknown":1"#, [None, None]),
        ([none, overridden], r#""enforced":1,"overridden":1"#, [enforced, Some(PolicyState::Overridden)]),
        (
            [none, partial],
            r#""enforced":2,"overridden":0,"partial":1"#,
            [enforced, Some(PolicyState::PartiallyEnforced)],
        ),
        ([none, not_ready], r#""enforced":1,"overridden":0,"unknown":1"#, [unknown, enforced]),
        // The frozen entry may be the one that is counted as enforced.
        ([none, frozen], r#""enforced":1,"overridden":0,"frozen":1"#, [None, Some(PolicyState::Frozen)]),
        ([none, frozen], r#""enforced":2,"overridden":0,"frozen":1"#, [enforced, Some(PolicyState::Frozen)]),
    ] {
        assert_eq!(minimal(conditions, summary), expected, "{conditions:?} {summary}");
    }
}
