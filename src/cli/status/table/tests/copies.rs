use serde_json::{Value, json};

use crate::cli::status::view::{Rows, View};
use policy_sync_api::annotations::{POLICIES_SYNCED, POLICIES_SYNCED_SUMMARY, POLICY_SYNC_MESSAGE, REVISION};
use policy_sync_api::names::{ControllerName, Origin, WorkName};
use policy_sync_api::object::HubObject;
use policy_sync_report::testing::{
    BOTH_CLUSTERS, CLUSTERS, CONTROLLER, SUMMARY, gateway, on_cluster, policy,
};
use policy_sync_report::{Item, ReportMirror};

const AT: &str = "2026-01-01T00:00:00Z";

/// A work on `eu-1` for the object `shop/<name>` of this kind. The agent reports the `conditions` as (type,
/// status, message).
fn work(resource: &str, kind: &str, name: &str, conditions: &[(&str, &str, &str)]) -> HubObject {
    let (group, plural) = resource.split_once('.').map(|(plural, group)| (group, plural)).unwrap();
    let origin = Origin::named(group, plural, "shop", name);
    let mut values = vec![json!({"name": "_revision", "fieldValue": {"type": "String", "string": "r1"}})];
    for (condition, status, message) in conditions {
        for (part, text) in [("status", status), ("reason", &"Reason"), ("message", message)] {
            let name = format!("_{condition}_{part}");
            values.push(json!({"name": name, "fieldValue": {"type": "String", "string": text}}));
        }
    }
    let paths: Vec<Value> = values.iter().map(|value| json!({"name": value["name"], "path": ".x"})).collect();
    let applied = json!({"type": "Applied", "status": "True", "reason": "R", "message": "", "observedGeneration": 1,
        "lastTransitionTime": AT});
    serde_json::from_value(json!({
        "metadata": {
            "name": WorkName::planned(&ControllerName::new(CONTROLLER), kind, &origin).to_string(), "namespace": "eu-1",
            "generation": 1, "annotations": {"kuadrant.io/parent": origin.to_string()},
        },
        "spec": {
            "workload": {"manifests": [{"kind": "Namespace"}, {"kind": kind, "metadata": {"annotations": {(REVISION): "r1"}}}]},
            "manifestConfigs": [{
                "resourceIdentifier": {"resource": plural, "name": name},
                "feedbackRules": [{"type": "JSONPaths", "jsonPaths": paths}],
            }],
        },
        "status": {"conditions": [applied], "resourceStatus": {"manifests": [{
            "resourceMeta": {"ordinal": 1, "group": group, "resource": plural},
            "conditions": [applied], "statusFeedback": {"values": values},
        }]}},
    }))
    .unwrap()
}

fn limits(conditions: &[(&str, &str, &str)]) -> HubObject {
    work("ratelimitpolicies.kuadrant.io", "RateLimitPolicy", "limits", conditions)
}

fn web(status: &str) -> HubObject {
    work("gateways.gateway.networking.k8s.io", "Gateway", "web", &[("Programmed", status, "no address")])
}

fn access() -> HubObject {
    let mut work = limits(&[]);
    work.metadata.name = WorkName::access(&ControllerName::new(CONTROLLER)).to_string();
    work
}

fn table(report_mirror: &ReportMirror) -> String {
    let view = View {
        rows: Rows::Policies,
        namespaces: true,
        wide: false,
        differences: None,
        item_filter: None,
        out_of_sync_times: None,
    };
    view.tables(&report_mirror.items(), AT.parse().unwrap(), None)
}

fn fine(report_mirror: &ReportMirror) -> Vec<bool> {
    let copies = report_mirror.items().into_iter().map(|item| match item {
        Item::Copy(report) => report.in_sync(),
        _ => panic!("no copy"),
    });
    copies.collect()
}

/// The Gateway `web`, which is placed on two clusters.
fn placed(programmed: &str) -> HubObject {
    gateway(programmed, "not on us-1", 2, BOTH_CLUSTERS)
}

fn synced(message: Option<&str>) -> HubObject {
    let mut annotations = vec![(POLICIES_SYNCED_SUMMARY, SUMMARY), (POLICIES_SYNCED, CLUSTERS)];
    annotations.extend(message.map(|message| (POLICY_SYNC_MESSAGE, message)));
    policy(&annotations)
}

#[test]
fn all_copies_on_a_cluster_are_in_one_table() {
    let overridden = ("Enforced", "False", "by local/limits");
    let all = on_cluster(&[limits(&[overridden]), web("True"), access()], &[synced(None)], &[placed("True")]);
    insta::assert_snapshot!(table(&all), @r"
    KIND              NAMESPACE   NAME     STATE         APPLIED   ENFORCED   REASON   SINCE                  MESSAGE
    access            -           -        Applied       yes       -          -        2026-01-01T00:00:00Z   -
    Gateway           shop        web      Programmed    yes       True       Reason   2026-01-01T00:00:00Z   -
    RateLimitPolicy   shop        limits   NotEnforced   yes       False      Reason   2026-01-01T00:00:00Z   by local/limits
    ");
    assert_eq!(fine(&all), [true, true, true]);
}

#[test]
fn planned_copy_without_a_work_shows_the_message_of_its_object() {
    let none = on_cluster(&[], &[synced(None)], &[placed("False")]);
    insta::assert_snapshot!(table(&none), @r"
    KIND              NAMESPACE   NAME     STATE     APPLIED   ENFORCED   REASON   SINCE   MESSAGE
    Gateway           shop        web      Pending   no        -          -        -       not on us-1
    RateLimitPolicy   shop        limits   Pending   no        -          -        -       the controller has not created its work yet
    ");
    assert_eq!(fine(&none), [false, false]);
    // The Gateway's message covers all clusters; the work has more detail for this cluster.
    let copied = on_cluster(&[web("True")], &[], &[placed("False")]);
    assert_eq!(fine(&copied), [true]);
    assert!(!table(&copied).contains("not on us-1"), "{}", table(&copied));
}

#[test]
fn frozen_unprogrammed_or_terminating_copy_is_out_of_sync() {
    let frozen = on_cluster(&[limits(&[])], &[synced(Some("namespace is reserved"))], &[]);
    assert_eq!(fine(&frozen), [false]);
    assert!(table(&frozen).contains("namespace is reserved"), "{}", table(&frozen));
    let not_programmed = on_cluster(&[web("False")], &[], &[]);
    assert_eq!(fine(&not_programmed), [false]);
    assert!(table(&not_programmed).contains("no address"), "{}", table(&not_programmed));
    let mut going = limits(&[]);
    going.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-02T00:00:00Z")).ok();
    let going = on_cluster(&[going], &[], &[]);
    assert_eq!(fine(&going), [false]);
    assert!(
        table(&going).contains("deleting") && table(&going).contains("2026-01-02T00:00:00Z"),
        "{}",
        table(&going)
    );
}

#[test]
fn work_of_another_controller_is_left_out() {
    let mut foreign = limits(&[]);
    foreign.metadata.name = "ratelimitpolicy-limits-0".into();
    assert!(on_cluster(&[foreign], &[], &[]).items().is_empty());
    let is_fine = |works: &[HubObject], policies: &[HubObject]| fine(&on_cluster(works, policies, &[]));
    assert_eq!(is_fine(&[limits(&[])], &[synced(None)]), [true]);
    assert_eq!(is_fine(&[], &[synced(None)]), [false], "it is still to be there");
    assert!(is_fine(&[], &[]).is_empty());
}
