//! Sample objects and reports for the tests of reports and of their output.

#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;
use serde_json::{Value, json};

use super::kinds::GATEWAY_WORKS;
use super::*;
use policy_sync_api::annotations::GATEWAY_CLUSTERS;
use policy_sync_api::names::{
    ClusterName, ControllerName, GroupVersionResource, ObjectKey, Origin, WorkName,
};
use policy_sync_api::object::HubObject;
use policy_sync_api::params::Role;
use policy_sync_mirror::{ObjectRow, Scope};

pub const CONTROLLER: &str = "kuadrant.io/policy-sync";

pub const SUMMARY: &str =
    r#"{"clusters":2,"applied":2,"enforced":1,"overridden":1,"pending":0,"synced":true}"#;
pub const CLUSTERS: &str = r#"[
    {"cluster":"eu-1","name":"limits","namespace":"kuadrant-shop","applied":true,
     "conditions":[{"type":"Enforced","status":"False","reason":"Overridden","message":"by local/limits"}]},
    {"cluster":"us-1","name":"limits","namespace":"kuadrant-shop","applied":true,
     "conditions":[{"type":"Enforced","status":"True","reason":"Enforced"}]}]"#;

pub fn kind() -> ServedKind {
    let served = APIResource { kind: "RateLimitPolicy".into(), ..APIResource::default() };
    ServedKind::new(
        Role::Policy,
        GroupVersionResource::new("kuadrant.io", "v1", "ratelimitpolicies"),
        &served,
    )
}

/// The policy `shop/limits` with these annotations.
pub fn policy(annotations: &[(&str, &str)]) -> HubObject {
    let mut object: HubObject = serde_json::from_value(json!({
        "metadata": {"name": "limits", "namespace": "shop", "creationTimestamp": "2026-01-01T00:00:00Z"},
    }))
    .unwrap();
    object.metadata.annotations = annotations
        .iter()
        .map(|(key, text)| ((*key).to_owned(), (*text).to_owned()))
        .collect::<BTreeMap<_, _>>();
    object
}

/// The report on a policy with these annotations.
pub fn report(annotations: &[(&str, &str)]) -> PolicyReport {
    let object = policy(annotations);
    PolicyReport::new(&kind(), object.key(), &PolicyRow::prune(&object, &ControllerName::new(CONTROLLER)))
}

/// A Gateway with generation 2 on these clusters, with conditions for the generation `observed`.
pub fn gateway(programmed: &str, message: &str, observed: i64, clusters: &str) -> HubObject {
    let condition = |name: &str, status: &str, message: &str| {
        json!({"type": name, "status": status, "reason": "R", "message": message, "observedGeneration": observed,
               "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let addresses = ["eu-1/192.0.2.1", "us-1/192.0.2.2"].map(|value| json!({"type": "T", "value": value}));
    serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "shop", "generation": 2,
            "creationTimestamp": "2026-01-01T00:00:00Z", "annotations": {(GATEWAY_CLUSTERS): clusters}},
        "spec": {"gatewayClassName": "multi"},
        "status": {
            "conditions": [condition("Accepted", "True", ""), condition("Programmed", programmed, message)],
            "addresses": addresses,
        },
    }))
    .unwrap()
}

/// The work of the Gateway `web` in `cluster`, with this status from the agent.
pub fn gateway_work(cluster: &str, programmed: Option<&str>, unplaced: bool, deleting: bool) -> HubObject {
    let origin = Origin::Gateway(ObjectKey::new("shop", "web"));
    let controller = ControllerName::new(CONTROLLER);
    let unplaced = unplaced.then_some("2026-01-05T05:59:00Z");
    let condition = |message: &str| {
        json!({"type": "Applied", "status": if programmed.is_some() { "True" } else { "False" }, "reason": "R",
               "message": message, "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let value =
        |name: &str, text: &str| json!({"name": name, "fieldValue": {"type": "String", "string": text}});
    let names = ["_revision", "_Programmed_status", "_Programmed_reason"];
    let values = [("r1"), programmed.unwrap_or_default(), "AddressNotUsable"];
    let paths: Vec<Value> = names.iter().map(|name| json!({"name": name, "path": ".x"})).collect();
    serde_json::from_value(json!({
        "metadata": {
            "name": WorkName::planned(&controller, "Gateway", &origin).to_string(), "namespace": cluster, "generation": 1,
            "deletionTimestamp": deleting.then_some("2026-01-05T00:00:00Z"),
            "annotations": {"kuadrant.io/parent": origin.to_string(), "kuadrant.io/displaced-since": unplaced.unwrap_or("-")},
        },
        "spec": {
            "workload": {"manifests": [{"metadata": {"annotations": {"kuadrant.io/revision": "r1"}}}]},
            "manifestConfigs": [{
                "resourceIdentifier": {"resource": "gateways", "name": "web"},
                "feedbackRules": [{"type": "JSONPaths", "jsonPaths": paths}],
            }],
        },
        "status": {
            "conditions": [condition("1 of 1")],
            "resourceStatus": {"manifests": [{
                "resourceMeta": {"ordinal": 0, "group": "gateway.networking.k8s.io", "resource": "gateways"},
                "conditions": [condition("conflict with \"kubectl\"")],
                "statusFeedback": {"values": names.iter().zip(values).map(|(name, text)| value(name, text)).collect::<Vec<_>>()},
            }]},
        },
    }))
    .unwrap()
}

pub const BOTH_CLUSTERS: &str = r#"["eu-1","us-1"]"#;

/// An empty mirror with the class `multi`.
fn report_mirror() -> ReportMirror {
    let mut report_mirror = ReportMirror::new(ControllerName::new(CONTROLLER), Scope::All);
    report_mirror.classes = ["multi".into()].into();
    report_mirror.gateways = true;
    report_mirror
}

/// The report on `gateway`; `works` are `None` if the user may not read them.
pub fn gateway_report(gateway: &HubObject, works: Option<&[HubObject]>) -> GatewayReport {
    let mut report_mirror = report_mirror();
    report_mirror.list(&report_mirror.gateways_source(), [gateway]);
    if let Some(works) = works {
        report_mirror.list(&GATEWAY_WORKS.all(), works);
        report_mirror.works = true;
    }
    match report_mirror.items().pop() {
        Some(Item::Gateway(report)) => *report,
        other => panic!("{other:?}"),
    }
}

/// The Gateway `web` on two clusters, with its works.
pub fn gateway_on_two_clusters(programmed: &str) -> GatewayReport {
    let works = [
        gateway_work("eu-1", Some("True"), false, false),
        gateway_work("us-1", Some(programmed), false, false),
    ];
    gateway_report(&gateway(programmed, "not on us-1", 2, BOTH_CLUSTERS), Some(&works))
}

/// The objects of a hub with the one cluster `eu-1`: these works, policies and Gateways.
pub fn on_cluster(works: &[HubObject], policies: &[HubObject], gateways: &[HubObject]) -> ReportMirror {
    let mut report_mirror = report_mirror();
    report_mirror.kinds = vec![kind()];
    report_mirror.cluster = Some(ClusterName::from("eu-1"));
    report_mirror.list(&ReportMirror::copies_source(&ClusterName::from("eu-1")), works);
    report_mirror.list(&report_mirror.policies_source(&kind()), policies);
    report_mirror.list(&report_mirror.gateways_source(), gateways);
    report_mirror
}
