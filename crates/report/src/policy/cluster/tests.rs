use super::*;
use crate::testing::{CLUSTERS, SUMMARY, report};
use policy_sync_api::annotations::{
    POLICIES_SYNCED, POLICIES_SYNCED_DETAIL, POLICIES_SYNCED_SUMMARY, POLICY_SYNC_MESSAGE,
};

const KEYS: &str = r#"[{"cluster":"eu-1","name":"limits","namespace":"kuadrant-shop"}]"#;

fn cut(detail: &str, clusters: usize, synced: bool) -> PolicyReport {
    let summary = format!(
        r#"{{"clusters":{clusters},"applied":1,"enforced":0,"overridden":0,"pending":0,"synced":{synced}}}"#
    );
    report(&[(POLICIES_SYNCED_SUMMARY, &summary), (POLICIES_SYNCED, KEYS), (POLICIES_SYNCED_DETAIL, detail)])
}

#[test]
fn report_of_one_cluster_has_one_entry() {
    let lagging = CLUSTERS.replacen("\"applied\":true", "\"applied\":false", 1);
    let summary = SUMMARY.replace("\"synced\":true", "\"synced\":false");
    let report = report(&[(POLICIES_SYNCED_SUMMARY, &summary), (POLICIES_SYNCED, &lagging)]);
    let (eu, us) = (report.on("eu-1").unwrap(), report.on("us-1").unwrap());
    assert_eq!((eu.in_sync(), us.in_sync()), (false, true));
    let json = us.json();
    assert_eq!(json["clusters"].as_array().unwrap().len(), 1);
    assert_eq!((&json["clusters"][0]["cluster"], &json["inSync"]), (&json!("us-1"), &json!(true)));
    assert!(report.on("ap-1").is_none());
}

#[test]
fn policy_without_annotations_is_on_no_cluster() {
    assert!(report(&[]).on("eu-1").is_none());
}

#[test]
fn cluster_that_a_truncated_list_omits_is_unknown() {
    let report = cut("first 1 of 9", 9, false);
    assert!(report.faults.is_empty(), "{:?}", report.faults);
    let on = report.on("us-1").unwrap();
    assert!(on.entry.is_none() && !on.in_sync());
    assert_eq!(on.json()["clusters"], Value::Null);
    assert!(cut("first 1 of 9", 9, true).on("us-1").unwrap().in_sync());
}

#[test]
fn list_of_names_shows_clusters_without_states() {
    let report = cut("keys", 1, false);
    assert!(report.on("us-1").is_none());
    let on = report.on("eu-1").unwrap();
    assert!(on.entry.is_some() && on.state().is_none() && !on.in_sync());
    assert!(cut("keys", 1, true).on("eu-1").unwrap().in_sync());
}

#[test]
fn clusters_of_an_unreadable_list_are_unknown() {
    for unreadable in [
        report(&[(POLICIES_SYNCED_SUMMARY, SUMMARY), (POLICIES_SYNCED, "[{}]")]),
        report(&[(POLICIES_SYNCED_SUMMARY, SUMMARY)]),
        report(&[(POLICIES_SYNCED, CLUSTERS)]),
        report(&[(POLICY_SYNC_MESSAGE, "no room")]),
        // The list was shortened by hand.
        cut("full", 2, true),
        cut("first 1 of 8", 9, true),
        cut("first some of many", 1, true),
    ] {
        let on = unreadable.on("us-2").unwrap();
        assert!(on.entry.is_none() && !on.in_sync(), "{unreadable:?}");
    }
}
