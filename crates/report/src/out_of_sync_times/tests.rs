use serde_json::{Value, json};

use super::*;
use crate::policy::{PolicyReport, PolicyRow};
use crate::testing::{BOTH_CLUSTERS, CONTROLLER, SUMMARY, gateway, gateway_report, policy, report};
use policy_sync_api::annotations::{POLICIES_SYNCED, POLICIES_SYNCED_DETAIL, POLICIES_SYNCED_SUMMARY};
use policy_sync_api::names::{Origin, WorkName};
use policy_sync_mirror::ObjectRow;

const CREATED: &str = "2026-01-01T00:00:00Z";
const CHANGED_AT: &str = "2026-01-02T00:00:00Z";
const REPORTED_AT: &str = "2026-01-03T00:00:00Z";

fn origin() -> Origin {
    Origin::named("kuadrant.io", "ratelimitpolicies", "shop", "limits")
}

/// A work for `shop/limits` whose spec was changed at [`CHANGED_AT`], and whose agent set `Applied` at [`REPORTED_AT`].
fn work(generation: i64, applied: Option<&str>) -> Value {
    let fields = |name: &str| json!({name: {"f:a": {}}});
    let condition = |status: &str| {
        json!({"type": "Applied", "status": status, "reason": "R", "message": "no", "observedGeneration": 1,
               "lastTransitionTime": REPORTED_AT})
    };
    let name = WorkName::planned(&ControllerName::new(CONTROLLER), "RateLimitPolicy", &origin()).to_string();
    json!({
        "metadata": {
            "name": name, "namespace": "eu-1", "generation": generation, "creationTimestamp": CREATED,
            "annotations": {"kuadrant.io/parent": origin().to_string()},
            "managedFields": [
                {"manager": "a", "operation": "Update", "time": CHANGED_AT, "fieldsV1": fields("f:spec")},
                {"manager": "b", "operation": "Update", "time": "2026-01-09T00:00:00Z", "fieldsV1": fields("f:metadata")},
                {"manager": "c", "operation": "Update", "subresource": "status", "time": "2026-01-09T00:00:00Z",
                 "fieldsV1": fields("f:spec")},
            ],
        },
        "spec": {"workload": {"manifests": [
            {"kind": "RateLimitPolicy", "metadata": {"annotations": {"kuadrant.io/revision": "r1"}}},
        ]}},
        "status": {"conditions": applied.map(condition).into_iter().collect::<Vec<_>>()},
    })
}

fn waits_since(work: Value) -> Option<String> {
    let work: HubObject = serde_json::from_value(work).unwrap();
    let keys = BTreeSet::from([ItemKey::copy(Some(&origin()))]);
    earliest(&[work], &ControllerName::new(CONTROLLER), &keys).into_values().next().map(|at| at.to_string())
}

#[test]
fn work_waits_since_the_agent_failed_or_else_since_it_was_changed() {
    assert_eq!(waits_since(work(1, Some("False"))).as_deref(), Some(REPORTED_AT));
    assert_eq!(waits_since(work(1, None)).as_deref(), Some(CHANGED_AT));
    // An older generation of the work is applied.
    assert_eq!(waits_since(work(2, Some("True"))).as_deref(), Some(CHANGED_AT));
    let mut unnoted = work(1, None);
    unnoted["metadata"]["managedFields"] = json!([]);
    assert_eq!(waits_since(unnoted).as_deref(), Some(CREATED));
    let mut going = work(1, Some("False"));
    going["metadata"]["deletionTimestamp"] = json!("2026-01-04T00:00:00Z");
    assert_eq!(waits_since(going).as_deref(), Some("2026-01-04T00:00:00Z"));
}

#[test]
fn works_of_other_policies_are_ignored() {
    let work: HubObject = serde_json::from_value(work(1, None)).unwrap();
    let other =
        BTreeSet::from([ItemKey::copy(Some(&Origin::named("kuadrant.io", "others", "shop", "limits")))]);
    assert!(earliest(&[work], &ControllerName::new(CONTROLLER), &other).is_empty());
}

