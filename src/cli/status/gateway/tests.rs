use super::super::item::Item;
use super::super::view::{Rows, View};
use super::*;
use crate::api::names::{ControllerName, ObjectKey, Parent, WorkName};

const CONTROLLER: &str = "kuadrant.io/policy-sync";

/// A Gateway of the generation 2 on these clusters, which says so of the generation `observed`.
fn gateway(programmed: &str, message: &str, observed: i64, clusters: &str) -> HubObject {
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

/// A work for it, of which its agent says this.
fn work(programmed: Option<&str>, displaced: bool, deleting: bool) -> Work {
    let parent = Parent::gateway(ObjectKey::new("shop", "web"));
    let controller = ControllerName::new(CONTROLLER);
    let displaced = displaced.then_some("2026-01-05T05:59:00Z");
    let condition = |message: &str| {
        json!({"type": "Applied", "status": if programmed.is_some() { "True" } else { "False" }, "reason": "R",
               "message": message, "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let value =
        |name: &str, text: &str| json!({"name": name, "fieldValue": {"type": "String", "string": text}});
    let names = ["_revision", "_Programmed_status", "_Programmed_reason"];
    let values = [("r1"), programmed.unwrap_or_default(), "AddressNotUsable"];
    let paths: Vec<Value> = names.iter().map(|name| json!({"name": name, "path": ".x"})).collect();
    let object: HubObject = serde_json::from_value(json!({
        "metadata": {
            "name": WorkName::of(&controller, "Gateway", &parent).to_string(), "namespace": "eu-1", "generation": 1,
            "deletionTimestamp": deleting.then_some("2026-01-05T00:00:00Z"),
            "annotations": {"kuadrant.io/parent": parent.to_string(), "kuadrant.io/displaced-since": displaced.unwrap_or("-")},
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
    .unwrap();
    Work::new(&object, &controller)
}

fn works(all: &[(&str, Work)]) -> Works {
    all.iter().map(|(cluster, work)| (ClusterName::from(*cluster), work.clone())).collect()
}

const BOTH: &str = r#"["eu-1","us-1"]"#;

/// The Gateway `web` on two clusters, with its works.
pub(in crate::cli::status) fn on_two(programmed: &str) -> GatewayReport {
    let here =
        works(&[("eu-1", work(Some("True"), false, false)), ("us-1", work(Some(programmed), false, false))]);
    GatewayReport::new(&gateway(programmed, "not on us-1", 2, BOTH), "multi", Some(&here))
}

fn table(reports: &[GatewayReport], rows: Rows, wide: bool) -> String {
    let items: Vec<Item> = reports.iter().cloned().map(Item::from).collect();
    let view = View { rows, namespaces: true, wide, differences: None };
    view.tables(&items, "2026-01-05T06:00:00Z".parse().unwrap())
}

#[test]
fn gateways_are_rows() {
    let all = on_two("True");
    let one = on_two("False");
    assert!(all.in_sync() && !one.in_sync());
    let stale = GatewayReport::new(&gateway("True", "", 1, BOTH), "multi", None);
    assert!(!stale.in_sync());
    let many = (1..=5).map(|index| format!("\"eu-{index}\"")).collect::<Vec<_>>().join(",");
    let many = GatewayReport::new(&gateway("True", "", 2, &format!("[{many}]")), "multi", None);
    let new = GatewayReport::new(&gateway("True", "", 1, "[]"), "multi", Some(&Works::new()));
    insta::assert_snapshot!(table(&[all, one, stale, many, new], Rows::Policies, false), @r"
    NAMESPACE   NAME   CLASS   CLUSTERS            PROGRAMMED   ACCEPTED   MESSAGE                                                     AGE
    shop        web    multi   eu-1,us-1           2/2          True       -                                                           4d6h
    shop        web    multi   eu-1,us-1           1/2          True       not on us-1                                                 4d6h
    shop        web    multi   eu-1,us-1           ?/2          ?          the controller has said nothing of its present generation   4d6h
    shop        web    multi   eu-1,eu-2,eu-3,+2   5/5          True       -                                                           4d6h
    shop        web    multi   -                   -            ?          the controller has said nothing of its present generation   4d6h
    ");
}

#[test]
fn wide_rows_name_addresses_and_clusters_in_grace() {
    let displaced = works(&[
        ("eu-1", work(Some("True"), true, false)),
        ("us-1", work(None, false, false)),
        ("ap-1", work(Some("True"), true, true)),
    ]);
    let displaced = GatewayReport::new(&gateway("False", "refused", 2, BOTH), "multi", Some(&displaced));
    let unread = GatewayReport::new(&gateway("False", "refused", 2, BOTH), "multi", None);
    insta::assert_snapshot!(table(&[displaced.clone(), unread], Rows::Policies, true), @r"
    NAMESPACE   NAME   CLASS   CLUSTERS    PROGRAMMED   ACCEPTED   ADDRESSES                       IN GRACE   MESSAGE   AGE
    shop        web    multi   eu-1,us-1   1/2          True       eu-1/192.0.2.1,us-1/192.0.2.2   eu-1       refused   4d6h
    shop        web    multi   eu-1,us-1   ?/2          True       eu-1/192.0.2.1,us-1/192.0.2.2   ?          refused   4d6h
    ");
    let json = displaced.json();
    assert_eq!(
        json["clusters"][1],
        json!({"cluster": "eu-1", "applied": true, "programmed": true, "deleting": false,
        "displacedSince": "2026-01-05T05:59:00Z", "message": null})
    );
    let names: Vec<_> =
        json["clusters"].as_array().unwrap().iter().map(|cluster| &cluster["cluster"]).collect();
    assert_eq!(names, ["ap-1", "eu-1", "us-1"]);
}

#[test]
fn one_cluster_has_a_row_for_each_gateway_that_is_there_or_is_to_be() {
    let here = works(&[("us-1", work(None, false, false)), ("ap-1", work(Some("True"), true, true))]);
    let web = GatewayReport::new(&gateway("False", "refused", 2, BOTH), "multi", Some(&here));
    let on = |cluster: &str| table(std::slice::from_ref(&web), Rows::OnCluster(cluster.to_owned()), true);
    let all: String = ["eu-1", "us-1", "ap-1"].map(on).concat();
    insta::assert_snapshot!(all, @r#"
    NAMESPACE   NAME   CLASS   APPLIED   PROGRAMMED   ADDRESSES   IN GRACE SINCE   MESSAGE   AGE
    shop        web    multi   no        no           192.0.2.1   -                refused   4d6h
    NAMESPACE   NAME   CLASS   APPLIED   PROGRAMMED   ADDRESSES   IN GRACE SINCE   MESSAGE                   AGE
    shop        web    multi   no        no           192.0.2.2   -                conflict with "kubectl"   4d6h
    NAMESPACE   NAME   CLASS   APPLIED    PROGRAMMED   ADDRESSES   IN GRACE SINCE         MESSAGE                                        AGE
    shop        web    multi   deleting   -            -           2026-01-05T05:59:00Z   still being removed from where it was before   4d6h
    "#);
    assert!(web.on("eu-2").is_none());
    let in_sync = |report: &GatewayReport, cluster: &str| report.on(cluster).unwrap().in_sync();
    assert!(
        in_sync(&on_two("False"), "eu-1") && !in_sync(&on_two("False"), "us-1") && !in_sync(&web, "eu-1")
    );
    assert_eq!(on_two("True").on("us-1").unwrap().json()["addresses"], json!(["192.0.2.2"]));
}

#[test]
fn what_cannot_be_read_is_a_fault_and_not_known() {
    let odd = GatewayReport::new(&gateway("True", "", 2, "{"), "multi", None);
    assert!(!odd.in_sync() && odd.on("eu-1").is_some());
    assert_eq!(odd.faults.len(), 1);
    assert_eq!(row(&odd, true)[1..3], ["?", "?/?"]);
    assert_eq!(odd.json()["clusters"], Value::Null);
}

#[test]
fn a_cut_list_is_not_taken_for_all() {
    let mut cut = gateway("False", "x", 2, r#"["eu-1"]"#);
    let mut status: Value = cut.status_as();
    status["conditions"][0]["message"] =
        "left out, because they do not fit: 1 clusters in kuadrant.io/gateway-clusters".into();
    cut.status = serde_json::value::to_raw_value(&status).ok();
    let unread = GatewayReport::new(&cut, "multi", None);
    assert_eq!((row(&unread, false)[1].as_str(), unread.on("us-1").is_some()), ("?", true));
    let here = works(&[("us-1", work(Some("True"), false, false))]);
    assert_eq!(row(&GatewayReport::new(&cut, "multi", Some(&here)), false)[1..3], ["us-1", "1/1"]);
}