/// The policy `shop/<name>`, whose current revision `us-1` lacks.
fn lagging(name: &str) -> Item {
    let summary = SUMMARY.replace("\"applied\":2", "\"applied\":1").replace("true", "false");
    let clusters = r#"[{"cluster":"ap-1","name":"l","namespace":"n","deleting":true},
        {"cluster":"eu-1","name":"l","namespace":"n","applied":true},{"cluster":"us-1","name":"l","namespace":"n"}]"#;
    let mut report = report(&[(POLICIES_SYNCED_SUMMARY, &summary), (POLICIES_SYNCED, clusters)]);
    report.origin = Origin::named("kuadrant.io", "ratelimitpolicies", "shop", name);
    report.into()
}

#[test]
fn clusters_that_lack_the_policy_are_missing() {
    let limits = lagging("limits");
    assert_eq!(limits.policy().unwrap().missing(), Some(vec!["us-1"]));
    let clusters_for = |only| {
        clusters_to_read(&[&limits], only).into_keys().map(|name| name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(clusters_for(None), ["us-1"]);
    assert_eq!(clusters_for(Some("us-1")), ["us-1"]);
    assert!(clusters_for(Some("eu-1")).is_empty());
    assert_eq!(limits.json()["missing"], json!(["us-1"]));
    assert_eq!(limits.on("us-1").unwrap().json()["missing"], json!(["us-1"]));
    assert_eq!(limits.on("eu-1").unwrap().json()["missing"], json!([]));
}

#[test]
fn missing_clusters_are_unknown_if_the_list_omits_states() {
    let keys =
        r#"[{"cluster":"eu-1","name":"l","namespace":"n"},{"cluster":"us-1","name":"l","namespace":"n"}]"#;
    let with = |summary: &str| {
        let of =
            [(POLICIES_SYNCED_SUMMARY, summary), (POLICIES_SYNCED, keys), (POLICIES_SYNCED_DETAIL, "keys")];
        report(&of).missing().map(|missing| missing.len())
    };
    assert_eq!(with(&SUMMARY.replace("true", "false")), None);
    assert_eq!(with(SUMMARY), Some(0), "the summary says that there are none");
    assert_eq!(report(&[(POLICIES_SYNCED_SUMMARY, "?")]).missing(), None);
    assert_eq!(report(&[]).missing(), Some(Vec::new()));
}

#[test]
fn longest_wait_is_first_and_unknown_waits_are_last() {
    let items = ["a", "b", "c", "d"].map(lagging);
    let at = |text: &str| text.parse::<Timestamp>().unwrap();
    let out_of_sync_times =
        OutOfSyncTimes(BTreeMap::from([(items[1].key(), at(REPORTED_AT)), (items[3].key(), at(CHANGED_AT))]));
    let mut sorted: Vec<&Item> = items.iter().collect();
    out_of_sync_times.sort(&mut sorted);
    let names: Vec<String> = sorted.iter().map(|item| item.key().name).collect();
    assert_eq!(names, ["d", "b", "a", "c"]);
    assert_eq!(
        (out_of_sync_times.since(&items[3]), out_of_sync_times.since(&items[0])),
        (Some(at(CHANGED_AT)), None)
    );
}

#[test]
fn policy_without_works_waits_since_its_annotations_changed() {
    let mut object = policy(&[]);
    let entry = |manager: &str, time: &str| json!({"manager": manager, "operation": "Apply", "time": time});
    let ours = ControllerName::new(CONTROLLER).hub_field_manager();
    object.metadata.managed_fields =
        serde_json::from_value(json!([entry("kubectl", CREATED), entry(&ours, REPORTED_AT)])).unwrap();
    let row = PolicyRow::prune(&object, &ControllerName::new(CONTROLLER));
    let kind = crate::testing::kind();
    let item = Item::from(PolicyReport::new(&kind, object.key(), &row));
    assert_eq!(since(&item, &BTreeMap::new()).unwrap().to_string(), REPORTED_AT);
    let works = BTreeMap::from([(ItemKey::copy(Some(&origin())), CHANGED_AT.parse().unwrap())]);
    assert_eq!(since(&item, &works).unwrap().to_string(), CHANGED_AT);
}

#[test]
fn gateway_waits_since_its_false_condition_of_the_current_generation() {
    let since_of = |programmed: &str, observed: i64| {
        let gateway = gateway_report(&gateway(programmed, "x", observed, BOTH_CLUSTERS), None);
        since(&Item::from(gateway), &BTreeMap::new()).map(|at| at.to_string())
    };
    assert_eq!(since_of("False", 2).as_deref(), Some(CREATED));
    assert_eq!(since_of("False", 1), None);
    assert_eq!(since_of("True", 2), None);
}
